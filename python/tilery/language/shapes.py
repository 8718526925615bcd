# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Reference semantics: program ids, creation, shape changes, choice, dot and hints."""

from __future__ import annotations

import math as _math

import numpy as np

from tilery.errors import CompileError, LaunchError
from tilery.interpreter import state
from tilery.language import dtypes as dt
from tilery.language.values import as_tensor, cast as _cast, check_broadcast, plain, promote, tensor


def extents(shape) -> tuple[int, ...]:
    """A shape as plain integers; each must be a power of two."""
    shape = plain(shape)
    shape = (shape,) if not isinstance(shape, (tuple, list)) else shape
    sizes = tuple(int(plain(size)) for size in shape)
    for size in sizes:
        if size < 1 or size & (size - 1):
            raise CompileError(f"shape {list(sizes)} has {size}; extents must be powers of two")
    return sizes


def program_id(axis) -> tensor:
    """Index of this program instance along `axis` (0, 1 or 2) of the grid, int32."""
    return tensor(np.int32(state.instance().program_id[_axis3(axis)]), dt.int32)


def num_programs(axis) -> tensor:
    """Extent of the grid along `axis` (0, 1 or 2), int32."""
    return tensor(np.int32(state.instance().grid[_axis3(axis)]), dt.int32)


def _axis3(axis) -> int:
    axis = int(plain(axis))
    if axis not in (0, 1, 2):
        raise CompileError(f"axis must be 0, 1 or 2, not {axis}")
    return axis


def arange(start, end) -> tensor:
    """start, start + 1 ... end - 1 as int32; end - start is a power of two."""
    start, end = plain(start), plain(end)
    if isinstance(start, tensor) or isinstance(end, tensor):
        raise CompileError("tl.arange needs constants; its arguments must be tl.constexpr")
    if end <= start:
        raise CompileError(f"tl.arange needs end > start, got {start} and {end}")
    extents(end - start)
    return tensor(np.arange(start, end, dtype=np.int32), dt.int32)


def full(shape, value, dtype) -> tensor:
    ty = dt.from_any(dtype)
    data = np.broadcast_to(_cast(value, ty).data, extents(shape))
    return tensor(data.copy(), ty)


def zeros(shape, dtype) -> tensor:
    return full(shape, 0, dtype)


def zeros_like(input) -> tensor:
    return zeros(input.shape, input.dtype)


def cast(input, dtype, fp_downcast_rounding=None, bitcast=False) -> tensor:
    return _cast(input, dtype, bool(plain(bitcast)))


def cat(input, other, can_reorder=False, dim=0) -> tensor:
    """`input` then `other` along `dim`."""
    if input.dtype != other.dtype:
        raise CompileError(f"tl.cat needs one type, got {input.dtype} and {other.dtype}")
    return tensor(np.concatenate([input.data, other.data], axis=int(plain(dim))), input.dtype)


def broadcast(input, other) -> tuple[tensor, tensor]:
    input, other = as_tensor(input), as_tensor(other)
    check_broadcast(input, other)
    shape = np.broadcast_shapes(input.shape, other.shape)
    return tuple(v.with_data(np.broadcast_to(v.data, shape)) for v in (input, other))


def _shape_of(args) -> tuple[int, ...]:
    args = plain(args[0]) if len(args) == 1 and isinstance(plain(args[0]), (tuple, list)) else args
    return extents(tuple(args))


def broadcast_to(input, *shape) -> tensor:
    input, sizes = as_tensor(input), _shape_of(shape)
    try:
        return input.with_data(np.broadcast_to(input.data, sizes))
    except ValueError:
        raise CompileError(
            f"shape {list(input.shape)} does not broadcast to {list(sizes)}") from None


def expand_dims(input, axis) -> tensor:
    axis = plain(axis)
    axis = tuple(plain(a) for a in axis) if isinstance(axis, (tuple, list)) else axis
    return as_tensor(input).with_data(np.expand_dims(as_tensor(input).data, axis))


