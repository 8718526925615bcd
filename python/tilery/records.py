# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Arguments as tilery_arg records, for everything that _launch.c does not convert itself."""

from __future__ import annotations

import ctypes
import functools
import json
import struct

import numpy as np

from tilery import _capi
from tilery.arguments import from_value
from tilery.bindings import binding
from tilery.errors import LaunchError
from tilery.language import dtypes
from tilery.language.values import constexpr
from tilery.device_array import DeviceArray
from tilery.tensor import Tensor

# tilery_arg: bits, kind, dtype, symmetric, read_only, device, bytes.
_RECORD = struct.Struct("<QBBBBIq")
POINTER, INT, FLOAT, BOOL = 0, 1, 2, 3
CONST_INT, CONST_FLOAT, CONST_BOOL, CONST_NONE, CONST_DTYPE, CONST_OTHER, DEFAULT = range(4, 11)
_INT32, _INT64, _UINT64, _FP32, _FP64 = 3, 4, 8, 11, 12


def _pack(bits: int, kind: int, dtype: int = 0, symmetric: int = 0, nbytes: int = -1,
          read_only: bool = False, device: int = 0) -> bytes:
    return _RECORD.pack(bits & (2**64 - 1), kind, dtype, symmetric, read_only, device, nbytes)


def _double(value: float) -> int:
    return struct.unpack("<Q", struct.pack("<d", value))[0]


class Records:
    """Makes the records of one kernel's arguments."""

    def __init__(self, kernel):
        self.kernel = kernel

    def pack(self, args) -> bytes:
        """The records of all arguments, one after the other."""
        return b"".join(self.make(value, at)[0] for at, value in enumerate(args))

    def make(self, value, at: int) -> tuple[bytes, object]:
        """The record of argument number `at`, and what owns the memory that it names: whoever
        uses the record keeps the owner."""
        if isinstance(value, (Tensor, DeviceArray)):
            return value.record(), value
        array = self._array(value, at)
        if array is None:
            return self._number(value, at), None
        return pointer(array), array.keep

    def _array(self, value, at: int):
        """The array argument that `value` is, or None for numbers and constants."""
        parameter = self.kernel.parameters[at]
        numbers = (constexpr, np.generic, int, float, str, tuple, list, dtypes.dtype)
        if parameter.constexpr or value is None or isinstance(value, numbers):
            return None
        return from_value(parameter.name, value)

    def _number(self, value, at: int) -> bytes:
        parameter = self.kernel.parameters[at]
        constant = parameter.constexpr
        if isinstance(value, constexpr):
            value, constant = value.value, True
        if isinstance(value, np.generic):  # np.float64 is a float to isinstance as well
            return _numpy_scalar(value, constant)
        if value is None:
            return _pack(0, CONST_NONE)
        if isinstance(value, bool):
            return _pack(int(value), CONST_BOOL if constant else BOOL)
        if isinstance(value, int):
            return _integer(parameter.name, value, constant)
        if isinstance(value, float):
            return _pack(_double(value), CONST_FLOAT if constant else FLOAT, _FP32)
        return _other(parameter.name, value)


def _other(name: str, value) -> bytes:
    """The record of a constant that is no number."""
    if isinstance(value, dtypes.dtype):
        return _pack(0, CONST_DTYPE, dtypes.CODES[value.name])
    bound = binding(value)
    if bound is None:
        raise LaunchError(f"argument '{name}' is a {type(value).__name__}, which cannot be a "
                          "constant of a kernel")
    return _pack(_interned(json.dumps(bound)), CONST_OTHER)


def pointer(array) -> bytes:
    """The record of an array argument."""
    return _pack(array.address, POINTER, dtypes.CODES[array.dtype.name], int(array.symmetric),
                 array.nbytes, not array.writable, array.device)


def _integer(name: str, value: int, constant: bool) -> bytes:
    kind = CONST_INT if constant else INT
    if -(2**31) <= value < 2**31:
        return _pack(value, kind, _INT32)
    if -(2**63) <= value < 2**63:
        return _pack(value, kind, _INT64)
    if 0 <= value < 2**64:
        return _pack(value, kind, _UINT64)
    raise LaunchError(f"argument '{name}' is {value}, which does not fit in 64 bits")


def _numpy_scalar(value, constant: bool) -> bytes:
    element = dtypes.from_any(value.dtype)
    code = dtypes.CODES[element.name]
    if element.is_bool():
        return _pack(int(value), CONST_BOOL if constant else BOOL)
    if element.is_int():
        return _pack(int(value), CONST_INT if constant else INT, code)
    return _pack(_double(float(value)), CONST_FLOAT if constant else FLOAT, code)


@functools.lru_cache(maxsize=None)
def _interned(text: str) -> int:
    result = ctypes.c_uint64()
    _capi.call("constant_intern", text.encode(), ctypes.byref(result))
    return result.value
