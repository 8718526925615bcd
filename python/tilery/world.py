# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Worlds of ranks from Python: init, spawn, symmetric allocation, barrier, finalize."""

from __future__ import annotations

import atexit
import contextlib
import contextvars
import ctypes
import functools
import json
import math
import numbers
import operator
import sys
import threading
import time
import weakref

from tilery import _capi, knobs
from tilery.errors import ConfigError, Error, LaunchError, PeerError, describe
from tilery.interpreter import state
from tilery.registration import Registrations
from tilery.tensor import Tensor, extents

_COMPARE = {"eq": 0, "ne": 1, "gt": 2, "le": 3, "lt": 4, "ge": 5}


class NativeWorld:
    """One rank's world in the library; the interpreter's World has the same methods."""

    kind = "native"
    name = "the world"
    freed = False
    _whole = None  # of a team

    def __init__(self, handle: int, group: "_Group | None" = None):
        self.handle = handle  # and the memory, until the last tensor or view has gone
        self.group = group
        self.alive = True
        self.teams = weakref.WeakSet()  # those that are not finalized
        self.registrations = Registrations(handle)
        self._destroy = _capi.library().tilery_world_destroy
        _capi.launcher()  # runs Python's signal handlers during waits
        self.rank = _capi.library().tilery_world_rank(handle)
        self.size = _capi.library().tilery_world_size(handle)

    @property
    def whole(self) -> "NativeWorld":
        """The world that a team is part of. No attribute: a world that refers to itself would live,
        with its memory, until the garbage collector runs."""
        return self._whole or self

    @functools.cached_property
    def device(self) -> int:
        """The number of the device whose memory symmetric tensors are."""
        return self.describe()["device"]

    @functools.cached_property
    def host_reaches_memory(self) -> bool:
        return self.device == 0 or self.describe()["shared_heap"]

    def describe(self) -> dict:
        return json.loads(_capi.text_from("world_describe", self.handle))

    @property
    def ranks(self) -> list[int]:
        """The numbers in the whole world, in the order of the numbers here."""
        return self.describe()["ranks"]

    def team(self, ranks: list[int], name: str) -> "NativeTeam":
        listed = (ctypes.c_int32 * len(ranks))(*ranks)
        handle = _capi.handle_from("team_create", self.handle, listed, len(ranks), name.encode())
        return NativeTeam(handle, self.whole, name)

    def split(self, color: int, key: int, name: str) -> "NativeTeam":
        handle = _capi.handle_from("world_split", self.handle, color, key, name.encode())
        return NativeTeam(handle, self.whole, name)

    def barrier(self, timeout: float | None = None) -> None:
        _capi.call("world_barrier", self.handle, -1.0 if timeout is None else timeout)

    def all_gather_bytes(self, data: bytes, purpose: str | None = None) -> list[bytes]:
        """Every rank's bytes, in rank order; they may differ in length. `purpose` names it where ranks disagree."""
        lengths = self._gather_equal(len(data).to_bytes(8, "little"), purpose)
        sizes = [int.from_bytes(text, "little") for text in lengths]
        parts = self._gather_equal(data.ljust(max(sizes), b"\0"), purpose) if max(sizes) else lengths
        return [part[:size] for part, size in zip(parts, sizes)]

    def _gather_equal(self, data: bytes, purpose: str | None) -> list[bytes]:
        received = ctypes.create_string_buffer(len(data) * self.size)
        _capi.call("world_all_gather_bytes", self.handle, data, received, len(data),
                   purpose and purpose.encode())
        return [received.raw[r * len(data):(r + 1) * len(data)] for r in range(self.size)]

    def allocate(self, nbytes: int, label: str, type_text: str = "") -> int:
        return _capi.handle_from("symmetric_alloc_typed", self.handle, nbytes, label.encode(),
                                 type_text.encode())

    def free(self, address: int) -> None:
        _capi.call("symmetric_free", self.handle, address)

    def peer(self, address: int, rank: int) -> int:
        return _capi.handle_from("symmetric_at", self.handle, address, rank)

    def notify(self, address: int, rank: int, value: int, add: bool) -> None:
        _capi.call("signal_notify", self.handle, address, rank, value, int(add))

    def wait(self, address: int, value: int, compare: str, timeout: float | None = None) -> None:
        _capi.call("signal_wait", self.handle, address, value, _COMPARE[compare],
                   -1.0 if timeout is None else timeout)

    def trace_summary(self) -> dict:
        return json.loads(_capi.text_from("world_trace_summary", self.handle))

    def finalize(self) -> None:
        """Leaves the world when the calls of other threads have ended; later ones are refused.
        The memory lives on while tensors or views refer to it."""
        self.alive = False
        _capi.call("world_leave", self.handle)
        self.registrations.kept.clear()
        _capi.raise_interruption()  # waiting for the others ends without an error

    def __del__(self):
        handle, self.handle = getattr(self, "handle", 0), 0
        if handle and not sys.is_finalizing():
            self._destroy(handle)


