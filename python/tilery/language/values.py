# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Values of the executable reference: a NumPy array with an element type and Triton's operators.

A scalar is a tile of shape (). A pointer tile holds absolute addresses and remembers the
memory behind it (`place`), so that an access outside of it is reported by name.
"""

from __future__ import annotations

import numpy as np

from tilery.errors import CompileError, LaunchError
from tilery.interpreter import state
from tilery.language import dtypes as dt


class constexpr:
    """A compile-time constant; `tl.constexpr` as an annotation marks such a parameter."""

    def __init__(self, value):
        self.value = getattr(value, "value", value) if isinstance(value, constexpr) else value

    def __repr__(self):
        return f"constexpr[{self.value}]"

    def __index__(self):
        return self.value.__index__()

    def __bool__(self):
        return bool(self.value)

    def __hash__(self):
        return hash(self.value)

    def __call__(self, *args, **kwargs):
        return self.value(*args, **kwargs)

    def __getattr__(self, name):
        return getattr(self.value, name)


def _forward(name: str):
    def operator(self, *others):
        return getattr(_number(self.value), name)(*(plain(other) for other in others))
    return operator


def _number(value):
    return value


for _name in ("add radd sub rsub mul rmul truediv rtruediv floordiv rfloordiv mod rmod pow rpow "
              "and rand or ror xor rxor lshift rlshift rshift rrshift lt le gt ge eq ne neg pos "
              "invert abs int float").split():
    setattr(constexpr, f"__{_name}__", _forward(f"__{_name}__"))


def plain(value):
    """`value` without its constexpr wrapping."""
    return value.value if isinstance(value, constexpr) else value


def is_literal(value) -> bool:
    return isinstance(value, (bool, int, float, np.number, np.bool_))


class tensor:
    """A tile, or a scalar, of one program instance.

    Operators follow Triton: promotion by `dtypes.computation_type`, shapes broadcast, integer
    overflow wraps, `//` and `%` of integers truncate towards zero.
    """

    __array_priority__ = 1000

    def __init__(self, data, ty: dt.dtype, place=None):
        self.data = np.asarray(data)
        self.dtype = ty
        self.place = place

    # -- shape and type --------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, ...]:
        return self.data.shape

    @property
    def type(self) -> dt.dtype:
        return self.dtype

    @property
    def numel(self) -> int:
        return self.data.size

    @property
    def T(self) -> "tensor":
        return self.with_data(self.data.T if self.data.ndim == 2
                              else np.swapaxes(self.data, -1, -2))

    def with_data(self, data) -> "tensor":
        return tensor(data, self.dtype, self.place)

    def __repr__(self):
        return f"tile<{self.dtype}{list(self.shape)}>({self.data})"

    # -- Python protocol: a scalar can steer control flow ------------------------------

    def _scalar(self, purpose: str):
        if self.data.ndim:
            raise CompileError(
                f"a tile of shape {list(self.shape)} cannot be used as {purpose}; "
                "combine conditions with & and |, choose with tl.where")
        return self.data[()]

    def __bool__(self):
        return bool(self._scalar("a condition"))

    def __index__(self):
        if not self.dtype.is_int():
            raise CompileError(f"a {self.dtype} value cannot be used as an integer")
        return int(self._scalar("an integer"))

    def __int__(self):
        return int(self._scalar("an integer"))

    def __float__(self):
        return float(self._scalar("a number"))

    def __hash__(self):
        return id(self)

    def __format__(self, spec):
        return format(self.data[()], spec) if self.data.ndim == 0 else str(self.data)

    def __getitem__(self, index) -> "tensor":
        index = index if isinstance(index, tuple) else (index,)
        for part in index:
            if part is not None and part != slice(None):
                raise CompileError(
                    f"a tile is indexed only by ':' and None, not by {part!r}; "
                    "take elements with tl.gather or a reduction")
        return self.with_data(self.data[index])

    # -- conversions ---------------------------------------------------------------------

    def to(self, ty, fp_downcast_rounding=None, bitcast=False) -> "tensor":
        return cast(self, ty, bitcast=bitcast)

    # -- arithmetic ----------------------------------------------------------------------

    def __add__(self, other):
        return add(self, other)

    def __radd__(self, other):
        return add(other, self)

    def __sub__(self, other):
        return sub(self, other)

    def __rsub__(self, other):
        return sub(other, self)

    def __mul__(self, other):
        return arithmetic(np.multiply, self, other, "*")

    def __rmul__(self, other):
        return arithmetic(np.multiply, other, self, "*")

    def __truediv__(self, other):
        return truediv(self, other)

    def __rtruediv__(self, other):
        return truediv(other, self)

    def __floordiv__(self, other):
        return floordiv(self, other)

    def __rfloordiv__(self, other):
        return floordiv(other, self)

    def __mod__(self, other):
        return mod(self, other)

    def __rmod__(self, other):
        return mod(other, self)

    def __neg__(self):
        return self if self.dtype.is_bool() else self.with_data(np.negative(self.data))

    def __pos__(self):
        return self

    def __invert__(self):
        if not self.dtype.is_int():
            raise CompileError(f"~ needs integers, not {self.dtype}")
        return self.with_data(np.invert(self.data))

    def __abs__(self):
        return self.with_data(np.abs(self.data))

    def __and__(self, other):
        return bitwise(np.bitwise_and, self, other, "&")

    def __rand__(self, other):
        return bitwise(np.bitwise_and, other, self, "&")

    def __or__(self, other):
        return bitwise(np.bitwise_or, self, other, "|")

    def __ror__(self, other):
        return bitwise(np.bitwise_or, other, self, "|")

    def __xor__(self, other):
        return bitwise(np.bitwise_xor, self, other, "^")

    def __rxor__(self, other):
        return bitwise(np.bitwise_xor, other, self, "^")

    def __lshift__(self, other):
        return bitwise(np.left_shift, self, other, "<<")

    def __rlshift__(self, other):
        return bitwise(np.left_shift, other, self, "<<")

    def __rshift__(self, other):
        return bitwise(np.right_shift, self, other, ">>")

    def __rrshift__(self, other):
        return bitwise(np.right_shift, other, self, ">>")

    def __lt__(self, other):
        return compare(np.less, self, other)

    def __le__(self, other):
        return compare(np.less_equal, self, other)

    def __gt__(self, other):
        return compare(np.greater, self, other)

    def __ge__(self, other):
        return compare(np.greater_equal, self, other)

    def __eq__(self, other):
        return compare(np.equal, self, other)

    def __ne__(self, other):
        return compare(np.not_equal, self, other)

    def logical_and(self, other):
        return cast(self, dt.int1) & cast(as_tensor(other), dt.int1)

    def logical_or(self, other):
        return cast(self, dt.int1) | cast(as_tensor(other), dt.int1)


# Triton's name for the type of a tile in annotations.
block_type = tensor


def as_tensor(value) -> tensor:
    """`value` as a tile; a Python number gets the type that `dtypes.of_literal` gives it."""
    value = plain(value)
    if isinstance(value, tensor):
        return value
    if isinstance(value, dt.dtype):
        raise CompileError(f"expected a value, got the type {value}")
    if not is_literal(value):
        raise CompileError(f"expected a number or a tile, got {type(value).__name__} {value!r}")
    ty = dt.of_literal(value)
    return tensor(np.asarray(value, dtype=ty.numpy), ty)


def cast(value, ty, bitcast: bool = False) -> tensor:
    """`value` in the element type `ty`.

    Floats round to nearest even and fp8 saturates; floats become integers towards zero and
    saturate; integers wrap; anything becomes int1 by comparison with zero.
    """
    value, ty = as_tensor(value), dt.from_any(ty)
    source = value.dtype
    if source == ty:
        return value
    if bitcast or source.is_ptr() or ty.is_ptr():
        return _reinterpret(value, ty)
    data = value.data
    if ty.is_bool():
        return tensor(data != 0, ty)
    if ty.is_fp8():
        limit = 448.0 if ty.name == "fp8e4nv" else 57344.0
        data = np.clip(data.astype(np.float32), -limit, limit)
    elif source.is_fp8() or source.is_bf16():
        data = data.astype(np.float32)
    if source.is_floating() and ty.is_int():
        return tensor(_saturated(data, ty), ty)
    return tensor(data.astype(ty.numpy), ty)


def _saturated(data: np.ndarray, ty: dt.dtype) -> np.ndarray:
    """Floats as integers: towards zero, limited to the type's range, NaN becomes 0."""
    low, high = ty.int_range()
    wide = np.nan_to_num(data.astype(np.float64), nan=0.0, posinf=2.0**65, neginf=-2.0**65)
    wide = np.trunc(wide)
    inside = np.where((wide >= low) & (wide < float(high)), wide, 0).astype(ty.numpy)
    limits = np.where(wide < low, ty.numpy.type(low), ty.numpy.type(high))
    return np.where((wide < low) | (wide >= float(high)), limits, inside).astype(ty.numpy)


