# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Launches a kernel in the interpreter: binds arguments, starts instances, waits for them."""

from __future__ import annotations

import builtins
import itertools
import types

import numpy as np

from tilery.errors import LaunchError
from tilery.interpreter import logic, state
from tilery.interpreter.instance import Instance
from tilery.interpreter.memory import Place, Places
from tilery.interpreter.scheduler import Condition
from tilery.language import core, dtypes as dt, values

# Python's names that have the kernel language's meaning inside a kernel.
_BUILTINS = dict(vars(builtins), range=core.range, min=core.minimum, max=core.maximum,
                 abs=core.abs, **logic.FUNCTIONS)


def as_kernel(jitted) -> types.FunctionType:
    """The function of a ty.jit kernel with the kernel language's `range`, `min`, `max`, `abs` and
    logic."""
    function, code = jitted.fn, jitted.interpreted_code
    names = dict(function.__globals__, __builtins__=_BUILTINS)
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or ()))
    kernel = types.FunctionType(code, names, function.__name__, function.__defaults__,
                                tuple(cells[name] for name in code.co_freevars))
    kernel.__kwdefaults__ = function.__kwdefaults__
    return kernel


class Launch:
    """One launch on one rank: its arguments in the kernel's terms, and its instances."""

    def __init__(self, name: str, world, grid: tuple[int, int, int], debug: bool = False):
        world.require_member()
        self.name, self.world, self.grid, self.debug = name, world, grid, debug
        self.scheduler = world.group.scheduler
        self.known: list[Place] = []
        self.places = Places([])
        self.instances: list[Instance] = []

    def bind(self, name: str, value, constant: bool):
        """The value that the kernel's parameter `name` gets."""
        if constant or value is None or isinstance(value, dt.dtype):
            return value.value if isinstance(value, values.constexpr) else value
        if isinstance(value, (tuple, list)):
            return tuple(self.bind(f"{name}[{i}]", item, False) for i, item in enumerate(value))
        if values.is_literal(value):
            return _scalar(name, value)
        place, element = self._place(name, value)
        self.known.append(place)
        return values.tensor(np.int64(place.base), dt.pointer_type(element), place)

    def _place(self, name: str, array) -> tuple[Place, dt.dtype]:
        element = array.dtype
        thing = self.world.find_own(f"argument '{name}'", array.address, array.nbytes)
        if thing is None:
            if array.symmetric:
                raise LaunchError(f"argument '{name}' is not in this world's symmetric heap")
            return Place(name, array.address, array.nbytes, writable=array.writable,
                         rank=self.world.own_seat), element
        base = thing.bases[self.world.own_seat]
        place = Place(name, array.address, array.nbytes, rank=self.world.own_seat, symmetric=thing,
                      signal=element == dt.signal)
        place.shift = array.address - base
        return place, element

    def run(self, body_of) -> None:
        """Starts all instances (no more at once than can be resident) and waits for them."""
        self.places = Places(self.known)
        ids = itertools.product(*(range(n) for n in reversed(self.grid)))
        waiting = [tuple(reversed(pid)) for pid in ids][::-1]
        total, limit = len(waiting), self.world.group.residency or len(waiting)
        running: list[Instance] = []

        def all_done() -> bool:
            failed = self.scheduler.failure is not None
            running[:] = [instance for instance in running if not instance.done]
            while waiting and len(running) < limit and not failed:
                instance = Instance(self, waiting.pop(), body_of)
                running.append(instance)
                self.instances.append(instance)
                self.scheduler.add(instance)
            idle = not running and (failed or not waiting)
            return idle and not any(i.queue for i in self.instances)

        self.world.group.wait(Condition(
            all_done, lambda task: f"{self.world.rank_text()}: waits for kernel '{self.name}' "
            f"({len(running)} of {total} instances running)"))
        self._raise_errors()

    def _raise_errors(self) -> None:
        for instance in self.instances:
            if instance.error is not None:
                first = self.scheduler.first_error
                if state.task() is None:
                    self.scheduler.forget()
                raise first if first is instance.error else instance.error


def _scalar(name: str, value) -> values.tensor:
    if isinstance(value, (np.number, np.bool_)):
        ty = dt.from_any(value.dtype)
    elif isinstance(value, float):
        ty = dt.float32
    else:
        ty = dt.of_literal(value)
        ty = dt.int64 if ty == dt.uint32 else ty
    return values.tensor(ty.numpy.type(value), ty)