class NativeTeam(NativeWorld):
    """See ty.team. `rank` is -1 where this rank does not belong to it."""

    def __init__(self, handle: int, whole: NativeWorld, name: str):
        super().__init__(handle, whole.group)
        self._whole, self.name = whole, f"team '{name}'"
        if self.rank >= 0:
            whole.teams.add(self)

    @property
    def alive(self) -> bool:
        return self.whole.alive and not self.freed

    @alive.setter
    def alive(self, value: bool) -> None:
        pass

    def finalize(self) -> None:
        """Collective over the team: frees its symmetric memory."""
        _capi.call("world_leave", self.handle)
        self.registrations.kept.clear()
        self.freed = True
        self.whole.teams.discard(self)

    def __repr__(self):
        return f"<{self.name}, rank {self.rank} of {self.size}>"


class _Group:
    """An in-process group; destroyed with the last reference."""

    def __init__(self, options: dict):
        self.handle = _capi.handle_from("group_create", _capi.encode(options))
        self._destroy = _capi.library().tilery_group_destroy

    def abort(self, rank: int, reason: str) -> None:
        _capi.library().tilery_group_abort(self.handle, rank, reason.encode(errors="replace"))

    def __del__(self):
        handle, self.handle = getattr(self, "handle", 0), 0
        if handle and not sys.is_finalizing():
            self._destroy(handle)


class _Current(threading.local):
    world = None


_current = _Current()
_process_world = None  # what ty.init() made, seen by all threads without a world of their own
_process_lock = threading.Lock()
_running_spawns = 0
_EVERYONE = -1  # a failure of no rank in particular
_INTERRUPT_GRACE_S = 2.0


def current(required: bool = True):
    """The world of the calling rank: the spawned one, else the one of ty.init()."""
    task = state.task()
    if task is not None:
        return task.world
    world = _current.world or _process_world
    if world is None and required:
        world = init()
    return world


def current_team(team):
    """The team that a caller gave, checked, or the world of the calling rank."""
    if team is None:
        return current()
    if not hasattr(team, "whole"):
        raise ConfigError(f"team= takes what ty.team, ty.split or ty.init returned, not a "
                          f"{type(team).__name__}")
    world = current(required=False)
    if world is not None and team.whole is not world:
        raise LaunchError(f"{team.name} was made by rank {team.whole.rank} of another world or "
                          f"thread, this is rank {world.rank}; every rank uses its own")
    return team


def init(**options):
    """Joins the world of this process and returns it; a second call returns the same, and a call
    in a rank of ty.spawn that rank's world.

    Options: rank, size (both or none), master_addr, master_port, token, mesh, heap_bytes,
    timeout_s, trace; device, share_device; for one rank shared_heap as of ty.spawn. Without rank and
    size the launcher's variables decide (torchrun, Slurm, MPI); else it is a world of one rank.
    device="cuda" gives each rank of this host the next GPU, "cuda:1" names one; that ranks share
    one is an error without share_device=True. Errors: ConfigError (options), PeerError (a rank is
    missing).

    Example: `ty.init(); print(ty.rank(), ty.num_ranks())`.
    """
    global _process_world
    from tilery.kernels import interpreting

    task = state.task()
    spawned = task.world if task is not None else _current.world
    if spawned is not None:
        if options:
            raise ConfigError("ty.init takes no options inside ty.spawn; give them to ty.spawn")
        return spawned
    with _process_lock:
        if _process_world is not None:
            return _process_world
        if _running_spawns:
            raise ConfigError("this thread is no rank, and a world of its own would not be that "
                              "of ty.spawn; call ty.* in the thread of a rank, or pass what the "
                              "rank has allocated")
        if interpreting():
            _process_world = _interpreted_alone(options)
        else:
            if not {"rank", "size"} & options.keys():
                from tilery.interop.torch import initialised_ranks
                options = (initialised_ranks() or {}) | options
            _capi.launcher()  # Ctrl-C ends the wait for the other ranks
            _process_world = NativeWorld(_capi.handle_from("world_init", _capi.encode(options)))
            atexit.register(_at_exit)
        return _process_world


def _at_exit() -> None:
    """A program that ends well leaves its world, which also writes the timeline. After an
    exception it does not: peers notice that this process is gone at once."""
    if not hasattr(sys, "last_value"):
        finalize()