def _reinterpret(value: tensor, ty: dt.dtype) -> tensor:
    source = value.dtype
    if source.primitive_bitwidth != ty.primitive_bitwidth:
        raise CompileError(f"cannot reinterpret {source} as {ty}: their sizes differ")
    data = np.ascontiguousarray(value.data).reshape(value.data.shape).view(ty.numpy)
    return tensor(data, ty, value.place if ty.is_ptr() else None)


def promote(left, right, symbol: str, division: bool = False) -> tuple[tensor, tensor, dt.dtype]:
    """Both operands in the type of the operation, with shapes that broadcast."""
    left, right = plain(left), plain(right)
    weak_l, weak_r = is_literal(left), is_literal(right)
    tile_l, tile_r = as_tensor(left), as_tensor(right)
    if tile_l.dtype.is_ptr() or tile_r.dtype.is_ptr():
        raise CompileError(f"{symbol} does not take pointers ({tile_l.dtype} and {tile_r.dtype})")
    ty = dt.computation_type(tile_l.dtype, weak_l, tile_r.dtype, weak_r, division)
    for value, weak in ((left, weak_l), (right, weak_r)):
        if weak and ty.is_int() and not ty.is_bool():
            _check_literal(value, ty)
    tile_l = _literal(left, ty) if weak_l else cast(tile_l, ty)
    tile_r = _literal(right, ty) if weak_r else cast(tile_r, ty)
    check_broadcast(tile_l, tile_r)
    return tile_l, tile_r, ty


