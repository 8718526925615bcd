# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Symmetric tensors: the same object on every rank, at an address that peers can reach."""

from __future__ import annotations

import math

from tilery.arguments import ArrayArgument
from tilery.errors import LaunchError


class Tensor:
    """A contiguous array of `shape` in the symmetric heap of a world.

    Made by `ty.empty`, `ty.zeros` and `ty.signals`. `numpy()` views this rank's memory, `at(r)`
    is rank r's copy where it can be mapped. Kernels take it as a symmetric pointer.

    Example: `x = ty.zeros((4, 8), ty.float32); x.numpy()[:] = 1`.
    """

    def __init__(self, world, address: int, shape, dtype, label: str, owner: bool = True,
                 rank: int | None = None):
        self.world = world
        self.address = address
        self.shape = tuple(int(n) for n in shape)
        self.dtype = dtype
        self.label = label
        self.rank = world.rank if rank is None else rank
        self._owner = owner
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
        steps, step = [], 1
        for extent in reversed(self.shape):
            steps.append(step)
            step *= extent
        return tuple(reversed(steps))

    def stride(self, dim: int) -> int:
        return self.strides[dim]

    def numpy(self):
        """This memory as a NumPy array; no copy."""
        import ctypes

        import numpy as np

        self._check_alive()
        if self.nbytes == 0:
            return np.empty(self.shape, self.dtype.numpy)
        raw = (ctypes.c_uint8 * self.nbytes).from_address(self.address)
        raw._tilery_keep = self
        return np.frombuffer(raw, dtype=self.dtype.numpy).reshape(self.shape)

    @property
    def __array_interface__(self):
        if self.dtype.is_bf16() or self.dtype.is_fp8():  # NumPy's protocol has no name for them
            raise AttributeError("__array_interface__")
        return self.numpy().__array_interface__

    def __array__(self, dtype=None, copy=None):
        array = self.numpy()
        return array.astype(dtype) if dtype is not None else array.copy() if copy else array

    def __dlpack__(self, **options):
        return self.numpy().__dlpack__(**options)

    def __dlpack_device__(self):
        return (1, 0)

    def at(self, rank: int) -> "Tensor":
        """The same object on `rank`."""
        self._check_alive()
        if not 0 <= rank < self.world.size:
            raise LaunchError(f"rank {rank} does not exist; there are ranks 0 to "
                              f"{self.world.size - 1}")
        address = self.world.peer(self.address, rank)
        return Tensor(self.world, address, self.shape, self.dtype, self.label, False, rank)

    def reshape(self, *shape) -> "Tensor":
        """The same memory in another shape."""
        shape = shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
        if math.prod(shape) != self.size:
            raise LaunchError(f"cannot reshape {list(self.shape)} to {list(shape)}")
        view = Tensor(self.world, self.address, shape, self.dtype, self.label, False, self.rank)
        view._keep = self
        return view

    def free(self) -> None:
        """Collective: gives the memory back on every rank."""
        self._check_alive()
        if not self._owner:
            raise LaunchError(f"'{self.label}' is a view; free the tensor that was allocated")
        self.world.free(self.address)
        self.address, self._record = 0, None

    def _check_alive(self) -> None:
        if self.address == 0:
            raise LaunchError(f"symmetric tensor '{self.label}' was freed")
        if not self.world.alive and getattr(self.world, "group", None) is None:
            raise LaunchError(f"symmetric tensor '{self.label}' belongs to a world that was "
                              "finalized")

    def argument(self) -> ArrayArgument:
        self._check_alive()
        if self._argument is None:
            self._argument = ArrayArgument(self.address, self.nbytes, 0, self.dtype, True,
                                           self.rank == self.world.rank, self)
        return self._argument

    def record(self) -> bytes:
        """The tilery_arg of this tensor, kept for the next launch."""
        if self._record is None:
            from tilery.records import pointer
            self._record = pointer(self.argument())
        return self._record

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index):
        return self.numpy()[index]

    def __setitem__(self, index, value):
        self.numpy()[index] = value

    def __repr__(self):
        return f"Tensor('{self.label}', {self.dtype}{list(self.shape)}, rank {self.rank})"
