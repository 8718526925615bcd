# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""DLPack capsules of our arrays: the consumer holds the array until it calls the deleter."""

from __future__ import annotations

import ctypes
import itertools

from tilery.devices import _DLTensor
from tilery.errors import LaunchError

_CODES = {"int1": 6, "bf16": 4, "fp8e4nv": 10, "fp8e5": 12}
_KINDS = {"int": 0, "uint": 1, "fp": 2}
_DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_CAPSULE_END = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _Managed(ctypes.Structure):
    """DLManagedTensor."""

    _fields_ = [("tensor", _DLTensor), ("context", ctypes.c_void_p), ("deleter", _DELETER)]


_numbers = itertools.count(1)
_exported: dict[int, tuple] = {}  # by number: what lives until the deleter is called


@_DELETER
def _delete(managed):
    _exported.pop(_Managed.from_address(managed).context, None)


@_CAPSULE_END
def _end(capsule):
    """A capsule that nobody took still holds the array."""
    valid = ctypes.pythonapi.PyCapsule_IsValid
    valid.argtypes, valid.restype = [ctypes.c_void_p, ctypes.c_char_p], ctypes.c_int
    get = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
        ("PyCapsule_GetPointer", ctypes.pythonapi))
    if valid(capsule, b"dltensor"):
        _delete(get(capsule, b"dltensor"))


def export(array):
    """A capsule "dltensor" of a DeviceArray or a symmetric tensor."""
    shape = (ctypes.c_int64 * max(1, array.ndim))(*array.shape)
    strides = (ctypes.c_int64 * max(1, array.ndim))(*array.strides)
    code = _CODES.get(array.dtype.name, _KINDS.get(array.dtype.name.rstrip("0123456789")))
    if code is None:
        raise LaunchError(f"DLPack has no element type {array.dtype}")
    number = next(_numbers)
    kind, index = array.__dlpack_device__()
    tensor = _DLTensor(array.address, kind, index, array.ndim, code, array.dtype.itemsize * 8, 1,
                       shape, strides, 0)
    managed = _Managed(tensor, number, _delete)
    _exported[number] = (managed, shape, strides, array)
    make = ctypes.pythonapi.PyCapsule_New
    make.restype = ctypes.py_object
    make.argtypes = [ctypes.c_void_p, ctypes.c_char_p, _CAPSULE_END]
    return make(ctypes.addressof(managed), b"dltensor", _end)
