# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Calls that use the peers' own buffers: what is moved goes straight to where it is wanted.

Such a call begins with a launch of `open_direct`, which notes where the peers' buffers are and meets the
other ranks: all that comes before the call has ended there, so that what it reads is ready and what it
writes may be overwritten. Addresses are arguments of that launch, so that a recorded call has them too. It
ends with `leave`: nobody goes on before all others are done with its buffers.
"""

import tilery as ty
import tilery.language as tl
import tilery.language.device as dl

from .parts import open_call


@ty.jit(do_not_specialize=["a0", "a1", "a2", "a3", "a4", "a5", "a6", "a7"])
def note_peers(peers, first, a0, a1, a2, a3, a4, a5, a6, a7):
    """peers[first : first + 8] = these addresses; peers: int64."""
    tl.store(peers + first, a0)
    tl.store(peers + first + 1, a1)
    tl.store(peers + first + 2, a2)
    tl.store(peers + first + 3, a3)
    tl.store(peers + first + 4, a4)
    tl.store(peers + first + 5, a5)
    tl.store(peers + first + 6, a6)
    tl.store(peers + first + 7, a7)


@ty.jit(do_not_specialize=["a0", "a1", "a2", "a3", "a4", "a5", "a6", "a7"])
def open_direct(entered, epochs, peers, first, a0, a1, a2, a3, a4, a5, a6, a7):
    """`note_peers`, then `open_call`; grid (1,)."""
    note_peers(peers, first, a0, a1, a2, a3, a4, a5, a6, a7)
    open_call(entered, epochs)


@ty.jit
def buffer_of(like, peers, index, ALIGN: tl.constexpr):
    """The buffer at the address peers[index], which ALIGN divides, of elements as `like` has."""
    address = tl.load(peers + index).to(tl.int64)
    return tl.multiple_of(address.to(like.dtype, bitcast=True), ALIGN)


@ty.jit
def leave(ready, epoch):
    """Waits until the instance of this number is here on all ranks. ready: [ranks, instances]."""
    pid = tl.program_id(0)
    parts = tl.num_programs(0)
    rank = dl.rank()
    world = dl.num_ranks()
    for step in range(0, world):
        dl.notify(ready + rank * parts + pid, (rank + step) % world, signal=epoch, sig_op="set")
    for source in range(0, world):
        dl.wait(ready + source * parts + pid, waitValue=epoch, cmp="ge")


@ty.jit
def move(destination, source, begin, end, BLOCK: tl.constexpr, WHOLE: tl.constexpr):
    """Elements `begin` to `begin` + BLOCK, as far as they are before `end`; WHOLE: they are."""
    at = begin + tl.arange(0, BLOCK)
    inside = (at < end) | WHOLE
    tl.store(destination + at, tl.load(source + at, mask=inside), mask=inside)


@ty.jit
def move_shared(destination, source, n, BLOCK: tl.constexpr, TAIL: tl.constexpr):
    """destination[n] = source[n], shared by all instances: in blocks without a mask, then in blocks whose
    mask keeps accesses wide, then what is left of 64 elements."""
    pid = tl.program_id(0)
    parts = tl.num_programs(0)
    whole = n // BLOCK * BLOCK
    even = whole + (n - whole) // 64 * 64
    for begin in range(pid * BLOCK, whole, parts * BLOCK):
        move(destination, source, begin, whole, BLOCK, True)
    for begin in range(whole + pid * TAIL, even, parts * TAIL):
        move(destination, source, begin, even, TAIL, False)
    if pid == parts - 1:
        move(destination, source, even, n, 64, False)


@ty.jit
def take_own(own, target, ready, epochs, n, first, senders, BLOCK: tl.constexpr, TAIL: tl.constexpr):
    """target[n] = own[n], beside what copy engines of ranks `first` to `first` + `senders` bring into this
    rank's other parts, which are there when this ends: ready[rank] is epochs[0]. Grid (instances,)."""
    epoch = tl.load(epochs)
    move_shared(target, own, n, BLOCK, TAIL)
    for source in range(first, first + senders):
        if source != dl.rank():
            dl.wait(ready + source, waitValue=epoch, cmp="ge")


@ty.jit
def add(x, out, peers, first, begin, end, RESULTS: tl.constexpr, RANKS: tl.constexpr,
        ACC: tl.constexpr, ALIGN: tl.constexpr, BLOCK: tl.constexpr, WHOLE: tl.constexpr):
    """`move` of the sum over ranks, in their order, of elements `first` + index of their x, at peers[rank],
    to the same elements of the first RESULTS ranks' out, at peers[RANKS + rank]; without any, to out[index].
    """
    at = begin + tl.arange(0, BLOCK)
    inside = (at < end) | WHOLE
    parts = ()  # all on their way before the first is added
    for source in tl.static_range(RANKS):
        theirs = buffer_of(x, peers, source, ALIGN) + first
        parts = parts + (tl.load(theirs + at, mask=inside, other=0),)
    total = tl.zeros((BLOCK,), dtype=ACC)
    for source in tl.static_range(RANKS):
        total += parts[source].to(ACC)
    if RESULTS == 0:
        tl.store(out + at, total, mask=inside)
    for step in tl.static_range(RESULTS):
        peer = (dl.rank() + 1 + step) % RESULTS
        tl.store(buffer_of(out, peers, RANKS + peer, ALIGN) + first + at, total, mask=inside)


@ty.jit
def add_shared(x, out, peers, first, n, RESULTS: tl.constexpr, RANKS: tl.constexpr,
               ACC: tl.constexpr, ALIGN: tl.constexpr, BLOCK: tl.constexpr, TAIL: tl.constexpr):
    """n elements as `add` has them, shared by all instances as in `move_shared`."""
    pid = tl.program_id(0)
    parts = tl.num_programs(0)
    whole = n // BLOCK * BLOCK
    even = whole + (n - whole) // 64 * 64
    for begin in range(pid * BLOCK, whole, parts * BLOCK):
        add(x, out, peers, first, begin, whole, RESULTS, RANKS, ACC, ALIGN, BLOCK, True)
    for begin in range(whole + pid * TAIL, even, parts * TAIL):
        add(x, out, peers, first, begin, even, RESULTS, RANKS, ACC, ALIGN, TAIL, False)
    if pid == parts - 1:
        add(x, out, peers, first, even, n, RESULTS, RANKS, ACC, ALIGN, 64, False)
