# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Element types of the kernel language and the promotion rules between them.

The names and the rules are Triton 3.6's: a literal is weakly typed, two halves divide in
float32, a float16 and a bfloat16 meet in float32 ... (`computation_type`).
"""

from __future__ import annotations

import functools
import importlib

import numpy as np

from tilery.errors import CompileError, ConfigError

_BOOL, _INT, _FLOAT = 0, 1, 2


class dtype:
    """An element type, such as `tl.float32`; `str()` gives its short name, "fp32"."""

    def __init__(self, name: str, bits: int, numpy_name: str, kind: int, signed: bool = True):
        self.name = name
        self.primitive_bitwidth = bits
        self.kind = kind
        self.signed = signed
        self._numpy_name = numpy_name

    @functools.cached_property
    def numpy(self) -> np.dtype:
        """The NumPy type that holds one element; bfloat16 and float8 come from ml_dtypes."""
        if hasattr(np, self._numpy_name):
            return np.dtype(getattr(np, self._numpy_name))
        try:
            return np.dtype(getattr(importlib.import_module("ml_dtypes"), self._numpy_name))
        except ImportError:
            raise ConfigError(f"NumPy arrays of {self.name} need the package ml_dtypes, which is "
                              "not installed; pip install ml_dtypes") from None

    @property
    def itemsize(self) -> int:
        return max(1, self.primitive_bitwidth // 8)

    @property
    def scalar(self) -> "dtype":
        return self

    @property
    def int_bitwidth(self) -> int:
        return self.primitive_bitwidth

    @property
    def mantissa(self) -> int:
        return {"fp16": 10, "bf16": 7, "fp32": 23, "fp64": 52, "fp8e4nv": 3, "fp8e5": 2}[self.name]

    def is_floating(self) -> bool:
        return self.kind == _FLOAT

    def is_int(self) -> bool:
        return self.kind in (_BOOL, _INT)

    def is_bool(self) -> bool:
        return self.kind == _BOOL

    def is_int_signed(self) -> bool:
        return self.is_int() and self.signed

    def is_int_unsigned(self) -> bool:
        return self.is_int() and not self.signed

    def is_ptr(self) -> bool:
        return False

    def is_fp8(self) -> bool:
        return self.name.startswith("fp8")

    def is_fp16(self) -> bool:
        return self.name == "fp16"

    def is_bf16(self) -> bool:
        return self.name == "bf16"

    def is_fp32(self) -> bool:
        return self.name == "fp32"

    def is_fp64(self) -> bool:
        return self.name == "fp64"

    def int_range(self) -> tuple[int, int]:
        """Smallest and largest value of an integer type."""
        if self.is_bool():
            return 0, 1
        bits = self.primitive_bitwidth
        return (-(1 << bits - 1), (1 << bits - 1) - 1) if self.signed else (0, (1 << bits) - 1)

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self):
        return _by_name, (self.name,)

    def __hash__(self) -> int:
        return hash(self.name)

    def __eq__(self, other) -> bool:
        other = getattr(other, "value", other)
        return isinstance(other, dtype) and other.name == self.name

    def to(self, other):
        raise CompileError(f"{self.name} is a type; only values are converted with .to()")


class pointer_type(dtype):
    """Pointer to `element_ty`; what `x.dtype` is for a pointer argument."""

    def __init__(self, element_ty: dtype):
        super().__init__(f"*{element_ty.name}", 64, "int64", _INT)
        self.element_ty = element_ty

    def is_int(self) -> bool:
        return False

    def is_ptr(self) -> bool:
        return True

    def __reduce__(self):
        return pointer_type, (self.element_ty,)


int1 = dtype("int1", 1, "bool_", _BOOL, signed=False)
int8 = dtype("int8", 8, "int8", _INT)
int16 = dtype("int16", 16, "int16", _INT)
int32 = dtype("int32", 32, "int32", _INT)
int64 = dtype("int64", 64, "int64", _INT)
uint8 = dtype("uint8", 8, "uint8", _INT, signed=False)
uint16 = dtype("uint16", 16, "uint16", _INT, signed=False)
uint32 = dtype("uint32", 32, "uint32", _INT, signed=False)
uint64 = dtype("uint64", 64, "uint64", _INT, signed=False)
float16 = dtype("fp16", 16, "float16", _FLOAT)
bfloat16 = dtype("bf16", 16, "bfloat16", _FLOAT)
float32 = dtype("fp32", 32, "float32", _FLOAT)
float64 = dtype("fp64", 64, "float64", _FLOAT)
float8e4nv = dtype("fp8e4nv", 8, "float8_e4m3fn", _FLOAT)
float8e5 = dtype("fp8e5", 8, "float8_e5m2", _FLOAT)
# A signal's 64-bit word: only notify, put_signal and wait may touch it.
signal = dtype("signal", 64, "uint64", _INT, signed=False)

# In the order of tilery_dtype (include/tilery/tilery.h).
ALL = (
    int1, int8, int16, int32, int64, uint8, uint16, uint32, uint64,
    float16, bfloat16, float32, float64, float8e4nv, float8e5, signal,
)  # fmt: skip
CODES = {ty.name: code for code, ty in enumerate(ALL)}
_NAMES = {ty.name: ty for ty in ALL}
_NUMPY = {ty._numpy_name: ty for ty in ALL[:-1]} | {"bool": int1}
_ALIASES = {"float16": "fp16", "bfloat16": "bf16", "float32": "fp32", "float64": "fp64"}


def _by_name(name: str) -> dtype:
    return _NAMES[name]


def from_any(source) -> dtype:
    """The element type that `source` names: a dtype, a NumPy or torch dtype, or a name.

    Example: `from_any("bf16") is bfloat16`, `from_any(np.float32) is float32`.
    """
    source = getattr(source, "value", source)
    if isinstance(source, dtype):
        return source
    name = source if isinstance(source, str) else _numpy_type_name(source)
    name = _ALIASES.get(name, name).removeprefix("torch.")
    found = _NAMES.get(_ALIASES.get(name, name)) or _NUMPY.get(name)
    if found is None:
        raise CompileError(f"{source!r} is not an element type of the kernel language")
    return found


def _numpy_type_name(source) -> str:
    text = str(source)
    if text.startswith("torch."):
        return text.removeprefix("torch.")
    try:
        return np.dtype(source).name
    except TypeError:
        return text


def of_literal(value) -> dtype:
    """The type that a Python number has where no tile decides it."""
    if isinstance(value, (bool, np.bool_)):
        return int1
    if isinstance(value, (int, np.integer)):
        for ty in (int32, uint32, int64, uint64):
            low, high = ty.int_range()
            if low <= value <= high:
                return ty
        raise CompileError(f"the integer {value} does not fit in 64 bits")
    if isinstance(value, (float, np.floating)):
        tiny, huge = 2.0**-126, (2 - 2**-23) * 2.0**127
        size = abs(value)
        fits = size == 0.0 or size != size or size == float("inf") or tiny <= size <= huge
        return float32 if fits else float64
    raise CompileError(f"{value!r} of type {type(value).__name__} is not a number or a tile")


def integer_promote(left: dtype, right: dtype) -> dtype:
    """C's usual arithmetic conversions."""
    bits_l, bits_r = left.primitive_bitwidth, right.primitive_bitwidth
    if left.signed == right.signed:
        return left if bits_l > bits_r else right
    if not left.signed:
        return left if bits_l >= bits_r else right
    return right if bits_r >= bits_l else left


def computation_type(left: dtype, left_weak: bool, right: dtype, right_weak: bool,
                     division: bool = False) -> dtype:
    """The type in which an operation on `left` and `right` is computed.

    `*_weak` says that the operand is a literal, which gives way to a tile of its own kind or a
    higher one (bool < int < float).
    """
    if left_weak != right_weak:
        literal, strong = (left, right) if left_weak else (right, left)
        if literal.kind <= strong.kind:
            return float32 if division and strong in (float16, bfloat16) else strong
    if float64 in (left, right):
        return float64
    if float32 in (left, right):
        return float32
    if float16 in (left, right):
        return float32 if division else float16
    if left == bfloat16 and right == bfloat16:
        return float32 if division else bfloat16
    if bfloat16 in (left, right):
        return float32
    if left.is_fp8() and right.is_fp8():
        return left if left == right else float16
    if not (left.is_int() and right.is_int()):
        raise CompileError(f"no common type of {left} and {right}; convert one with .to()")
    if division and left.signed != right.signed:
        raise CompileError(
            f"cannot divide {left} and {right}, which differ in sign; convert one with .to()")
    return integer_promote(left, right)