def reshape(input, *shape, can_reorder=False) -> tensor:
    sizes = _shape_of(shape)
    if _math.prod(sizes) != input.numel:
        raise CompileError(
            f"cannot reshape {list(input.shape)} ({input.numel} elements) to {list(sizes)} "
            f"({_math.prod(sizes)} elements)")
    return input.with_data(input.data.reshape(sizes))


def view(input, *shape) -> tensor:
    return reshape(input, *shape)


def ravel(x, can_reorder=False) -> tensor:
    return x.with_data(x.data.reshape(-1))


def permute(input, *dims) -> tensor:
    dims = plain(dims[0]) if len(dims) == 1 and isinstance(plain(dims[0]), (tuple, list)) else dims
    order = tuple(int(plain(d)) for d in dims)
    if sorted(order) != list(range_(len(input.shape))):
        raise CompileError(f"{list(order)} is not an order of {len(input.shape)} dimensions")
    return input.with_data(np.transpose(input.data, order))


def trans(input, *dims) -> tensor:
    return permute(input, *dims) if dims else input.T


def flip(x, dim=None) -> tensor:
    axis = -1 if plain(dim) is None else int(plain(dim))
    return x.with_data(np.flip(x.data, axis))


def join(a, b) -> tensor:
    """A new last dimension of 2 that holds `a` and `b`."""
    a, b = broadcast(a, b)
    return tensor(np.stack([a.data, b.data], axis=-1), a.dtype)


def split(a) -> tuple[tensor, tensor]:
    """The two halves of a last dimension of 2; inverse of `join`."""
    if not a.shape or a.shape[-1] != 2:
        raise CompileError(f"tl.split needs a last dimension of 2, got shape {list(a.shape)}")
    return a.with_data(a.data[..., 0]), a.with_data(a.data[..., 1])


def interleave(a, b) -> tensor:
    """a[0], b[0], a[1], b[1] ... along the last dimension."""
    joined = join(a, b)
    return joined.with_data(joined.data.reshape(*joined.shape[:-2], -1))


def where(condition, x, y) -> tensor:
    """`x` where `condition`, else `y`; both are evaluated."""
    condition = _cast(condition, dt.int1)
    x, y = plain(x), plain(y)
    if isinstance(x, tensor) and x.dtype.is_ptr():
        if not isinstance(y, tensor) or y.dtype != x.dtype:
            other = y.dtype if isinstance(y, tensor) else type(y).__name__
            raise CompileError(f"tl.where needs two values of one type, not {x.dtype} and {other}")
        place = x.place if x.place is y.place else None
        if condition.data.ndim == x.data.ndim == y.data.ndim == 0:
            place = x.place if condition.data else y.place
        return tensor(np.where(condition.data, x.data, y.data), x.dtype, place)
    x, y, ty = promote(x, y, "tl.where")
    check_broadcast(condition, x)
    return tensor(np.where(condition.data, x.data, y.data), ty)


def gather(src, index, axis) -> tensor:
    """out[i, j] = src[index[i, j], j] for axis 0, and so on."""
    axis = int(plain(axis))
    if np.any((index.data < 0) | (index.data >= src.shape[axis])):
        raise LaunchError(f"tl.gather index is outside 0..{src.shape[axis] - 1}")
    return src.with_data(np.take_along_axis(src.data, index.data.astype(np.int64), axis))


def dot(input, other, acc=None, input_precision=None, allow_tf32=None,
        max_num_imprecise_acc=None, out_dtype=dt.float32) -> tensor:
    """Matrix product of (..., M, K) and (..., K, N), plus `acc`.

    Floats accumulate in float32 (float64 operands in float64), int8 in int32. The result has
    the type of `acc`, or else `out_dtype`.
    """
    left, right = input.dtype, other.dtype
    if left != right:
        raise CompileError(f"tl.dot needs operands of one type, got {left} and {right}")
    if input.shape[-1] != other.shape[-2]:
        raise CompileError(
            f"tl.dot: {list(input.shape)} and {list(other.shape)} differ in K "
            f"({input.shape[-1]} and {other.shape[-2]})")
    if left.is_int():
        result, wide = dt.int32, np.int32
    else:
        result = dt.float64 if left.is_fp64() else dt.from_any(out_dtype)
        wide = np.float64 if left.is_fp64() else np.float32
    acc = plain(acc)
    if acc is not None:
        result = acc.dtype
    product = np.matmul(input.data.astype(wide), other.data.astype(wide))
    if acc is not None:
        if acc.shape != product.shape:
            raise CompileError(
                f"tl.dot: the accumulator has shape {list(acc.shape)}, the product "
                f"{list(product.shape)}")
        product = acc.data.astype(wide) + product
    return _cast(tensor(product, dt.from_any(np.dtype(wide))), result)


