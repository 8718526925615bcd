# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""All-gather: every rank's shard to every rank, by pushing or by pulling, or straight to its place.

Every launch advances an epoch that each instance keeps in device memory, so that calls follow
each other without a reset by the host. Staging is double buffered: a peer's slot is written in
epoch e only after that peer has entered e - 1, that is, has finished e - 2 and its reads.
"""

import tilery as ty
import tilery.language as tl
import tilery.language.device as dl

from ..flagged import flag_of, send_words_to_all, unpack_words, words_of
from ..parts import copy, enter, part_of, share_of
from ..peers import meet, move_shared


@ty.jit
def all_gather_push(x, out, stage, entered, ready, epochs, n, total, capacity,
                    BLOCK: tl.constexpr):
    """out[total] = the ranks' shards in rank order; grid (instances,), each moves its part.

    Rank r holds min(n, total - r * n) elements, at least 0. stage: symmetric,
    [2, ranks, capacity >= n]; entered: [ranks] signals; ready: [ranks, instances] signals;
    epochs: int64 [instances], all starting at 0.
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
    own = tl.minimum(n, total - rank.to(tl.int64) * n)
    for step in range(0, world):
        peer = (rank + step) % world
        dl.wait(entered + peer, waitValue=epoch - 1, cmp="ge")
        dl.put_signal(slot + rank.to(tl.int64) * capacity + start, x + start, part_of(own, part),
                      peer, ready + rank * parts + pid, epoch, "set")
    for step in range(0, world):
        owner = (rank - step + world) % world
        length = tl.minimum(n, total - owner.to(tl.int64) * n)
        dl.wait(ready + owner * parts + pid, waitValue=epoch, cmp="ge")
        copy(out + owner.to(tl.int64) * n + start, slot + owner.to(tl.int64) * capacity + start,
             part_of(length, part), BLOCK)
    tl.store(epochs + pid, epoch)


@ty.jit
def all_gather_flagged(x, out, stage, epochs, n, total, capacity, SIZE: tl.constexpr,
                       BLOCK: tl.constexpr):
    """Like all_gather_push, for elements of SIZE bytes, 2 or 4, that travel in words with flags.

    stage: int64, symmetric, [2, ranks, capacity >= words of a shard]; epochs: int64 [instances]; all
    start at 0.
    """
    pid = tl.program_id(0)
    rank = dl.rank()
    world = dl.num_ranks()
    epoch = tl.load(epochs + pid) + 1
    flag = flag_of(epoch)
    slot = stage + (epoch % 2) * world * capacity
    part = tl.cdiv(tl.cdiv(n, 4 // SIZE), tl.num_programs(0))
    first = pid * part
    own = tl.maximum(tl.minimum(n, total - rank.to(tl.int64) * n), 0)
    end = tl.minimum(first + part, words_of(own, SIZE))
    send_words_to_all(x, slot, own, first, end, flag, capacity, SIZE, BLOCK)
    unpack_words(x, out, slot, n, total, own, part, flag, capacity, first, SIZE, BLOCK)
    tl.store(epochs + pid, epoch)


@ty.jit
def all_gather_pull(x, out, stage, entered, ready, epochs, n, total, capacity,
                    BLOCK: tl.constexpr):
    """Like all_gather_push, but each rank offers its shard and the others fetch it.

    stage: symmetric, [2, capacity >= n].
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
    own = tl.minimum(n, total - rank.to(tl.int64) * n)
    # Peers may still fetch what epoch - 2 left in this slot.
    dl.wait(entered, world, waitValue=epoch - 1, cmp="ge")
    copy(slot + start, x + start, part_of(own, part), BLOCK)
    for step in range(0, world):
        dl.notify(ready + rank * parts + pid, (rank + step) % world, signal=epoch, sig_op="set")
    for step in range(0, world):
        owner = (rank + step) % world
        length = tl.minimum(n, total - owner.to(tl.int64) * n)
        dl.wait(ready + owner * parts + pid, waitValue=epoch, cmp="ge")
        dl.get(out + owner.to(tl.int64) * n + start, slot + start, part_of(length, part), owner)
    tl.store(epochs + pid, epoch)


@ty.jit
def all_gather_direct(out0, out1, out2, out3, out4, out5, out6, out7, x, ready, meetings, n, total,
                      RANKS: tl.constexpr, BLOCK: tl.constexpr, TAIL: tl.constexpr):
    """Like all_gather_push, but each shard goes straight to its place in all ranks' out (ops/peers.py),
    which begin with the next rank's. ready: [ranks, instances] signals; meetings: int64 [instances]."""
    outs = (out0, out1, out2, out3, out4, out5, out6, out7)
    first = dl.rank().to(tl.int64) * n
    own = tl.maximum(tl.minimum(n, total - first), 0)
    met = tl.load(meetings + tl.program_id(0))
    meet(ready, met + 1)
    for step in tl.static_range(RANKS):
        move_shared(outs[step] + first, x, own, BLOCK, TAIL)
    meet(ready, met + 2)
    tl.store(meetings + tl.program_id(0), met + 2)
