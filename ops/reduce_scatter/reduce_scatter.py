# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Reduce-scatter: each rank gets the sum of all ranks' contributions to its shard.

Sums are taken in rank order in the accumulator's type, so that the result does not depend on
who owns the shard.
Every launch advances an epoch that each instance keeps in device memory, so that calls follow
each other without a reset by the host. Staging is double buffered: a peer's slot is written in
epoch e only after that peer has entered e - 1, that is, has finished e - 2 and its reads.
"""

import tilery as ty
import tilery.language as tl
import tilery.language.device as dl

from ..flagged import add_words, flag_of, send_blocks, words_of
from ..parts import copy, enter, part_of, share_of
from ..peers import add_shared, meet


@ty.jit
def reduce_scatter_push(x, out, stage, entered, ready, epochs, n, total, capacity,
                        ACC: tl.constexpr, BLOCK: tl.constexpr):
    """out = sum over ranks of x[rank * n : rank * n + own]; grid (instances,).

    x: [total] on every rank; rank r owns min(n, total - r * n) elements, at least 0.
    stage: symmetric, [2, ranks, capacity >= n]; entered: [ranks] signals; ready: [ranks,
    instances] signals; epochs: int64 [instances], all starting at 0.
    """
    pid = tl.program_id(0)
    parts = tl.num_programs(0)
    rank = dl.rank()
    world = dl.num_ranks()
    epoch = tl.load(epochs + pid) + 1
    enter(entered, epoch)
    slot = stage + (epoch % 2) * world * capacity
    part = share_of(n)
    start = pid * part
    for step in range(0, world):
        peer = (rank + 1 + step) % world
        first = peer.to(tl.int64) * n
        dl.wait(entered + peer, waitValue=epoch - 1, cmp="ge")
        dl.put_signal(slot + rank.to(tl.int64) * capacity + start, x + first + start,
                      part_of(tl.minimum(n, total - first), part), peer,
                      ready + rank * parts + pid, epoch, "set")
    for source in range(0, world):
        dl.wait(ready + source * parts + pid, waitValue=epoch, cmp="ge")
    own = part_of(tl.minimum(n, total - rank.to(tl.int64) * n), part)
    lanes = tl.arange(0, BLOCK)
    for begin in range(0, own, BLOCK):
        at = begin + lanes
        acc = tl.zeros((BLOCK,), dtype=ACC)
        for source in range(0, world):
            from_source = slot + source.to(tl.int64) * capacity + start
            acc += tl.load(from_source + at, mask=at < own, other=0).to(ACC)
        tl.store(out + start + at, acc, mask=at < own)
    tl.store(epochs + pid, epoch)


@ty.jit
def reduce_scatter_flagged(x, out, stage, epochs, n, total, capacity, SIZE: tl.constexpr,
                           ACC: tl.constexpr, BLOCK: tl.constexpr):
    """Like reduce_scatter_push, for elements of SIZE bytes, 2 or 4, that travel in words with flags.

    stage: int64, symmetric, [2, ranks, capacity >= words of a shard]; epochs: int64 [instances]; all
    start at 0.
    """
    pid = tl.program_id(0)
    world = dl.num_ranks()
    epoch = tl.load(epochs + pid) + 1
    flag = flag_of(epoch)
    slot = stage + (epoch % 2) * world * capacity
    part = tl.cdiv(tl.cdiv(n, 4 // SIZE), tl.num_programs(0))
    first = pid * part
    begin = dl.rank().to(tl.int64) * n
    own = tl.maximum(tl.minimum(n, total - begin), 0)
    send_blocks(x, slot, n, total, first, part, flag, capacity, SIZE, BLOCK)
    add_words(x + begin, out, slot, own, first, tl.minimum(first + part, words_of(own, SIZE)), flag,
              capacity, SIZE, ACC, BLOCK)
    tl.store(epochs + pid, epoch)


@ty.jit
def reduce_scatter_pull(x, out, stage, entered, ready, epochs, n, total, capacity,
                        ACC: tl.constexpr, BLOCK: tl.constexpr):
    """Like reduce_scatter_push, but each rank offers x and the owners load from all of them.

    stage: symmetric, [2, capacity >= ranks * n].
    """
    pid = tl.program_id(0)
    parts = tl.num_programs(0)
    rank = dl.rank()
    world = dl.num_ranks()
    epoch = tl.load(epochs + pid) + 1
    enter(entered, epoch)
    slot = stage + (epoch % 2) * capacity
    part = share_of(n)
    start = pid * part
    # Peers may still load what epoch - 2 left in this slot.
    dl.wait(entered, world, waitValue=epoch - 1, cmp="ge")
    for step in range(0, world):
        peer = (rank + 1 + step) % world
        first = peer.to(tl.int64) * n
        copy(slot + first + start, x + first + start,
             part_of(tl.minimum(n, total - first), part), BLOCK)
        dl.notify(ready + rank * parts + pid, peer, signal=epoch, sig_op="set")
    for source in range(0, world):
        dl.wait(ready + source * parts + pid, waitValue=epoch, cmp="ge")
    first = rank.to(tl.int64) * n
    own = part_of(tl.minimum(n, total - first), part)
    lanes = tl.arange(0, BLOCK)
    for begin in range(0, own, BLOCK):
        at = begin + lanes
        acc = tl.zeros((BLOCK,), dtype=ACC)
        for source in range(0, world):
            from_source = dl.symm_at(slot, source) + first + start
            acc += tl.load(from_source + at, mask=at < own, other=0).to(ACC)
        tl.store(out + start + at, acc, mask=at < own)
    tl.store(epochs + pid, epoch)


@ty.jit
def reduce_scatter_direct(x0, x1, x2, x3, x4, x5, x6, x7, out, ready, meetings, n, total, ACC: tl.constexpr,
                          RANKS: tl.constexpr, BLOCK: tl.constexpr, TAIL: tl.constexpr):
    """Like reduce_scatter_push, but each rank loads its shard from all ranks' x (ops/peers.py), which begin
    with rank 0's. ready: [ranks, instances] signals; meetings: int64 [instances]."""
    xs = (x0, x1, x2, x3, x4, x5, x6, x7)
    first = dl.rank().to(tl.int64) * n
    own = tl.maximum(tl.minimum(n, total - first), 0)
    met = tl.load(meetings + tl.program_id(0))
    meet(ready, met + 1)
    add_shared(xs, (out,), first, 0, own, RANKS, 1, ACC, BLOCK, TAIL)
    meet(ready, met + 2)
    tl.store(meetings + tl.program_id(0), met + 2)