def swizzle2d(i, j, size_i, size_j, size_g) -> tuple[tensor, tensor]:
    """Renumbers a row-major grid so that `size_g` rows form a group walked column by column."""
    ij = i * size_j + j
    size_gj = size_g * size_j
    group = as_tensor(ij) // size_gj
    offset = group * size_g
    rows = as_tensor(size_i) - offset
    rows = tensor(np.minimum(rows.data, int(plain(size_g))), rows.dtype)
    inside = as_tensor(ij) % size_gj
    return offset + inside % rows, inside // rows


# -- loops, hints, debugging ------------------------------------------------------------


class range_iter:
    """Values of a loop: int32 scalars (int64 where a bound is), as in compiled code."""

    def __init__(self, *bounds):
        bounds = [plain(b) for b in bounds]
        types = [as_tensor(b).dtype for b in bounds]
        self.dtype = dt.int64 if any(ty in (dt.int64, dt.uint64) for ty in types) else dt.int32
        self.values = range_(*(int(b) for b in bounds))

    def __iter__(self):
        for value in self.values:
            yield tensor(self.dtype.numpy.type(value), self.dtype)


range_ = __builtins__["range"] if isinstance(__builtins__, dict) else __builtins__.range


def range(arg1, arg2=None, step=None, num_stages=None, loop_unroll_factor=None,  # noqa: A001
          disallow_acc_multi_buffer=False, flatten=False, warp_specialize=False,
          disable_licm=False):
    """A loop with hints; the hints do not change results."""
    bounds = [b for b in (arg1, arg2, step) if plain(b) is not None]
    if plain(arg2) is None and plain(step) is not None:
        bounds = [0, arg1, step]
    return range_iter(*bounds)


def static_range(arg1, arg2=None, step=None):
    """A loop that is unrolled; its bounds and its variable are constants."""
    bounds = [plain(b) for b in (arg1, arg2, step) if plain(b) is not None]
    if any(isinstance(bound, tensor) for bound in bounds):
        raise CompileError("tl.static_range needs constants; pass its bounds as tl.constexpr")
    return range_(*bounds)


def multiple_of(input, values):
    return input


def max_contiguous(input, values):
    return input


def max_constancy(input, values):
    return input


def assume(cond) -> None:
    """Promises that `cond` holds; the interpreter checks it."""
    if not np.all(as_tensor(cond).data):
        raise LaunchError("a condition given to tl.assume is false")


def debug_barrier() -> None:
    return None


def static_assert(cond, msg="") -> None:
    if not plain(cond):
        raise CompileError(f"static assertion failed: {plain(msg)}" if plain(msg)
                           else "static assertion failed")


def static_print(*values, sep=" ", end="\n", file=None, flush=False) -> None:
    print(*(plain(v) for v in values), sep=sep, end=end)


def device_assert(cond, msg="", mask=None) -> None:
    ok = as_tensor(cond).data
    if plain(mask) is not None:
        ok = ok | ~as_tensor(mask).data
    if not np.all(ok):
        raise LaunchError(f"device assertion failed: {plain(msg)}" if plain(msg)
                          else "device assertion failed")


def device_print(prefix, *args, hex=False) -> None:
    where_ = state.instance()
    pid = ", ".join(str(i) for i in where_.program_id)
    for value in args or ("",):
        text = as_tensor(value).data if value != "" else ""
        print(f"rank {where_.rank} pid ({pid}) {plain(prefix)}{text}")
