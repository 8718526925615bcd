# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Symmetric tensors: the same object on every rank, at an address that peers can reach."""

from __future__ import annotations

import math
import operator

from tilery import devices
from tilery.arguments import ArrayArgument
from tilery.errors import LaunchError


def extents(shape, label: str) -> tuple[int, ...]:
    """A shape as a tuple of whole numbers; LaunchError when it is none."""
    try:
        parts = (shape,) if hasattr(shape, "__index__") else tuple(shape)
        result = tuple(operator.index(n) for n in parts)
    except TypeError:
        raise LaunchError(f"'{label}' cannot have shape {shape!r}; extents are whole "
                          "numbers") from None
    if any(n < 0 for n in result):
        raise LaunchError(f"'{label}' cannot have shape {list(result)}; extents are >= 0")
    return result


class Tensor:
    """A contiguous array of `shape` in the symmetric heap of a world.

    Made by `ty.empty`, `ty.zeros` and `ty.signals`. `numpy()` views this rank's memory, `at(r)`
    is rank r's copy where it can be mapped. Kernels take it as a symmetric pointer.

    Example: `x = ty.zeros((4, 8), ty.float32); x.numpy()[:] = 1`.
    """

    def __init__(self, world, address: int, shape, dtype, label: str, of: "Tensor | None" = None,
                 rank: int | None = None):
        self.world = world
        self.address = address
        self.shape = tuple(int(n) for n in shape)
        self.dtype = dtype
        self.label = label
        self.rank = world.rank if rank is None else rank
        self._root = of if of is None or of._root is None else of._root  # None: owns its memory
        self._argument: ArrayArgument | None = None
        self._record: bytes | None = None

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

    @property
    def _on_device(self) -> bool:
        """In memory that the host does not reach."""
        return not getattr(self.world, "host_reaches_memory", True)

    def _copied(self):
        import numpy as np

        from tilery import _capi

        devices.synchronize()
        host = np.empty(self.shape, self.dtype.numpy)
        _capi.call("device_copy", host.ctypes.data, self.address, self.nbytes)
        return host

    def copy_from(self, source) -> "Tensor":
        """Takes the values of an array of this shape; returns self."""
        import numpy as np

        self._check_alive()
        if not self._on_device:
            self.numpy()[...] = source
            return self
        from tilery import _capi

        host = np.ascontiguousarray(np.broadcast_to(np.asarray(source), self.shape),
                                    dtype=self.dtype.numpy)
        devices.synchronize()
        _capi.call("device_copy", self.address, host.ctypes.data, self.nbytes)
        return self

    def numpy(self):
        """This memory as a NumPy array; no copy, except of memory that the host does not reach
        (a world with `device`), which `copy_from` writes."""
        import ctypes

        import numpy as np

        self._check_alive()
        if self._on_device:
            return self._copied()
        if self.nbytes == 0:
            return np.empty(self.shape, self.dtype.numpy)
        raw = (ctypes.c_uint8 * self.nbytes).from_address(self.address)
        raw._tilery_keep = self
        return np.frombuffer(raw, dtype=self.dtype.numpy).reshape(self.shape)

    @property
    def __array_interface__(self):
        # NumPy's protocol has no name for some types.
        if self.dtype.is_bf16() or self.dtype.is_fp8() or self._on_device:
            raise AttributeError("__array_interface__")
        return self.numpy().__array_interface__

    def __array__(self, dtype=None, copy=None):
        array = self.numpy()
        return array.astype(dtype) if dtype is not None else array.copy() if copy else array

    @property
    def __cuda_array_interface__(self) -> dict:
        if not getattr(self.world, "device", 0) or self.dtype.is_bf16() or self.dtype.is_fp8():
            raise AttributeError("__cuda_array_interface__")
        return {"shape": self.shape, "typestr": self.dtype.numpy.str, "strides": None,
                "data": (self.address if self.size else 0, False), "version": 3}

    def __dlpack__(self, **options):
        """For `torch.from_dlpack(x)` and its like: the same memory, no copy."""
        self._check_alive()
        # NumPy cannot hand these over.
        if self._on_device or self.dtype.is_bf16() or self.dtype.is_fp8():
            from tilery.dlpack import export
            return export(self)
        return self.numpy().__dlpack__(**options)

    def __dlpack_device__(self):
        if not self._on_device:
            return (1, 0)
        return (2, self.world.device - devices.number("cuda"))

    def at(self, rank: int) -> "Tensor":
        """The same object on `rank`."""
        self._check_alive()
        if not 0 <= rank < self.world.size:
            raise LaunchError(f"rank {rank} does not exist; there are ranks 0 to "
                              f"{self.world.size - 1}")
        address = self.world.peer(self.address, rank)
        return Tensor(self.world, address, self.shape, self.dtype, self.label, self, rank)

    def reshape(self, *shape) -> "Tensor":
        """The same memory in another shape."""
        self._check_alive()
        shape = shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
        shape = extents(shape, self.label)
        if math.prod(shape) != self.size:
            raise LaunchError(f"cannot reshape {list(self.shape)} to {list(shape)}")
        return Tensor(self.world, self.address, shape, self.dtype, self.label, self, self.rank)

    def free(self) -> None:
        """Collective: gives the memory back on every rank."""
        self._check_alive()
        if self._root is not None:
            raise LaunchError(f"'{self.label}' is a view; free the tensor that was allocated")
        self.world.free(self.address)
        self.address, self._record = 0, None

    def _check_alive(self) -> None:
        owner = self if self._root is None else self._root
        if owner.address == 0:
            raise LaunchError(f"symmetric tensor '{self.label}' was freed")
        if self.world.freed:
            raise LaunchError(f"symmetric tensor '{self.label}' belongs to {self.world.name}, which "
                              "was finalized")
        if not self.world.alive and getattr(self.world, "group", None) is None:
            raise LaunchError(f"symmetric tensor '{self.label}' belongs to a world that was "
                              "finalized")

    def argument(self) -> ArrayArgument:
        self._check_alive()
        if self._argument is None:
            self._argument = ArrayArgument(self.address, self.nbytes, self.shape,
                                           devices.contiguous(self.shape, self.dtype.itemsize), self.dtype,
                                           True, self.rank == self.world.rank, self,
                                           getattr(self.world, "device", 0))
        return self._argument

    def record(self) -> bytes:
        """The tilery_arg of this tensor, kept for the next launch."""
        self._check_alive()
        if self._record is None:
            from tilery.records import pointer
            self._record = pointer(self.argument())
        return self._record

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index):
        return self.numpy()[index]

    def __setitem__(self, index, value):
        array = self.numpy()
        array[index] = value
        if self._on_device:
            self.copy_from(array)

    def __repr__(self):
        return f"Tensor('{self.label}', {self.dtype}{list(self.shape)}, rank {self.rank})"
