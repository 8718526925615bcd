# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Device level of the kernel language: ranks, symmetric memory, signals, one-sided copies.

Reference semantics for the interpreter; compiled kernels have the same names from the front end.
`notify` is a release and `wait` an acquire of the whole program instance.
"""

from __future__ import annotations

import enum

import numpy as np

from tilery.errors import CompileError, LaunchError
from tilery.interpreter import state
from tilery.interpreter.scheduler import Condition
from tilery.language import dtypes as dt
from tilery.language.values import as_tensor, plain, tensor


class Compare(enum.Enum):
    """How `wait` compares a signal with the expected value."""

    EQ, NE, GT, LE, LT, GE = range(6)


class SignalOp(enum.Enum):
    """How `notify` and `put_signal` update a signal."""

    SET, ADD = range(2)


class Scope(enum.Enum):
    """Who sees what a notify releases."""

    INSTANCE, DEVICE, SYSTEM = range(3)


def _choice(value, kind, what: str):
    """A member of `kind` from itself or its name; another enumeration is an error."""
    value = plain(value)
    if isinstance(value, kind):
        return value
    names = [member.name.lower() for member in kind]
    if isinstance(value, str) and value.lower() in names:
        return kind[value.upper()]
    if isinstance(value, enum.Enum):
        raise CompileError(f"{what} takes a {kind.__name__}, not "
                           f"{type(value).__name__}.{value.name}")
    raise CompileError(f"{what} takes one of {', '.join(names)}, not {value!r}")


# Triton's and Triton-distributed's names of scopes; within a node and between nodes is the system.
_SCOPES = ("cta", "gpu", "sys", "instance", "device", "system", "intra_node", "inter_node")


def _check_scope(value, what: str) -> None:
    value = plain(value)
    if not isinstance(value, Scope) and value not in _SCOPES:
        raise CompileError(f"the scope of {what} is one of {', '.join(_SCOPES)}, not {value!r}")


def rank(axis=-1) -> tensor:
    """This rank, or its index along one axis of the mesh, int32."""
    return tensor(np.int32(state.instance().world.axis(int(plain(axis)), "dl.rank")[0]), dt.int32)


def num_ranks(axis=-1) -> tensor:
    """Number of ranks, or the extent of one axis of the mesh, int32."""
    size = state.instance().world.axis(int(plain(axis)), "dl.num_ranks")[1]
    return tensor(np.int32(size), dt.int32)


def _symmetric(pointer, what: str) -> tensor:
    """`pointer` when it may be translated to another rank, else an error that says why."""
    if not isinstance(pointer, tensor) or not pointer.dtype.is_ptr():
        raise CompileError(f"{what} needs a pointer")
    place = pointer.place
    if place is None or place.symmetric is None:
        name = f"argument '{place.name}'" if place else "this pointer"
        raise CompileError(f"{what}: {name} is not in the symmetric heap; "
                           "allocate it with ty.empty or ty.zeros, or register it with ty.register")
    if place.remote:
        raise CompileError(f"{what}: '{place.name}' is already a remote pointer (rank "
                           f"{place.rank}); translate the local one")
    return pointer


def _on(pointer: tensor, target: int) -> tensor:
    """The same symmetric address on rank `target`."""
    place, thing = pointer.place, pointer.place.symmetric
    here, there = thing.bases[place.rank], thing.bases[target]
    moved = place.__class__(place.name, place.base - here + there, place.nbytes, rank=target,
                            symmetric=thing, signal=place.signal, remote=True)
    return tensor(pointer.data - here + there, pointer.dtype, moved)


def symm_at(ptr, rank) -> tensor:
    """Address of the symmetric object behind `ptr` on `rank`; a remote pointer."""
    pointer = _symmetric(ptr, "dl.symm_at")
    if pointer.shape:
        raise CompileError("dl.symm_at takes one pointer, not a tile of them; translate the base "
                           "pointer, then add the offsets")
    if pointer.dtype.element_ty == dt.signal:
        raise CompileError("dl.symm_at does not take signals; dl.notify names the rank itself")
    return _on(pointer, state.instance().check_rank(int(rank), "dl.symm_at"))


def _signal(sig, what: str) -> tuple[tensor, int]:
    """A signal pointer of this rank and the number of the word it points to."""
    if not isinstance(sig, tensor) or not sig.dtype.is_ptr() or \
            sig.dtype.element_ty != dt.signal:
        found = sig.dtype if isinstance(sig, tensor) else type(plain(sig)).__name__
        raise CompileError(f"{what} needs a signal, got {found}; allocate it with ty.signals(n)")
    if sig.shape:
        raise CompileError(f"{what} takes one signal, not a tile of {list(sig.shape)}")
    _symmetric(sig, what)
    index = sig.place.indices(sig.data.reshape(1), np.dtype(np.uint64), f"{what} uses")
    return sig, int(index[0])


def _unsigned(value, what: str) -> int:
    value = as_tensor(value)
    if value.shape or not value.dtype.is_int():
        raise CompileError(f"{what} needs an integer, got {value.dtype}{list(value.shape)}")
    return int(value)


def notify(sig, rank, signal=1, sig_op="set", comm_scope="sys") -> None:
    """Release of everything this instance did, then one update of `sig` on `rank`."""
    _check_scope(comm_scope, "dl.notify")
    here = state.instance()
    pointer, index = _signal(sig, "dl.notify")
    operation = _choice(sig_op, SignalOp, "sig_op of dl.notify")
    target = here.check_rank(int(rank), "dl.notify")
    remote = _on(pointer, target).place
    update = here.update_signal(remote, index, _unsigned(signal, "dl.notify"),
                                operation is SignalOp.ADD)
    here.memory_step()
    here.send(update, ordered=True)


def wait(sig, count=1, scope="sys", semantic="acquire", waitValue=1, cmp="eq") -> tensor:
    """Waits until `count` signals from `sig` on compare true with `waitValue`; acquire.

    Returns a token, which `consume_token` accepts.
    """
    _check_scope(scope, "dl.wait")
    if plain(semantic) not in ("acquire", "acq_rel"):
        raise CompileError(f'the semantic of dl.wait is "acquire", not {plain(semantic)!r}')
    pointer, index = _signal(sig, "dl.wait")
    compare = _choice(cmp, Compare, "cmp of dl.wait").name.lower()
    count = _unsigned(count, "count of dl.wait")
    words = pointer.place.nbytes // 8
    if count and index + count > words:
        raise LaunchError(f"dl.wait: signals {index} to {index + count - 1} of argument "
                          f"'{pointer.place.name}', which has {words}")
    here = state.instance()
    here.memory_step()
    if count > 0:
        value = _unsigned(waitValue, "waitValue of dl.wait")
        here.wait(pointer.place, index, count, value, compare)
    return tensor(np.int32(0), dt.int32)


def consume_token(value, token):
    """`value`, unchanged; accepted for compatibility."""
    return value


def _transfer(local, symmetric, n, target, what: str):
    """Checks one copy; returns (bytes, local address and place, place on the other rank)."""
    if not isinstance(local, tensor) or not local.dtype.is_ptr() or local.shape or symmetric.shape:
        raise CompileError(f"{what} needs two scalar pointers")
    element = symmetric.dtype.element_ty
    if local.dtype.element_ty != element:
        raise CompileError(f"{what}: the pointers differ in type ({local.dtype} and "
                           f"{symmetric.dtype})")
    if element == dt.signal:
        raise CompileError(f"{what} does not copy signals; use dl.notify")
    count = _unsigned(n, f"the element count of {what}")
    if count < 0:
        raise LaunchError(f"{what}: the element count {count} is negative")
    other = _on(_symmetric(symmetric, what), target)
    spans = []
    for pointer in (local, other):
        place = pointer.place
        if count:
            ends = pointer.data + np.array([0, count - 1]) * element.itemsize
            first = int(place.indices(ends, element.numpy, f"{what} accesses")[0])
            spans.append(place.view(element.numpy)[first:first + count])
    return spans


def _put(dst, src, n, rank, sig, signal, sig_op, nbi: bool, what: str) -> None:
    here = state.instance()
    target = here.check_rank(int(rank), what)
    spans = _transfer(src, dst, n, target, what)
    update = None
    if sig is not None:
        operation = _choice(sig_op, SignalOp, f"sig_op of {what}")
        pointer, index = _signal(sig, what)
        update = here.update_signal(_on(pointer, target).place, index, _unsigned(signal, what),
                                    operation is SignalOp.ADD)
    here.memory_step()
    source = spans[0].copy() if spans and not nbi else spans[0] if spans else None

    def apply():
        if spans:
            spans[1][...] = source
        here.progress()

    here.send(apply, update)


def put(dst, src, n, rank) -> None:
    """Copies `n` elements from `src` (local) to the symmetric `dst` on `rank`.

    `src` can be reused on return; the data arrives at the latest with the next quiet, notify
    or end of the launch.
    """
    _put(dst, src, n, rank, None, 0, "set", False, "dl.put")


def put_nbi(dst, src, n, rank) -> None:
    """Like `put`, but `src` must stay as it is until the next quiet, notify or end."""
    _put(dst, src, n, rank, None, 0, "set", True, "dl.put_nbi")


def put_signal(dst, src, n, rank, sig, signal=1, sig_op="set") -> None:
    """Like `put`; updates `sig` on `rank` after the data, also when `n` is 0."""
    _put(dst, src, n, rank, sig, signal, sig_op, False, "dl.put_signal")


def put_signal_nbi(dst, src, n, rank, sig, signal=1, sig_op="set") -> None:
    _put(dst, src, n, rank, sig, signal, sig_op, True, "dl.put_signal_nbi")


def get(dst, src, n, rank) -> None:
    """Copies `n` elements from the symmetric `src` on `rank` to `dst` (local)."""
    here = state.instance()
    target = here.check_rank(int(rank), "dl.get")
    spans = _transfer(dst, src, n, target, "dl.get")
    here.memory_step()
    here.release()
    if spans:
        spans[0][...] = spans[1]
    here.progress()


def get_nbi(dst, src, n, rank) -> None:
    get(dst, src, n, rank)


def fence() -> None:
    """Puts to one rank made before arrive before those made after."""
    state.instance().queue.order()


def quiet() -> None:
    """All puts of this instance have arrived."""
    state.instance().release()


def barrier_all() -> None:
    """All ranks; called by one program instance a rank. Includes a quiet."""
    here = state.instance()
    here.release()
    circle, own = here.world.circle, here.world.rank
    number = circle.counts.get((own, "device"), 0)
    circle.counts[own, "device"] = number + 1
    here.progress()

    def late() -> list[int]:
        return [r for r in range(len(circle.seats))
                if circle.counts.get((r, "device"), 0) <= number]

    here.scheduler.block(Condition(
        lambda: not late(),
        lambda task: f"{here.world.rank_text()}, kernel '{here.kernel}', instance {here.program_id}: in "
                     f"dl.barrier_all, waits for rank {', '.join(map(str, late()))}"))


def sync_all() -> None:
    """Like barrier_all, without completing puts."""
    barrier_all()
