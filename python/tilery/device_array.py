# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Arrays of our own in an accelerator's memory, for programs without another array library."""

from __future__ import annotations

import ctypes
import math
import sys

from tilery import _capi, devices
from tilery.arguments import ArrayArgument
from tilery.tensor import extents


class DeviceArray:
    """A contiguous array of `shape` in the memory of one device; zeros at first.

    Made by `ty.zeros` and `ty.empty` with `device=`. `numpy()` is a copy, `copy_from` writes.
    Kernels and other libraries (`__cuda_array_interface__`, DLPack through torch) take it as it is.

    Example: `x = ty.zeros((4, 8), ty.float32, device="cuda"); x.copy_from(np.ones((4, 8)))`.
    """

    def __init__(self, shape, dtype, device: str, label: str = "tensor"):
        self.shape = extents(shape, label)
        self.dtype, self.label = dtype, label
        self.device = devices.number(device)
        self.address = _capi.handle_from("device_allocate", self.device, self.nbytes)
        self._release = _capi.library().tilery_device_release
        self._record: bytes | None = None

    def __del__(self):
        address, self.address = getattr(self, "address", 0), 0
        if address and not sys.is_finalizing():
            self._release(self.device, address, self.nbytes)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def strides(self) -> tuple[int, ...]:
        """Steps in elements, as kernels take them."""
        return devices.contiguous(self.shape)

    def stride(self, dim: int) -> int:
        return self.strides[dim]

    def numpy(self):
        """A copy on the host, after the kernels launched so far. Raises what failed in one."""
        import numpy as np

        devices.synchronize()
        host = np.empty(self.shape, self.dtype.numpy)
        _capi.call("device_copy", host.ctypes.data, self.address, self.nbytes)
        return host

    def copy_from(self, source) -> "DeviceArray":
        """Takes the values of an array of this shape; returns self."""
        import numpy as np

        host = np.ascontiguousarray(np.broadcast_to(np.asarray(source), self.shape),
                                    dtype=self.dtype.numpy)
        devices.synchronize()
        _capi.call("device_copy", self.address, host.ctypes.data, self.nbytes)
        return self

    def __array__(self, dtype=None, copy=None):
        array = self.numpy()
        return array if dtype is None else array.astype(dtype)

    @property
    def __cuda_array_interface__(self) -> dict:
        if self.dtype.is_bf16() or self.dtype.is_fp8():  # the protocol has no name for them
            raise AttributeError("__cuda_array_interface__")
        return {"shape": self.shape, "typestr": self.dtype.numpy.str, "strides": None,
                "data": (self.address if self.size else 0, False), "version": 3, "stream": 1}

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, self.device - devices.number("cuda")

    def __dlpack__(self, **options):
        from tilery.dlpack import export
        return export(self)

    def argument(self) -> ArrayArgument:
        return ArrayArgument(self.address, self.nbytes, self.shape,
                             devices.contiguous(self.shape, self.dtype.itemsize), self.dtype, True, False,
                             self, self.device)

    def record(self) -> bytes:
        """The tilery_arg of this array, kept for the next launch."""
        if self._record is None:
            from tilery.records import pointer
            self._record = pointer(self.argument())
        return self._record

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self):
        return f"DeviceArray('{self.label}', {self.dtype}{list(self.shape)})"


def allocate(shape, dtype, device: str, label: str) -> DeviceArray:
    from tilery.errors import LaunchError
    from tilery.language import dtypes

    if dtype is None:
        raise LaunchError(f"'{label}' needs an element type, such as ty.float32, not None")
    return DeviceArray(shape, dtypes.from_any(dtype), device, label)