def _interpreted_alone(options):
    from tilery.interpreter import world as interpreted

    if options.get("size", 1) != 1:
        raise ConfigError("the interpreter runs all ranks in one process; use "
                          f"ty.spawn(fn, ranks={options['size']})")
    return interpreted.World(interpreted.Group(1, timeout=knobs.get("TILERY_TIMEOUT_S")), 0)


def interpreter_world(team=None):
    """The world in which a launch by the interpreter runs now."""
    from tilery.interpreter import world as interpreted

    world = current(required=False) if team is None else current_team(team)
    if isinstance(world, interpreted.World):
        return world
    if world is not None and world.size > 1:
        raise LaunchError("the interpreter cannot run in a compiled world of "
                          f"{world.size} ranks; let ty.interpret() surround ty.spawn")
    global _interpreted
    if _interpreted is None:
        _interpreted = _interpreted_alone({})
    return _interpreted


_interpreted = None


def spawn(fn, ranks: int, args=(), *, seed=None, delay: bool = False, residency: int = 0,
          timeout: float | None = None, mesh=None, heap_bytes: int | None = None,
          trace: str | None = None, device: "str | list[str] | None" = None,
          shared_heap: bool = False, share_device: bool = False) -> list:
    """Runs `fn(*args)` once for each of `ranks` ranks in this process; returns their results.

    seed: makes the schedule reproducible. delay: remote writes and signals arrive late and
    reordered, as far as the memory model allows. residency: program instances that fit on one
    rank at once (0: no limit). timeout: seconds for each wait. trace: file of the timeline.
    device: an accelerator, "cuda": symmetric memory is that device's, and each rank has a stream
    there; or a list of one for each rank, of fewer, in turn, with share_device. shared_heap: memory
    of a kind that the host reads and writes as well, which is slower. Raises what the first failing
    rank raised.

    Example: `ty.spawn(lambda: ty.rank(), ranks=2)` is `[0, 1]`.
    """
    from tilery.kernels import interpreting

    if not hasattr(ranks, "__index__") or ranks < 1:
        raise ConfigError(f"ty.spawn needs ranks >= 1, not {ranks!r}")
    ranks = operator.index(ranks)
    if state.task() is not None or _current.world is not None:
        raise ConfigError("ty.spawn cannot be called from a rank of another world")
    timeout = _seconds(timeout)
    if seed is None and knobs.get("TILERY_SEED") >= 0 and device is None:
        seed = knobs.get("TILERY_SEED")
    if interpreting():
        from tilery.interpreter import world as interpreted
        with _running():
            return interpreted.spawn(fn, ranks, args, seed=seed, delay=delay, residency=residency,
                                     timeout=timeout, mesh=mesh)
    options = {"ranks": ranks, "seed": seed, "delay": delay or None, "residency": residency or None,
               "timeout_s": timeout, "mesh": mesh, "heap_bytes": heap_bytes, "trace": trace,
               "device": device, "shared_heap": shared_heap or None,
               "share_device": share_device or None}
    options = {key: value for key, value in options.items() if value is not None}
    with _running():
        return _spawn_native(fn, ranks, args, options)


def _seconds(timeout) -> float:
    if timeout is None:
        return knobs.get("TILERY_TIMEOUT_S")
    if not isinstance(timeout, numbers.Real) or not 0 <= timeout < math.inf:
        raise ConfigError(f"timeout is {timeout!r}; it takes a number of seconds, 0 for none")
    return float(timeout)


@contextlib.contextmanager
def _running():
    """Meanwhile no other thread gets a world of its own by accident."""
    global _running_spawns
    with _process_lock:
        _running_spawns += 1
    try:
        yield
    finally:
        with _process_lock:
            _running_spawns -= 1


def _spawn_native(fn, ranks: int, args, options: dict) -> list:
    group = _Group(options)
    results, errors = [None] * ranks, []

    def drive(rank: int) -> None:
        world = None
        try:
            handle = _capi.handle_from("group_rank", group.handle, rank)
            world = _current.world = NativeWorld(handle, group)
            results[rank] = fn(*args)
            world.finalize()
        except BaseException as error:
            errors.append(error)
            group.abort(rank, describe(error))
            BaseException.add_note(error, f"raised on rank {rank} of {ranks}")
            _leave(world)
        finally:
            _current.world = None
            ended[rank].set()

    ended = [threading.Event() for _ in range(ranks)]
    threads = [threading.Thread(target=contextvars.copy_context().run, args=(drive, rank),
                                name=f"rank {rank}", daemon=True)
               for rank in range(ranks)]
    _run(threads, group, ended)
    if errors:
        causes = [error for error in errors if not isinstance(error, PeerError)]
        raise (causes or errors)[0]
    return results


