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
from tilery.interpreter.registration import Registrations
from tilery.interpreter.scheduler import Condition, Scheduler, Task

_ALIGNMENT = 4096


class SymmetricObject:
    """One collective allocation, or registration: `nbytes` bytes on each of the circle's seats."""

    def __init__(self, label: str, nbytes: int, circle: "Circle"):
        self.label, self.nbytes, self.circle = label, nbytes, circle
        self.buffers: dict[int, np.ndarray] = {}
        self.bases: dict[int, int] = {}
        self.writers: set[str] = set()

    def allocated(self) -> "SymmetricObject":
        for seat in self.circle.seats:
            self.buffers[seat] = buffer = np.zeros(self.nbytes + _ALIGNMENT, np.uint8)
            self.bases[seat] = -(-buffer.ctypes.data // _ALIGNMENT) * _ALIGNMENT
        return self

    def place(self, rank: int, name: str = "", **changes) -> Place:
        return Place(name or self.label, self.bases[rank], self.nbytes, rank=rank, symmetric=self,
                     **changes)


class Collective:
    """A meeting of all ranks of a circle: each brings a value, all leave with the list."""

    def __init__(self, circle: "Circle", what: str):
        self.circle, self.what = circle, what
        self.values: dict[int, object] = {}

    def join(self, rank: int, value) -> list:
        self.values[rank] = value
        size = len(self.circle.seats)
        missing = lambda: [r for r in range(size) if r not in self.values]  # noqa: E731
        self.circle.group.wait(Condition(
            lambda: len(self.values) == size,
            lambda task: f"{self.circle.rank_text(rank)}: in {self.what}, waits for rank "
                         f"{', '.join(str(r) for r in missing())}"))
        return [self.values[r] for r in range(size)]


class Circle:
    """The ranks of the world or of a team, as seats of the group, and where they meet."""

    def __init__(self, group: "Group", seats, name: str = "the world", parent=None):
        self.group, self.seats, self.name, self.parent = group, tuple(seats), name, parent
        self.meetings: dict[tuple, Collective] = {}
        self.counts: dict[tuple, int] = {}
        self.allocated: dict[int, SymmetricObject] = {}
        self.registered: dict[int, SymmetricObject] = {}
        self.teams: dict[tuple, Circle] = {}

    def rank_text(self, rank: int) -> str:
        if self.parent is None:
            return f"rank {rank}"
        return f"rank {rank} of {self.name} (rank {self.seats[rank]} of the world)"

    def has(self, other: "Circle | None") -> bool:
        """Whether `other` is this circle or one of those that it was made in."""
        return other is self or (self.parent is not None and self.parent.has(other))

    def meet(self, rank: int, kind: str, value, what: str) -> list:
        """The n-th call of a kind on one rank meets the n-th call on every other."""
        number = self.counts.get((rank, kind), 0)
        self.counts[rank, kind] = number + 1
        meeting = self.meetings.setdefault((kind, number), Collective(self, what))
        values = meeting.join(rank, value)
        if number > 1:
            self.meetings.pop((kind, number - 2), None)
        return values


class Group:
    """All ranks of one interpreted world."""

    def __init__(self, size: int, seed=None, delay: bool = False, residency: int = 0,
                 timeout: float = 60.0, mesh=None):
        self.size, self.delay, self.residency = size, delay, residency
        self.mesh = tuple(mesh) if mesh else (size,)
        if int(np.prod(self.mesh)) != size:
            raise ConfigError(f"mesh {list(self.mesh)} has {int(np.prod(self.mesh))} places for "
                              f"{size} ranks")
        self.scheduler = Scheduler(seed, timeout)
        self.objects: list[SymmetricObject] = []
        self.circle = Circle(self, range(size))

    def wait(self, condition: Condition) -> None:
        """From a task: lets others run until the condition holds; from outside: runs them."""
        from tilery.interpreter import state
        if state.task() is not None:
            self.scheduler.block(condition)
        elif not condition.ready():
            self.scheduler.run(condition.ready)


class World:
    """One rank's view of a group, or of a team of it."""

    kind = "interpreter"
    alive = True
    freed = False

    def __init__(self, group: Group, seat: int, circle: Circle | None = None,
                 whole: "World | None" = None):
        self.group, self.circle, self.own_seat = group, circle or group.circle, seat
        self.whole = whole or self
        self.name, self.size = self.circle.name, len(self.circle.seats)
        self.rank = self.circle.seats.index(seat) if seat in self.circle.seats else -1
        self.delays = group.delay
        self.registrations = Registrations(self)
        self.timeout = group.scheduler.timeout

    # -- queries --------------------------------------------------------------------------

    def describe(self) -> dict:
        used = sum(o.nbytes for o in self.group.objects)
        return {"rank": self.rank, "size": self.size, "mesh": list(self.mesh),
                "team": None if self.whole is self else self.name, "ranks": self.ranks,
                "kind": "interpreter", "heap": {"bytes": used, "used": used},
                "timeout_s": self.timeout, "trace": None}

    def axis(self, axis: int, what: str) -> tuple[int, int]:
        """(rank, size) along an axis of the mesh; -1 means all ranks."""
        if axis == -1:
            return self.rank, self.size
        mesh = self.mesh
        if not 0 <= axis < len(mesh):
            raise LaunchError(f"{what}: axis {axis} does not exist in mesh {list(mesh)}")
        return int(np.unravel_index(self.rank, mesh)[axis]), mesh[axis]

    @property
    def mesh(self) -> tuple[int, ...]:
        return self.group.mesh if self.whole is self else (self.size,)

    @property
    def ranks(self) -> list[int]:
        """The numbers in the whole world, in the order of the numbers here."""
        return list(self.circle.seats)

    def seat(self, rank: int) -> int:
        return self.circle.seats[rank]

    def rank_text(self) -> str:
        return self.circle.rank_text(self.rank)

    def require_member(self) -> None:
        if self.freed:
            raise LaunchError(f"{self.name} was finalized; rank {self.own_seat} has left it")
        if self.rank < 0:
            seats = f" (ranks {', '.join(map(str, self.ranks))} of the world)" if self.ranks else ""
            raise LaunchError(f"rank {self.own_seat} of the world does not belong to "
                              f"{self.name}{seats}")

    def find(self, address: int, nbytes: int = 0) -> SymmetricObject | None:
        """The symmetric object that holds [address, address + nbytes) on this rank; of several, which
        teams have registered, one of these ranks."""
        found = None
        for thing in self.group.objects:
            base = thing.bases.get(self.own_seat)
            if base is not None and base <= address and address + nbytes <= base + thing.nbytes:
                if self.circle.has(thing.circle):
                    return thing
                found = thing
        return found

    def find_own(self, name: str, address: int, nbytes: int) -> SymmetricObject | None:
        """The same; an error when it belongs to a team that these ranks are not."""
        thing = self.find(address, nbytes)
        if thing is not None and not self.circle.has(thing.circle):
            raise LaunchError(f"{name} is '{thing.label}', which belongs to a team, not to "
                              f"{self.name}\nhint: only the ranks of that team have it; launch on "
                              "that team")
        return thing

    def note_writer(self, place: Place, writer: str) -> None:
        if place.symmetric is not None:
            place.symmetric.writers.add(writer)

    def writers_of(self, place: Place) -> str:
        writers = sorted(place.symmetric.writers) if place.symmetric else []
        return "written so far by " + ", ".join(writers) if writers else "never written so far"

    # -- collectives ------------------------------------------------------------------------

    def meet(self, kind: str, value, what: str) -> list:
        self.require_member()
        return self.circle.meet(self.rank, kind, value, what)

    def team(self, ranks: list[int], name: str) -> "World":
        asked = self.meet("team", (tuple(ranks), name), "the creation of a team")
        if len(set(asked)) > 1:
            raise LaunchError("the ranks disagree about a collective operation: " +
                              ", ".join(f"rank {r}: team '{label}' of ranks {list(listed)}"
                                        for r, (listed, label) in enumerate(asked)))
        self._check_team(ranks, name)
        return self._make_team([ranks], name)

    def _check_team(self, ranks: list[int], name: str) -> None:
        if not ranks:
            raise LaunchError(f"team '{name}' has no ranks")
        for at, rank in enumerate(ranks):
            if not 0 <= rank < self.size:
                raise LaunchError(f"rank {rank} of team '{name}' is out of range: {self.name} has "
                                  f"{self.size} ranks")
            if rank in ranks[:at]:
                raise LaunchError(f"rank {rank} occurs twice in team '{name}' of ranks {ranks}")

    def split(self, color: int, key: int, name: str) -> "World":
        chosen = self.meet("split", (color, key), "a split")
        order = sorted(range(self.size), key=lambda rank: (*chosen[rank], rank))
        colors = dict.fromkeys(chosen[rank][0] for rank in order if chosen[rank][0] >= 0)
        return self._make_team([[r for r in order if chosen[r][0] == c] for c in colors], name)

    def _make_team(self, teams: list[list[int]], name: str) -> "World":
        number = (self.circle.counts.get((self.rank, "team"), 0),
                  self.circle.counts.get((self.rank, "split"), 0))
        own = next((ranks for ranks in teams if self.rank in ranks),
                   teams[0] if len(teams) == 1 else [])
        seats = tuple(self.seat(rank) for rank in own)
        circle = self.circle.teams.setdefault(
            (number, seats), Circle(self.group, seats, f"team '{name}'", self.circle))
        return World(self.group, self.own_seat, circle, self.whole)

    def barrier(self, timeout: float | None = None) -> None:
        self.meet("barrier", None, "ty.barrier")

    def all_gather_bytes(self, data: bytes, purpose: str | None = None) -> list[bytes]:
        return self.meet("gather", bytes(data), purpose or "an exchange between hosts")

    def allocate(self, nbytes: int, label: str, type_text: str = "") -> int:
        made = self.meet("alloc", (nbytes, type_text), "a symmetric allocation")
        if len(set(made)) > 1:
            raise LaunchError(
                f"symmetric allocation of '{label}' differs between ranks: " +
                ", ".join(f"rank {r} asks for {size} bytes, {text}"
                          for r, (size, text) in enumerate(made)))
        number = self.circle.counts[self.rank, "alloc"]
        shared = self.circle.allocated
        if number not in shared:
            shared[number] = SymmetricObject(label, nbytes, self.circle).allocated()
            self.group.objects.append(shared[number])
        return shared[number].bases[self.own_seat]

    def free(self, address: int) -> None:
        thing = self.find(address)
        self.meet("free", address, "a symmetric free")
        if thing in self.group.objects:
            self.group.objects.remove(thing)

    def peer(self, address: int, rank: int) -> int:
        thing = self.find(address)
        if thing is None:
            raise LaunchError(f"address {address:#x} is not in the symmetric heap")
        return thing.bases[self.seat(rank)] + address - thing.bases[self.own_seat]

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
            lambda task: f"{self.rank_text()}: the host waits for signal '{thing.label}' "
                         f"{compare} {value}, sees {words[0]}"))

    def copy(self, destination: int, source: int, nbytes: int) -> None:
        ctypes.memmove(destination, source, nbytes)
        self.group.scheduler.progress()

    def finalize(self) -> None:
        """A team gives its memory back; collective over it."""
        if self.whole is self or self.freed:
            return
        self.meet("finalize", None, "the end of a team")
        self.freed = True
        self.group.objects = [o for o in self.group.objects if o.circle is not self.circle]


class Host(Task):
    """A rank's host code in a spawned world."""

    def __init__(self, world: World, function, args):
        super().__init__(world.group.scheduler, world.own_seat)
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


