# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""The in-process world of the interpreter: symmetric memory, barriers and rank tasks.

It has the same methods as tilery.world.NativeWorld, so that the package's public functions do
not ask which of the two they use.
"""

from __future__ import annotations

import ctypes

import numpy as np

from tilery.errors import ConfigError, LaunchError
from tilery.interpreter.memory import Place
from tilery.interpreter.scheduler import Condition, Scheduler, Task

_ALIGNMENT = 4096


class SymmetricObject:
    """One collective allocation: `nbytes` zeroed bytes on each rank."""

    def __init__(self, label: str, nbytes: int, ranks: int):
        self.label, self.nbytes = label, nbytes
        self.buffers = [np.zeros(nbytes + _ALIGNMENT, np.uint8) for _ in range(ranks)]
        self.bases = [-(-b.ctypes.data // _ALIGNMENT) * _ALIGNMENT for b in self.buffers]
        self.writers: set[str] = set()

    def place(self, rank: int, name: str = "", **changes) -> Place:
        return Place(name or self.label, self.bases[rank], self.nbytes, rank=rank, symmetric=self,
                     **changes)


class Collective:
    """A meeting of all ranks: each brings a value, all leave with the list."""

    def __init__(self, group: "Group", what: str):
        self.group, self.what = group, what
        self.values: dict[int, object] = {}

    def join(self, rank: int, value) -> list:
        self.values[rank] = value
        size = self.group.size
        missing = lambda: [r for r in range(size) if r not in self.values]  # noqa: E731
        self.group.wait(Condition(
            lambda: len(self.values) == size,
            lambda task: f"rank {rank}: in {self.what}, waits for rank "
                         f"{', '.join(str(r) for r in missing())}"))
        return [self.values[r] for r in range(size)]


class Group:
    """All ranks of one interpreted world."""

    def __init__(self, size: int, seed=None, delay: bool = False, residency: int = 0,
                 timeout: float = 60.0, mesh=None):
        if size < 1:
            raise ConfigError(f"a world needs at least 1 rank, not {size}")
        self.size, self.delay, self.residency = size, delay, residency
        self.mesh = tuple(mesh) if mesh else (size,)
        if int(np.prod(self.mesh)) != size:
            raise ConfigError(f"mesh {list(self.mesh)} has {int(np.prod(self.mesh))} places for "
                              f"{size} ranks")
        self.scheduler = Scheduler(seed, timeout)
        self.objects: list[SymmetricObject] = []
        self.meetings: dict[tuple, Collective] = {}
        self.counts: dict[tuple, int] = {}

    def meet(self, rank: int, kind: str, value, what: str) -> list:
        """The n-th call of a kind on one rank meets the n-th call on every other."""
        number = self.counts.get((rank, kind), 0)
        self.counts[rank, kind] = number + 1
        meeting = self.meetings.setdefault((kind, number), Collective(self, what))
        values = meeting.join(rank, value)
        if number > 1:
            self.meetings.pop((kind, number - 2), None)
        return values

    def wait(self, condition: Condition) -> None:
        """From a task: lets others run until the condition holds; from outside: runs them."""
        from tilery.interpreter import state
        if state.task() is not None:
            self.scheduler.block(condition)
        elif not condition.ready():
            self.scheduler.run(condition.ready)


class World:
    """One rank's view of a group."""

    kind = "interpreter"
    alive = True

    def __init__(self, group: Group, rank: int):
        self.group, self.rank, self.size = group, rank, group.size
        self.delays = group.delay
        self.timeout = group.scheduler.timeout

    # -- queries --------------------------------------------------------------------------

    def describe(self) -> dict:
        used = sum(o.nbytes for o in self.group.objects)
        return {"rank": self.rank, "size": self.size, "mesh": list(self.group.mesh),
                "kind": "interpreter", "heap": {"bytes": used, "used": used},
                "timeout_s": self.timeout, "trace": None}

    def axis(self, axis: int, what: str) -> tuple[int, int]:
        """(rank, size) along an axis of the mesh; -1 means all ranks."""
        if axis == -1:
            return self.rank, self.size
        mesh = self.group.mesh
        if not 0 <= axis < len(mesh):
            raise LaunchError(f"{what}: axis {axis} does not exist in mesh {list(mesh)}")
        return int(np.unravel_index(self.rank, mesh)[axis]), mesh[axis]

    def find(self, address: int, nbytes: int = 0) -> SymmetricObject | None:
        """The symmetric object that holds [address, address + nbytes) on this rank."""
        for thing in self.group.objects:
            base = thing.bases[self.rank]
            if base <= address and address + nbytes <= base + thing.nbytes:
                return thing
        return None

    def note_writer(self, place: Place, writer: str) -> None:
        if place.symmetric is not None:
            place.symmetric.writers.add(writer)

    def writers_of(self, place: Place) -> str:
        writers = sorted(place.symmetric.writers) if place.symmetric else []
        return "written so far by " + ", ".join(writers) if writers else "never written so far"

    # -- collectives ------------------------------------------------------------------------

    def barrier(self, timeout: float | None = None) -> None:
        self.group.meet(self.rank, "barrier", None, "ty.barrier")

    def all_gather_bytes(self, data: bytes) -> list[bytes]:
        return self.group.meet(self.rank, "gather", bytes(data), "an exchange between hosts")

    def allocate(self, nbytes: int, label: str, type_text: str = "") -> int:
        made = self.group.meet(self.rank, "alloc", (nbytes, type_text), "a symmetric allocation")
        if len(set(made)) > 1:
            raise LaunchError(
                f"symmetric allocation of '{label}' differs between ranks: " +
                ", ".join(f"rank {r} asks for {size} bytes, {text}"
                          for r, (size, text) in enumerate(made)))
        number = self.group.counts[self.rank, "alloc"]
        shared = self.group.__dict__.setdefault("allocated", {})
        if number not in shared:
            shared[number] = SymmetricObject(label, nbytes, self.size)
            self.group.objects.append(shared[number])
        return shared[number].bases[self.rank]

    def free(self, address: int) -> None:
        thing = self.find(address)
        self.group.meet(self.rank, "free", address, "a symmetric free")
        if thing in self.group.objects:
            self.group.objects.remove(thing)

    def peer(self, address: int, rank: int) -> int:
        thing = self.find(address)
        if thing is None:
            raise LaunchError(f"address {address:#x} is not in the symmetric heap")
        return thing.bases[rank] + address - thing.bases[self.rank]

    # -- host-side signals and copies -----------------------------------------------------------

    def notify(self, address: int, rank: int, value: int, add: bool) -> None:
        words = (ctypes.c_uint64 * 1).from_address(self.peer(address, rank))
        words[0] = (words[0] + value if add else value) % 2**64
        self.group.scheduler.progress()

    def wait(self, address: int, value: int, compare: str, timeout: float | None = None) -> None:
        from tilery.interpreter.instance import COMPARE
        words = (ctypes.c_uint64 * 1).from_address(address)
        thing = self.find(address)
        self.group.wait(Condition(
            lambda: bool(COMPARE[compare](words[0], value)),
            lambda task: f"rank {self.rank}: the host waits for signal '{thing.label}' "
                         f"{compare} {value}, sees {words[0]}"))

    def copy(self, destination: int, source: int, nbytes: int) -> None:
        ctypes.memmove(destination, source, nbytes)
        self.group.scheduler.progress()

    def finalize(self) -> None:
        return None


class Host(Task):
    """A rank's host code in a spawned world."""

    def __init__(self, world: World, function, args):
        super().__init__(world.group.scheduler, world.rank)
        self.world, self.function, self.args = world, function, args

    def run(self):
        return self.function(*self.args)


def spawn(function, ranks: int, args=(), **options) -> list:
    """Runs `function(*args)` once a rank; returns the ranks' results in order."""
    group = Group(ranks, **options)
    hosts = [Host(World(group, rank), function, args) for rank in range(ranks)]
    for host in hosts:
        group.scheduler.add(host)
    group.scheduler.run(lambda: all(host.done for host in hosts))
    if group.scheduler.first_error is not None:
        group.scheduler.first_error.add_note(
            f"raised on rank {group.scheduler.first_rank} of {ranks}")
        raise group.scheduler.first_error
    return [host.result for host in hosts]