def _literal(value, ty: dt.dtype) -> tensor:
    if ty.is_floating():  # rounded once, from the double that Python has
        return cast(tensor(np.asarray(value, np.float64), dt.float64), ty)
    return tensor(np.asarray(int(value) if not ty.is_bool() else value).astype(ty.numpy), ty)


def _check_literal(value, ty: dt.dtype) -> None:
    low, high = ty.int_range()
    if not low <= int(value) <= high:
        raise CompileError(f"the literal {value} is out of range for {ty}")


def check_broadcast(left: tensor, right: tensor) -> None:
    try:
        np.broadcast_shapes(left.shape, right.shape)
    except ValueError:
        raise CompileError(
            f"shapes {list(left.shape)} and {list(right.shape)} do not broadcast") from None


# int1 wraps like every integer. A shift by one leaves nothing; the only divisor is 1.
_ON_BOOLEANS = {"+": np.logical_xor, "-": np.logical_xor, "*": np.logical_and,
                "//": np.logical_and, "%": np.greater, "<<": np.greater, ">>": np.greater}


def arithmetic(function, left, right, symbol: str) -> tensor:
    left, right, ty = promote(left, right, symbol)
    function = _ON_BOOLEANS[symbol] if ty.is_bool() else function
    if symbol in _CHECKED and ty.is_int() and not ty.is_bool() and ty.primitive_bitwidth < 64:
        _check_overflow(function, left.data, right.data, ty, _CHECKED[symbol])
    return tensor(function(left.data, right.data), ty)


_CHECKED = {"+": "add", "-": "sub", "*": "mul"}