def _run(threads, group: _Group, ended) -> None:
    """Starts and joins the ranks. Ctrl-C ends their waits, and their launches between two program
    instances; a rank that does something else is left behind."""
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    except BaseException:
        group.abort(_EVERYONE, "the program was interrupted")
        deadline = time.monotonic() + _INTERRUPT_GRACE_S
        for thread, end in zip(threads, ended):
            if thread.ident is not None:  # an interrupted join takes the thread for ended
                end.wait(max(0.0, deadline - time.monotonic()))
        raise


def _leave(world: NativeWorld | None) -> None:
    """Ends the world of a rank that has failed; its group is marked as failed already."""
    try:
        if world is not None:
            world.finalize()
    except Error:
        pass


def rank(axis: int = -1, *, team=None) -> int:
    """This rank in the world or the team, or its index along one axis of the mesh."""
    return _axis(axis, team)[0]


def num_ranks(axis: int = -1, *, team=None) -> int:
    """Number of ranks of the world or the team, or along one axis of the mesh."""
    return _axis(axis, team)[1]


def _axis(axis: int, team) -> tuple[int, int]:
    world = current_team(team)
    if axis == -1:
        return world.rank, world.size
    mesh = world.describe()["mesh"]
    if not 0 <= axis < len(mesh):
        raise LaunchError(f"axis {axis} does not exist in mesh {mesh}")
    return world.rank // math.prod(mesh[axis + 1:]) % mesh[axis], mesh[axis]


def barrier(timeout: float | None = None, *, team=None) -> None:
    """Waits until every rank (of the team) is here; `timeout` in seconds, None for the world's."""
    current_team(team).barrier(timeout)


def trace_summary() -> dict:
    """Where this rank's time went since its timeline is recorded (option `trace`).

    Keys: rank, enabled, launches, instances, launch_ns, compute_ns, transfer_ns, wait_ns (of all
    program instances together), exposed_wait_ns (when none of them ran, on devices when all of them
    waited), put_bytes, get_bytes, notifies, dropped_events. Waits for the rank's launches on devices.
    """
    world = current()
    if world.kind != "native":
        raise LaunchError("the interpreter records no timeline")
    return world.trace_summary()


def finalize() -> None:
    """Leaves the world of ty.init(); may be called twice, waits for nobody who is gone."""
    global _process_world
    with _process_lock:
        world, _process_world = _process_world, None
    if world is not None:
        world.finalize()


def checked_name(name) -> str:
    """What errors call an object. ConfigError when it is no string."""
    if not isinstance(name, str):
        raise ConfigError(f"a name is a string, not {name!r}")
    return name


def _allocate(shape, dtype, label: str, team) -> Tensor:
    from tilery.language import dtypes

    shape = extents(shape, label)
    if dtype is None:
        raise LaunchError(f"'{label}' needs an element type, such as ty.float32, not None")
    element = dtypes.from_any(dtype)
    nbytes = math.prod(shape) * element.itemsize
    if nbytes >= 1 << 63:
        raise LaunchError(f"'{label}' of shape {list(shape)} would have {nbytes} bytes; at most "
                          f"{2**63 - 1} can be addressed")
    world = current_team(team)
    address = world.allocate(nbytes, label, f"{element.name}{list(shape)}")
    return Tensor(world, address, shape, element, label)


def zeros(shape, dtype, name: str = "tensor", *, team=None, device: str | None = None):
    """Collective: a symmetric tensor of zeros; all ranks ask for the same shape in one order.

    `name` is what errors call it; `team` has it (None: the world). With `device`, such as "cuda" or
    "cuda:1", an ordinary array in that device's memory, which concerns no other rank. Errors:
    LaunchError that lists the ranks' differing shapes.
    """
    checked_name(name)
    if device is not None and team is None and device != "cpu":
        from tilery.device_array import allocate
        return allocate(shape, dtype, device, name)
    return _allocate(shape, dtype, name, team)


def empty(shape, dtype, name: str = "tensor", *, team=None, device: str | None = None):
    """Like `zeros`; new memory is always zeroed."""
    return zeros(shape, dtype, name, team=team, device=device)


def signals(count: int, name: str = "signals", *, team=None) -> Tensor:
    """Collective: `count` 64-bit signals, all 0. Two teams never share one."""
    from tilery.language import dtypes

    return _allocate((count,), dtypes.signal, checked_name(name), team)
