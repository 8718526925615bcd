# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Reference semantics: reductions, scans, sorting and histograms.

Types follow Triton: sums and products of integers below 32 bits widen to 32; `max`, `min` and
`argmax` of bfloat16 are taken in float32, and so are `max` and `min` of float16.
"""

from __future__ import annotations

import numpy as np

from tilery.errors import CompileError
from tilery.language import dtypes as dt
from tilery.language.math import exp, fdiv
from tilery.language.values import as_tensor, cast, plain, tensor


def _axis(x: tensor, axis, name: str) -> int:
    axis = int(plain(axis))
    if not -len(x.shape) <= axis < len(x.shape):
        raise CompileError(f"{name}: axis {axis} does not exist in shape {list(x.shape)}")
    return axis % len(x.shape)


def reduce(input, axis, combine_fn, keep_dims=False):  # noqa: A001
    """Folds `combine_fn` along `axis` (all elements for None); tuples fold together.

    `combine_fn` must be associative. Elements keep their order.
    """
    many = isinstance(input, (tuple, list))
    parts = tuple(as_tensor(p) for p in (input if many else (input,)))
    rank = len(parts[0].shape)
    if plain(axis) is None:
        parts = tuple(p.with_data(p.data.reshape(-1)) for p in parts)
        axis_ = 0
    else:
        axis_ = _axis(parts[0], axis, "tl.reduce")
    data = [np.moveaxis(p.data, axis_, 0) for p in parts]
    while data[0].shape[0] > 1:
        left = [p.with_data(d[0::2]) for p, d in zip(parts, data)]
        right = [p.with_data(d[1::2]) for p, d in zip(parts, data)]
        data = [cast(r, p.dtype).data for r, p in zip(_combined(combine_fn, left, right), parts)]
    results = []
    for part, d in zip(parts, data):
        folded = d[0]
        if plain(keep_dims):
            folded = folded.reshape((1,) * rank) if plain(axis) is None else \
                np.expand_dims(folded, axis_)
        results.append(tensor(folded, part.dtype))
    return tuple(results) if many else results[0]


def _combined(combine_fn, left, right) -> list[tensor]:
    result = combine_fn(*left, *right)
    return list(result) if isinstance(result, tuple) else [result]


def associative_scan(input, axis, combine_fn, reverse=False):
    """Running fold of `combine_fn` along `axis`, from the end when `reverse`."""
    many = isinstance(input, (tuple, list))
    parts = tuple(as_tensor(p) for p in (input if many else (input,)))
    axis_ = _axis(parts[0], axis, "tl.associative_scan")
    data = [np.moveaxis(p.data, axis_, 0) for p in parts]
    if plain(reverse):
        data = [d[::-1] for d in data]
    step = 1
    while step < data[0].shape[0]:
        left = [p.with_data(d[:-step]) for p, d in zip(parts, data)]
        right = [p.with_data(d[step:]) for p, d in zip(parts, data)]
        new = [cast(r, p.dtype).data for r, p in zip(_combined(combine_fn, left, right), parts)]
        data = [np.concatenate([d[:step], n]) for d, n in zip(data, new)]
        step *= 2
    if plain(reverse):
        data = [d[::-1] for d in data]
    results = [tensor(np.moveaxis(d, 0, axis_), p.dtype) for d, p in zip(data, parts)]
    return tuple(results) if many else results[0]


def _sum_type(ty: dt.dtype, wanted) -> dt.dtype:
    if plain(wanted) is not None:
        return dt.from_any(wanted)
    if ty.is_int() and ty.primitive_bitwidth < 32:
        return dt.int32 if ty.is_int_signed() else dt.uint32
    return ty


def _float32_if_bf16(x: tensor) -> tensor:
    return cast(x, dt.float32) if x.dtype.is_bf16() else x


def sum(input, axis=None, keep_dims=False, dtype=None):  # noqa: A001
    """Sum along `axis`; halves are added in float32 and rounded once."""
    x = as_tensor(input)
    ty = _sum_type(x.dtype, dtype)
    x = cast(x, ty)
    axis_ = None if plain(axis) is None else _axis(x, axis, "tl.sum")
    half = ty.is_floating() and ty.primitive_bitwidth < 32
    data = x.data.astype(np.float32) if half else x.data
    total = np.add.reduce(data, axis=axis_, keepdims=bool(plain(keep_dims)), dtype=data.dtype)
    return cast(tensor(total, dt.float32), ty) if half else tensor(total, ty)


def xor_sum(input, axis=None, keep_dims=False):
    x = as_tensor(input)
    if not x.dtype.is_int():
        raise CompileError(f"tl.xor_sum needs integers, not {x.dtype}")
    axis_ = None if plain(axis) is None else _axis(x, axis, "tl.xor_sum")
    total = np.bitwise_xor.reduce(x.data, axis=axis_, keepdims=bool(plain(keep_dims)))
    return tensor(total, x.dtype)


def _extreme(input, axis, keep_dims, return_indices, tie_break_left, largest: bool, name: str):
    x = _float32_if_bf16(as_tensor(input))
    axis_ = None if plain(axis) is None else _axis(x, axis, name)
    keep = bool(plain(keep_dims))
    if not plain(return_indices):
        if x.dtype.primitive_bitwidth < 32:
            x = cast(x, dt.float32 if x.dtype.is_floating() else dt.int32)
        fold = np.fmax if largest else np.fmin
        return tensor(fold.reduce(x.data, axis=axis_, keepdims=keep), x.dtype)
    index = _position(x.data, axis_, keep, plain(tie_break_left), largest)
    if axis_ is None:
        value = x.data.reshape(-1)[index]
    else:
        at = index if keep else np.expand_dims(index, axis_)
        value = np.take_along_axis(x.data, at, axis_)
        value = value if keep else np.squeeze(value, axis_)
    return tensor(value, x.dtype), tensor(index.astype(np.int32), dt.int32)


def _position(data, axis, keep: bool, left: bool, largest: bool) -> np.ndarray:
    """Of the first (`left`) or last best element; numbers are better than NaN."""
    fold = np.fmax if largest else np.fmin
    best = fold.reduce(data, axis=axis, keepdims=True)
    found = (data == best) | ((data != data) & (best != best))
    if left:
        return np.asarray(np.argmax(found, axis=axis, keepdims=keep))
    size = data.size if axis is None else data.shape[axis]
    flipped = found.reshape(-1)[::-1] if axis is None else np.flip(found, axis)
    return np.asarray(size - 1 - np.argmax(flipped, axis=axis,
                                           keepdims=keep and axis is not None))


def max(input, axis=None, return_indices=False, return_indices_tie_break_left=True,  # noqa: A001
        keep_dims=False):
    return _extreme(input, axis, keep_dims, return_indices, return_indices_tie_break_left,
                    True, "tl.max")


def min(input, axis=None, return_indices=False, return_indices_tie_break_left=True,  # noqa: A001
        keep_dims=False):
    return _extreme(input, axis, keep_dims, return_indices, return_indices_tie_break_left,
                    False, "tl.min")


def argmax(input, axis, tie_break_left=True, keep_dims=False) -> tensor:
    return _extreme(input, axis, keep_dims, True, tie_break_left, True, "tl.argmax")[1]


def argmin(input, axis, tie_break_left=True, keep_dims=False) -> tensor:
    return _extreme(input, axis, keep_dims, True, tie_break_left, False, "tl.argmin")[1]


def softmax(x, dim=None, keep_dims=False, ieee_rounding=False) -> tensor:
    """exp(x - max) / sum along `dim` (0 by default)."""
    axis = 0 if plain(dim) is None else plain(dim)
    shifted = x - max(x, axis, keep_dims=True)
    weights = exp(shifted)
    return fdiv(weights, sum(weights, axis, keep_dims=True))


def cumsum(input, axis=0, reverse=False, dtype=None) -> tensor:
    x = _float32_if_bf16(as_tensor(input))
    return _running(np.add, cast(x, _sum_type(x.dtype, dtype)), axis, reverse, "tl.cumsum")


def cumprod(input, axis=0, reverse=False) -> tensor:
    x = _float32_if_bf16(as_tensor(input))
    return _running(np.multiply, x, axis, reverse, "tl.cumprod")


def _running(function, x: tensor, axis, reverse, name: str) -> tensor:
    """Small floats accumulate in float32 and are rounded once."""
    axis_, ty = _axis(x, axis, name), x.dtype
    if ty.is_floating() and ty.primitive_bitwidth < 32:
        x = cast(x, dt.float32)
    function = np.logical_and if ty.is_bool() else function
    data = np.flip(x.data, axis_) if plain(reverse) else x.data
    result = function.accumulate(data, axis=axis_, dtype=x.data.dtype)
    return cast(x.with_data(np.flip(result, axis_) if plain(reverse) else result), ty)


def sort(x, dim=None, descending=False) -> tensor:
    """`x` in order along its last dimension."""
    axis = -1 if plain(dim) is None else _axis(x, dim, "tl.sort")
    if axis not in (-1, len(x.shape) - 1):
        raise CompileError("tl.sort sorts the last dimension only")
    data = np.sort(x.data, axis=-1)
    return x.with_data(data[..., ::-1] if plain(descending) else data)


def topk(x, k, dim=None) -> tensor:
    """The `k` largest of the last dimension, largest first."""
    return x.with_data(sort(x, dim, descending=True).data[..., :int(plain(k))])


def histogram(input, num_bins, mask=None) -> tensor:
    """How often each of 0 .. num_bins - 1 occurs, int32."""
    data = input.data.reshape(-1)
    if plain(mask) is not None:
        data = data[np.broadcast_to(mask.data, input.shape).reshape(-1)]
    bins = int(plain(num_bins))
    data = data[(data >= 0) & (data < bins)].astype(np.int64)
    return tensor(np.bincount(data, minlength=bins).astype(np.int32), dt.int32)


def _method(function):
    return lambda self, *args, **kwargs: function(self, *args, **kwargs)


for _function in (sum, max, min, argmax, argmin, xor_sum, cumsum, cumprod, sort, softmax, reduce,
                  associative_scan, histogram):
    setattr(tensor, _function.__name__, _method(_function))
