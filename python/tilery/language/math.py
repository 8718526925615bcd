# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Reference semantics: elementwise mathematics.

Functions of one argument compute float16 and bfloat16 in float32 and round the result once.
"""

from __future__ import annotations

import numpy as np

from tilery.errors import CompileError
from tilery.language import dtypes as dt
from tilery.language.values import as_tensor, cast, plain, promote, tensor


def _unary(x, function, name: str) -> tensor:
    x = as_tensor(x)
    if not x.dtype.is_floating():
        raise CompileError(f"tl.{name} needs floats, not {x.dtype}; convert with .to(tl.float32)")
    if x.dtype in (dt.float32, dt.float64):
        return tensor(function(x.data).astype(x.data.dtype), x.dtype)
    return cast(tensor(function(x.data.astype(np.float32)), dt.float32), x.dtype)


def exp(x):
    return _unary(x, np.exp, "exp")


def exp2(x):
    return _unary(x, np.exp2, "exp2")


def log(x):
    return _unary(x, np.log, "log")


def log2(x):
    return _unary(x, np.log2, "log2")


def sin(x):
    return _unary(x, np.sin, "sin")


def tanh(x):
    return _unary(x, np.tanh, "tanh")


def cos(x):
    return _unary(x, np.cos, "cos")


def sqrt(x):
    return _unary(x, np.sqrt, "sqrt")


def sqrt_rn(x):
    return _unary(x, np.sqrt, "sqrt_rn")


def rsqrt(x):
    return _unary(x, lambda v: 1 / np.sqrt(v), "rsqrt")


def floor(x):
    return _unary(x, np.floor, "floor")


def ceil(x):
    return _unary(x, np.ceil, "ceil")


def erf(x):
    return _unary(x, _erf, "erf")


def _erf(values: np.ndarray) -> np.ndarray:
    """erf by its power series near 0 and a continued fraction outside, in float64.

    Abramowitz and Stegun 7.1.6 and 7.1.14.
    """
    x = np.abs(values.astype(np.float64))
    small = np.minimum(x, 3.0)
    term = total = small
    for n in range(1, 80):
        term = term * 2 * small * small / (2 * n + 1)
        total = total + term
    series = 2 / np.sqrt(np.pi) * np.exp(-small * small) * total
    large = np.clip(x, 1.0, 30.0)
    fraction = large
    for n in range(60, 0, -1):
        fraction = large + n / 2 / fraction
    tail = 1 - np.exp(-large * large) / np.sqrt(np.pi) / fraction
    return np.where(np.isnan(values), np.nan, np.sign(values) * np.where(x < 3.0, series, tail))


def abs(x):  # noqa: A001
    x = as_tensor(x)
    return x if x.dtype.is_int_unsigned() else x.with_data(np.abs(x.data))


def sigmoid(x):
    x = as_tensor(x)
    return 1 / (1 + exp(-x))


def fma(x, y, z):
    """x * y + z, rounded once."""
    x, y, _ = promote(x, y, "tl.fma")
    x, z, ty = promote(x, z, "tl.fma")
    y = cast(y, ty)
    if ty.is_bool():
        return x * y + z
    wide = np.float64 if x.dtype.is_floating() else x.data.dtype
    result = x.data.astype(wide) * y.data.astype(wide) + z.data.astype(wide)
    return tensor(result.astype(x.data.dtype), x.dtype)


def fdiv(x, y, ieee_rounding=False):
    x, y, ty = promote(x, y, "tl.fdiv")
    if not ty.is_floating():
        raise CompileError(f"tl.fdiv needs floats, not {ty}")
    return tensor(np.divide(x.data, y.data), ty)


def div_rn(x, y):
    return fdiv(x, y)


def cdiv(x, div):
    """Ceiling division of integers; constants give a constant."""
    x, div = plain(x), plain(div)
    return (x + div - 1) // div


def next_power_of_2(n):
    """The smallest power of two >= the constant n."""
    n = plain(n)
    if isinstance(n, tensor):
        raise CompileError("tl.next_power_of_2 needs a constant")
    return 1 << max(0, n - 1).bit_length()


def umulhi(x, y):
    """Upper half of the product of two 32- or 64-bit integers taken as unsigned."""
    x, y, ty = promote(x, y, "tl.umulhi")
    if ty.primitive_bitwidth not in (32, 64) or not ty.is_int():
        raise CompileError(f"tl.umulhi needs 32- or 64-bit integers, not {ty}")
    bits = ty.primitive_bitwidth
    mask = (1 << bits) - 1
    product = (x.data.astype(object) & mask) * (y.data.astype(object) & mask) >> bits
    unsigned = np.asarray(product & mask).astype(np.uint32 if bits == 32 else np.uint64)
    return tensor(unsigned.astype(x.data.dtype), ty)


def _choose(x, y, ignoring, propagating, propagate_nan, name: str):
    x, y, ty = promote(x, y, name)
    keep = str(plain(propagate_nan)).upper().endswith("ALL")
    return tensor((propagating if keep else ignoring)(x.data, y.data), ty)


def maximum(x, y, propagate_nan="none"):
    """The larger; of a number and a NaN, the number (unless propagate_nan is "all")."""
    return _choose(x, y, np.fmax, np.maximum, propagate_nan, "tl.maximum")


def minimum(x, y, propagate_nan="none"):
    return _choose(x, y, np.fmin, np.minimum, propagate_nan, "tl.minimum")


def clamp(x, min, max, propagate_nan="none"):  # noqa: A002
    """x limited to min..max, where min <= max."""
    if str(plain(propagate_nan)).upper().endswith("ALL"):
        return minimum(maximum(x, min, "all"), max, "all")
    return minimum(maximum(x, min), max)
