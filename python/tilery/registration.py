# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Registration: memory that the user or another library made becomes symmetric."""

from __future__ import annotations

import ctypes
import math
import sys

from tilery import _capi, devices
from tilery.arguments import from_value
from tilery.errors import LaunchError
from tilery.tensor import Tensor


class Registrations:
    """What one rank has registered in one of the library's worlds, and what keeps that memory."""

    def __init__(self, handle: int):
        self.handle = handle
        self.kept: dict[int, object] = {}  # by address

    def add(self, address: int, nbytes: int, label: str, type_text: str, owner) -> None:
        """Collective."""
        self._collect()
        _capi.call("symmetric_register", self.handle, address, nbytes, label.encode(),
                   type_text.encode())
        self.kept[address] = owner

    def ended(self, address: int) -> None:
        self.kept.pop(address, None)

    def drop(self, address: int) -> None:
        """This rank needs what it has registered there no more; not collective."""
        _capi.library().tilery_symmetric_drop(self.handle, address)

    def _collect(self) -> None:
        """Lets go of what all ranks have dropped."""
        released, count = (ctypes.c_void_p * 32)(), ctypes.c_int32()
        _capi.call("symmetric_collect", self.handle, released, ctypes.byref(count))
        for address in released[:count.value]:
            self.ended(address)


class Registered(Tensor):
    """An array of the user that its ranks have registered; a symmetric tensor in its memory.

    Made by `ty.register`. Kernels take it, the array itself, and parts of it as symmetric pointers.
    `free()` ends the registration and so does the end of a `with`, collectively; the array stays. One that
    is only forgotten keeps its array until all ranks have forgotten theirs and one of them registers again.
    """

    def __init__(self, world, array, shape, label: str):
        super().__init__(world, array.address, shape, array.dtype, label)
        self._array = array  # its `keep` owns the memory

    @property
    def _on_device(self) -> bool:
        return self._array.device != 0

    def free(self) -> None:
        """Collective: ends the registration; waits for the launches that may use it."""
        self._check_alive()
        address = self.address
        super().free()
        self._record = self._argument = None
        self.world.registrations.ended(address)

    def __enter__(self) -> "Registered":
        return self

    def __exit__(self, kind, error, trace) -> None:
        if error is None and self.address:
            self.free()

    def __del__(self):
        address, world = getattr(self, "address", 0), getattr(self, "world", None)
        if address and world is not None and world.alive and not sys.is_finalizing():
            world.registrations.drop(address)


def register(array, name: str = "tensor", *, team=None) -> Registered:
    """Collective: `array`, which each rank has made itself, becomes a symmetric tensor of all ranks.

    Every rank brings an array of one shape and type, all of whose elements lie one behind the other: a torch
    tensor on the rank's GPU (also of torch's symmetric memory), whatever has `__cuda_array_interface__` or
    DLPack, in worlds on the host a NumPy array. Nothing is copied or zeroed. `name` is what errors call it;
    `team` has it (None: the world).

    Errors: LaunchError on all ranks that says which rank's array cannot be registered and why: in memory of
    another device or one that the driver does not share, overlapping what the team has registered.

    Example: `x = ty.register(torch.empty(1 << 20, device="cuda"), "x")`, then `kernel[grid](x)` where the
    kernel calls `dl.symm_at(x, peer)`; `x.free()` when all are done.
    """
    from tilery.world import checked_name, current_team

    checked_name(name)
    world = current_team(team)
    problem = None
    try:
        argument = _own_argument(name, array)
    except Exception as error:  # whatever the array raises: the others wait for this rank
        problem = error
    _require_none(world, name, problem)
    shape = argument.shape
    size = math.prod(shape) * argument.dtype.itemsize
    world.registrations.add(argument.address, size, name, f"{argument.dtype.name}{list(shape)}", argument)
    return Registered(world, argument, shape, name)


def _own_argument(name: str, array):
    """What this rank brings, when it is an array that can be registered."""
    if isinstance(array, Tensor):
        raise LaunchError(f"'{name}' is symmetric already, as '{array.label}'; pass it as it is")
    argument = from_value(name, array)
    shape, strides = argument.shape, argument.strides(name)
    steps = zip(shape, strides, devices.contiguous(shape))
    if math.prod(shape) and any(step != wanted for extent, step, wanted in steps if extent > 1):
        raise LaunchError(f"'{name}' of shape {list(shape)} has strides {list(strides)}; register an array "
                          "whose elements lie one behind the other, and pass parts of it")
    if not argument.writable:
        raise LaunchError(f"'{name}' is read-only; other ranks may write what is registered")
    return argument


def _require_none(world, name: str, problem: Exception | None) -> None:
    """Raises on all ranks when one has a problem, its own where a rank has one."""
    own = "" if problem is None else str(problem) or type(problem).__name__
    problems = world.all_gather_bytes(own.encode(errors="replace"), f"registration of '{name}'")
    if problem is not None:
        raise problem
    for rank, text in enumerate(problems):
        if text:
            raise LaunchError(f"'{name}' cannot be registered, because of what rank {rank} brings: {text.decode()}")