def _check_overflow(function, left, right, ty: dt.dtype, name: str) -> None:
    """In a launch with debug=True the exact result must fit the type."""
    running = state.task()
    if running is None or not getattr(getattr(running, "launch", None), "debug", False):
        return
    exact = function(left.astype(object), right.astype(object))
    low, high = ty.int_range()
    if not np.all((exact >= low) & (exact <= high)):
        raise LaunchError(f"int{ty.primitive_bitwidth} overflow detected for operation {name}")


def add(left, right) -> tensor:
    left, right = plain(left), plain(right)
    if isinstance(right, tensor) and right.dtype.is_ptr():
        left, right = right, left
    if isinstance(left, tensor) and left.dtype.is_ptr():
        return offset(left, right, 1)
    return arithmetic(np.add, left, right, "+")


def sub(left, right) -> tensor:
    if isinstance(left, tensor) and left.dtype.is_ptr():
        return offset(left, right, -1)
    return arithmetic(np.subtract, left, right, "-")


def offset(pointer: tensor, count, sign: int) -> tensor:
    """Pointer arithmetic: `count` elements on (or back); addresses are 64-bit."""
    count = as_tensor(count)
    if not count.dtype.is_int():
        raise CompileError(f"a pointer moves by integers, not by {count.dtype}")
    check_broadcast(pointer, count)
    step = np.int64(sign * pointer.dtype.element_ty.itemsize)
    return tensor(pointer.data + count.data.astype(np.int64) * step, pointer.dtype, pointer.place)


def truediv(left, right) -> tensor:
    left, right, ty = promote(left, right, "/", division=True)
    if ty.is_int():
        left, right, ty = cast(left, dt.float32), cast(right, dt.float32), dt.float32
    return tensor(np.divide(left.data, right.data), ty)


def _integers(left, right, symbol: str):
    left, right, ty = promote(left, right, symbol, division=True)
    if not ty.is_int():
        raise CompileError(f"{symbol} needs integers, not {ty}; use / and tl.floor")
    return left, right, ty


def _quotient(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore", over="ignore"):
        quotient = np.floor_divide(left, right)
        inexact = (np.remainder(left, right) != 0) & ((left < 0) != (right < 0))
    return np.where(right == 0, 0, quotient + inexact).astype(quotient.dtype)


def _remainder(left, right):
    """Of `_quotient`: what is left of x // 0 = 0 is x."""
    with np.errstate(divide="ignore"):
        remainder = np.fmod(left, right)
    return np.where(right == 0, left, remainder).astype(remainder.dtype)


def floordiv(left, right) -> tensor:
    left, right, ty = _integers(left, right, "//")
    if ty.is_bool():
        return tensor(_ON_BOOLEANS["//"](left.data, right.data), ty)
    return tensor(_quotient(left.data, right.data), ty)


def mod(left, right) -> tensor:
    probe_l, probe_r = as_tensor(left), as_tensor(right)
    if probe_l.dtype.is_floating() or probe_r.dtype.is_floating():
        left, right, ty = promote(left, right, "%", division=True)
        return tensor(np.fmod(left.data, right.data), ty)
    left, right, ty = _integers(left, right, "%")
    if ty.is_bool():
        return tensor(_ON_BOOLEANS["%"](left.data, right.data), ty)
    return tensor(_remainder(left.data, right.data), ty)


def bitwise(function, left, right, symbol: str) -> tensor:
    left, right, ty = promote(left, right, symbol)
    if not ty.is_int():
        raise CompileError(f"{symbol} needs integers, not {ty}")
    function = _ON_BOOLEANS.get(symbol, function) if ty.is_bool() else function
    return tensor(function(left.data, right.data), ty)


def compare(function, left, right) -> tensor:
    left, right = plain(left), plain(right)
    if right is None or isinstance(right, (str, dt.dtype)):
        return function is np.not_equal  # a run-time value equals no constant of another kind
    pointers = [v.dtype.is_ptr() if isinstance(v, tensor) else False for v in (left, right)]
    if any(pointers):
        left, right = (tensor(as_tensor(v).data.astype(np.int64), dt.int64) for v in (left, right))
    left, right, _ = promote(left, right, "a comparison")
    return tensor(function(left.data, right.data), dt.int1)
