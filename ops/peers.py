# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Calls that use the peers' own buffers: what is moved goes straight to where it is wanted.

The addresses of the peers' buffers are arguments, as many as there are ranks, so that a recorded call has
them too. Such a call begins and ends with `meet`: where its instances meet those of the other ranks at the
begin, all that comes before the call has ended there, so that what it reads is ready and what it writes may
be overwritten; at the end, nobody goes on before all others are done with its buffers. An instance meets only
those of its own number, which is enough for what they do: a launch begins behind the ones before as a whole, and
ends when all of its instances have.
"""

import tilery as ty
import tilery.language as tl
import tilery.language.device as dl


@ty.jit
def meet(ready, meeting):
    """Waits until the instances of this number of all ranks are in this `meeting`, a number that grows by 1.
    ready: [ranks, instances] signals."""
    pid = tl.program_id(0)
    parts = tl.num_programs(0)
    rank = dl.rank()
    world = dl.num_ranks()
    for step in range(1, world):
        dl.notify(ready + rank * parts + pid, (rank + step) % world, signal=meeting, sig_op="set")
    for step in range(1, world):
        dl.wait(ready + (rank + step) % world * parts + pid, waitValue=meeting, cmp="ge")


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
def add(xs, outs, first, target, begin, end, RANKS: tl.constexpr, RESULTS: tl.constexpr,
        ACC: tl.constexpr, BLOCK: tl.constexpr, WHOLE: tl.constexpr):
    """`move` of the sum over RANKS xs, in their order, of their elements `first` + index, to the elements
    `target` + index of RESULTS outs."""
    at = begin + tl.arange(0, BLOCK)
    inside = (at < end) | WHOLE
    parts = ()  # all on their way before the first is added
    for source in tl.static_range(RANKS):
        parts = parts + (tl.load(xs[source] + first + at, mask=inside, other=0),)
    total = tl.zeros((BLOCK,), dtype=ACC)
    for source in tl.static_range(RANKS):
        total += parts[source].to(ACC)
    for step in tl.static_range(RESULTS):
        tl.store(outs[step] + target + at, total, mask=inside)


@ty.jit
def add_shared(xs, outs, first, target, n, RANKS: tl.constexpr, RESULTS: tl.constexpr,
               ACC: tl.constexpr, BLOCK: tl.constexpr, TAIL: tl.constexpr):
    """n elements as `add` has them, shared by all instances as in `move_shared`."""
    pid = tl.program_id(0)
    parts = tl.num_programs(0)
    whole = n // BLOCK * BLOCK
    even = whole + (n - whole) // 64 * 64
    for begin in range(pid * BLOCK, whole, parts * BLOCK):
        add(xs, outs, first, target, begin, whole, RANKS, RESULTS, ACC, BLOCK, True)
    for begin in range(whole + pid * TAIL, even, parts * TAIL):
        add(xs, outs, first, target, begin, even, RANKS, RESULTS, ACC, TAIL, False)
    if pid == parts - 1:
        add(xs, outs, first, target, even, n, RANKS, RESULTS, ACC, 64, False)
