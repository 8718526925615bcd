# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Memory of accelerators: arrays of other libraries as arguments, arrays of our own, waiting.

Devices have numbers: 0 is the host, 1 and up are the accelerators found (tilery.h).
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import math
import sys

from tilery import _capi
from tilery.arguments import ArrayArgument, checked
from tilery.errors import LaunchError

# DLDeviceType of memory that kernels on an accelerator reach: kDLCUDA, kDLCUDAManaged.
_DLPACK_DEVICES = (2, 13)
# DLDataTypeCode and bits to names of the language.
_DLPACK_TYPES = {(6, 8): "int1", (4, 16): "bf16", (10, 8): "fp8e4nv", (12, 8): "fp8e5"}
_DLPACK_KINDS = {0: "int", 1: "uint", 2: "fp"}


@functools.cache
def number(name: str) -> int:
    """The number of a device by name: "cpu", "cuda", "cuda:1". ConfigError, TargetError."""
    result = ctypes.c_int32()
    _capi.call("device_named", name.encode(), ctypes.byref(result))
    return result.value


def properties(device: int) -> dict:
    """{"name", "target", "processors", "assembly_version", "memory_bytes", "shared_bytes"}."""
    record = _capi.DeviceRecord()
    _capi.call("device_describe", device, ctypes.byref(record))
    values = {name: getattr(record, name) for name, _ in record._fields_}
    return {name: value.decode() if isinstance(value, bytes) else value
            for name, value in values.items()}


def synchronize() -> None:
    """Waits until the devices have done what this process asked of them; in a rank of a world on a
    device, what this rank asked of it. Raises what failed in a kernel since the last time.

    Example: `kernel[grid](x); ty.synchronize()`.
    """
    from tilery import world as worlds

    world = worlds.current(required=False)
    native = world is not None and world.kind == "native"
    _capi.call("synchronize", world.handle if native else None, 0)


@contextlib.contextmanager
def following_torch(device: int):
    """Launches within that name no stream go to torch's current one on the device."""
    stream = 0
    if device and "torch" in sys.modules:
        from tilery.interop import torch as interop
        stream = interop.current_stream(device)
    if stream:
        _capi.library().tilery_stream_use(stream)
    try:
        yield
    finally:
        if stream:
            _capi.library().tilery_stream_use(0)


def is_on_device(value) -> bool:
    """Whether `value` says by DLPack that it is an accelerator's memory."""
    device = value.__dlpack_device__() if hasattr(value, "__dlpack_device__") else (1, 0)
    return int(device[0]) in _DLPACK_DEVICES


def from_interface(name: str, value) -> ArrayArgument:
    """An argument from `__cuda_array_interface__`."""
    import numpy as np

    from tilery.language import dtypes as dt

    facts = value.__cuda_array_interface__
    try:
        (address, read_only), kind = facts["data"], facts["typestr"]
        shape, strides = tuple(map(int, facts["shape"])), facts.get("strides")
        strides = None if strides is None else tuple(map(int, strides))
        address = int(address or 0)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise LaunchError(f"argument '{name}' has a __cuda_array_interface__ that is {facts!r}; it needs the "
                          "entries shape, typestr and data, which is an address and whether it is read-only") from None
    try:
        kind = np.dtype(kind)
        element = dt.from_any(kind)
    except Exception:
        raise LaunchError(f"argument '{name}' has element type {facts['typestr']}, which kernels do "
                          "not know") from None
    if not kind.isnative:
        raise LaunchError(f"argument '{name}' has the other byte order ({kind.str})")
    if strides is None:
        strides = contiguous(shape, element.itemsize)
    if len(strides) != len(shape):
        raise LaunchError(f"argument '{name}' says by __cuda_array_interface__ that it has shape {list(shape)} "
                          f"and strides {list(strides)}, which have different lengths")
    device = device_of(name, address, shape)
    meet_torch()
    return checked(name, address, shape, strides, element, not read_only, value, device)


def device_of(name: str, address: int, shape) -> int:
    """The number of the device that has the memory; a wrong address would end the use of it."""
    device = _capi.library().tilery_device_of(address) if address else 0
    if device == 0 and math.prod(shape):
        raise LaunchError(f"argument '{name}' says that {address:#x} is a device's memory, but no "
                          "device that tilery can use has it; see tilery doctor")
    return device


def contiguous(shape, itemsize: int = 1) -> tuple[int, ...]:
    """Steps in elements of a contiguous array, or in bytes with the `itemsize` of its elements."""
    steps, step = [], itemsize
    for extent in reversed(shape):
        steps.append(step)
        step *= extent
    return tuple(reversed(steps))


def meet_torch() -> None:
    """torch's current stream counts for arrays of others too, once the user has imported it."""
    if "torch" in sys.modules:
        from tilery.interop import torch as interop
        interop.register()


class _DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32),
                ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8),
                ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


def from_dlpack(name: str, value) -> ArrayArgument:
    """An argument from the DLPack capsule of memory on an accelerator."""
    from tilery.language import dtypes as dt

    first = _first_device(name)
    capsule = value.__dlpack__()
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    tensor = _DLTensor.from_address(pointer(capsule, b"dltensor"))
    kind = _DLPACK_KINDS.get(tensor.code)
    known = _DLPACK_TYPES.get((tensor.code, tensor.bits), kind and f"{kind}{tensor.bits}")
    if known is None or tensor.lanes != 1:
        raise LaunchError(f"argument '{name}' has an element type that kernels do not know (DLPack "
                          f"code {tensor.code}, {tensor.bits} bits)")
    element = dt.from_any(known)
    shape = tuple(tensor.shape[i] for i in range(tensor.ndim))
    strides = [tensor.strides[i] * element.itemsize for i in range(tensor.ndim)] if tensor.strides \
        else contiguous(shape, element.itemsize)
    address = (tensor.data or 0) + tensor.byte_offset
    device_of(name, address, shape)
    meet_torch()
    # The capsule is not marked as taken: with it goes the producer's hold on the memory.
    return checked(name, address, shape, strides, element, True, (capsule, value),
                   first + tensor.device_id)


def _first_device(name: str) -> int:
    from tilery.errors import Error
    try:
        return number("cuda")
    except Error as error:
        raise LaunchError(f"argument '{name}' is in a device's memory that tilery cannot use: "
                          f"{error}") from None
