# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Arrays as arguments: NumPy, buffers, DLPack, torch tensors and tilery's symmetric tensors."""

from __future__ import annotations

from tilery.errors import LaunchError


class ArrayArgument:
    """What a call must know of an array: where its memory is and what lies in it.

    `nbytes` spans all elements, of which the first is at `address`. `byte_strides` are the steps of `shape`
    in bytes. `device` is the number of the device, 0 for the host.
    """

    __slots__ = ("address", "nbytes", "shape", "byte_strides", "dtype", "writable", "symmetric", "keep",
                 "device")

    def __init__(self, address, nbytes, shape, byte_strides, dtype, writable, symmetric, keep, device=0):
        self.address, self.nbytes = address, nbytes
        self.shape, self.byte_strides = shape, byte_strides
        self.dtype, self.writable, self.symmetric = dtype, writable, symmetric
        self.keep = keep  # owns the memory
        self.device = device

    def strides(self, name: str) -> tuple[int, ...]:
        """The steps in elements. LaunchError, which calls the array `name`, when they are no such."""
        size = self.dtype.itemsize
        if any(step % size for step in self.byte_strides):
            raise LaunchError(f"argument '{name}' has steps of {tuple(self.byte_strides)} bytes, which are no "
                              f"multiples of its elements of {size}; pass a contiguous copy")
        return tuple(step // size for step in self.byte_strides)


def from_value(name: str, value) -> ArrayArgument:
    """`value` as an array argument; a LaunchError that names the argument when it is none.

    Accepts C- or otherwise strided NumPy arrays (pass the strides to the kernel, as in Triton),
    torch tensors, anything with `__dlpack__`, `__cuda_array_interface__` or the buffer protocol
    (memoryview, array.array), and tilery.Tensor.
    """
    import numpy as np

    from tilery import devices
    from tilery.device_array import DeviceArray
    from tilery.tensor import Tensor

    if isinstance(value, ArrayArgument):
        return value
    if isinstance(value, (Tensor, DeviceArray)):
        return value.argument()
    if isinstance(value, np.ndarray):
        return _from_numpy(name, value)
    if isinstance(value, type):  # has the attributes of its instances
        raise _no_array(name, value)
    if hasattr(value, "data_ptr") and hasattr(value, "element_size"):
        from tilery.interop import torch as interop
        return interop.argument(name, value)
    if hasattr(value, "__cuda_array_interface__"):
        return devices.from_interface(name, value)
    if hasattr(value, "__dlpack__"):
        if devices.is_on_device(value):
            return devices.from_dlpack(name, value)
        return _from_numpy(name, _through_dlpack(name, value))
    if hasattr(value, "__array_interface__"):
        return _from_numpy(name, np.asarray(value))
    return _from_buffer(name, value)


def _no_array(name: str, value) -> LaunchError:
    return LaunchError(
        f"argument '{name}' is a {type(value).__name__}; a kernel takes numbers, arrays (NumPy, "
        "DLPack, torch), tilery tensors, and constants for tl.constexpr parameters")


def _from_buffer(name: str, value) -> ArrayArgument:
    import numpy as np

    try:
        view = memoryview(value)
    except TypeError:
        raise _no_array(name, value) from None
    try:
        array = np.asarray(view)
    except (ValueError, NotImplementedError):
        raise LaunchError(f"argument '{name}' has element type '{view.format}' of a buffer, which kernels do "
                          "not know") from None
    return _from_numpy(name, array)


def _through_dlpack(name: str, value):
    import numpy as np

    device = value.__dlpack_device__() if hasattr(value, "__dlpack_device__") else (1, 0)
    if device[0] != 1:
        raise LaunchError(f"argument '{name}' is on device type {int(device[0])} of DLPack, which "
                          "tilery does not know")
    try:
        return np.from_dlpack(value)
    except (BufferError, RuntimeError, TypeError) as error:
        raise LaunchError(f"argument '{name}' cannot be taken over by DLPack: {error}") from None


def _from_numpy(name: str, array) -> ArrayArgument:
    from tilery.language import dtypes as dt

    try:
        element = dt.from_any(array.dtype)
    except Exception:
        raise LaunchError(f"argument '{name}' has element type {array.dtype}, which kernels do "
                          "not know") from None
    if not array.dtype.isnative:
        raise LaunchError(f"argument '{name}' has the other byte order ({array.dtype.str})")
    return checked(name, array.__array_interface__["data"][0], array.shape, array.strides, element,
                   array.flags.writeable, array)


def checked(name, address, shape, byte_strides, element, writable, keep,
            device: int = 0) -> ArrayArgument:
    """An argument after the checks that hold for every source of arrays."""
    size = element.itemsize
    if any(step < 0 for step, n in zip(byte_strides, shape) if n > 1):
        strides = [step // size for step in byte_strides]
        raise LaunchError(f"argument '{name}' has negative strides {strides}; pass a copy "
                          "(np.ascontiguousarray)")
    if address % size:
        raise LaunchError(f"argument '{name}' is misaligned: address {address:#x} is no multiple "
                          f"of the element size {size}; pass a copy")
    empty = any(n == 0 for n in shape)
    extent = 0 if empty else size + sum((n - 1) * step for n, step in zip(shape, byte_strides))
    return ArrayArgument(address, extent, tuple(shape), tuple(byte_strides), element, writable, False, keep,
                         device)
