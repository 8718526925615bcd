# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""All-reduce (sum): one-shot for short messages, two-shot for long ones.

Both add in rank order in the accumulator's type, so that they give the same bits, on every
rank and for every message size.
Every launch advances an epoch that each instance keeps in device memory, so that calls follow
each other without a reset by the host. Staging is double buffered: a peer's slot is written in
epoch e only after that peer has entered e - 1, that is, has finished e - 2 and its reads.
"""

import tilery as ty
import tilery.language as tl
import tilery.language.device as dl

from ..flagged import add_words, flag_of, send_words_to_all
from ..parts import copy, enter, part_of, share_of
from ..peers import add_shared, meet


@ty.jit
def add_up(out, slot, n, capacity, ACC: tl.constexpr, BLOCK: tl.constexpr):
    """out[n] = sum in rank order of the n elements that each rank left in slot[rank]."""
    lanes = tl.arange(0, BLOCK)
    for begin in range(0, n, BLOCK):
        at = begin + lanes
        acc = tl.zeros((BLOCK,), dtype=ACC)
        for source in range(0, dl.num_ranks()):
            acc += tl.load(slot + source.to(tl.int64) * capacity + at, mask=at < n,
                           other=0).to(ACC)
        tl.store(out + at, acc, mask=at < n)


@ty.jit
def all_reduce_flagged(x, out, stage, epochs, n, capacity, SIZE: tl.constexpr, ACC: tl.constexpr,
                       BLOCK: tl.constexpr):
    """all_reduce_one_shot for elements of SIZE bytes, 2 or 4, that travel in words with flags.

    stage: int64, symmetric, [2, ranks, capacity >= words of x]; epochs: int64 [instances]; all
    start at 0; grid (instances,).
    """
    pid = tl.program_id(0)
    world = dl.num_ranks()
    epoch = tl.load(epochs + pid) + 1
    flag = flag_of(epoch)
    slot = stage + (epoch % 2) * world * capacity
    words = tl.cdiv(n, 4 // SIZE)
    part = tl.cdiv(words, tl.num_programs(0))
    first = pid * part
    end = tl.minimum(first + part, words)
    send_words_to_all(x, slot, n, first, end, flag, capacity, SIZE, BLOCK)
    add_words(x, out, slot, n, first, end, flag, capacity, SIZE, ACC, BLOCK)
    tl.store(epochs + pid, epoch)


@ty.jit
def all_reduce_one_shot(x, out, stage, entered, ready, epochs, n, capacity,
                        ACC: tl.constexpr, BLOCK: tl.constexpr):
    """out[n] = sum over ranks of x[n]; every rank sends all of x to all and adds up itself.

    stage: symmetric, [2, ranks, capacity >= n]; entered: [ranks] signals; ready: [ranks,
    instances] signals; epochs: int64 [instances], all starting at 0; grid (instances,).
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
    own = part_of(n, part)
    for step in range(0, world):
        peer = (rank + 1 + step) % world
        dl.wait(entered + peer, waitValue=epoch - 1, cmp="ge")
        dl.put_signal(slot + rank.to(tl.int64) * capacity + start, x + start, own, peer,
                      ready + rank * parts + pid, epoch, "set")
    for source in range(0, world):
        dl.wait(ready + source * parts + pid, waitValue=epoch, cmp="ge")
    add_up(out + start, slot + start, own, capacity, ACC, BLOCK)
    tl.store(epochs + pid, epoch)


@ty.jit
def all_reduce_two_shot(x, out, stage, gathered, entered, ready, done, epochs, n, capacity,
                        ACC: tl.constexpr, BLOCK: tl.constexpr):
    """Like all_reduce_one_shot; each rank adds up its shard of cdiv(n, ranks) and sends it on.

    stage and gathered: symmetric, [2, ranks, capacity >= shard]; done: signals like ready.
    """
    pid = tl.program_id(0)
    parts = tl.num_programs(0)
    rank = dl.rank()
    world = dl.num_ranks()
    epoch = tl.load(epochs + pid) + 1
    enter(entered, epoch)
    slot = stage + (epoch % 2) * world * capacity
    result = gathered + (epoch % 2) * world * capacity
    shard = tl.cdiv(n, world).to(tl.int64)
    part = share_of(shard)
    start = pid * part
    for step in range(0, world):
        peer = (rank + 1 + step) % world
        first = peer.to(tl.int64) * shard
        dl.wait(entered + peer, waitValue=epoch - 1, cmp="ge")
        dl.put_signal(slot + rank.to(tl.int64) * capacity + start, x + first + start,
                      part_of(tl.minimum(shard, n - first), part), peer,
                      ready + rank * parts + pid, epoch, "set")
    for source in range(0, world):
        dl.wait(ready + source * parts + pid, waitValue=epoch, cmp="ge")
    first = rank.to(tl.int64) * shard
    own = part_of(tl.minimum(shard, n - first), part)
    add_up(out + first + start, slot + start, own, capacity, ACC, BLOCK)
    for step in range(1, world):
        peer = (rank + step) % world
        dl.put_signal(result + rank.to(tl.int64) * capacity + start, out + first + start, own,
                      peer, done + rank * parts + pid, epoch, "set")
    for step in range(1, world):
        owner = (rank - step + world) % world
        begin = owner.to(tl.int64) * shard
        dl.wait(done + owner * parts + pid, waitValue=epoch, cmp="ge")
        copy(out + begin + start, result + owner.to(tl.int64) * capacity + start,
             part_of(tl.minimum(shard, n - begin), part), BLOCK)
    tl.store(epochs + pid, epoch)


@ty.jit
def all_reduce_direct(x0, x1, x2, x3, x4, x5, x6, x7, out0, out1, out2, out3, out4, out5, out6, out7,
                      ready, meetings, n, ACC: tl.constexpr, RANKS: tl.constexpr,
                      BLOCK: tl.constexpr, TAIL: tl.constexpr):
    """Like all_reduce_two_shot, but each rank loads its shard from all ranks' x, which begin with rank 0's,
    and stores the sums into all ranks' out, which begin with the next rank's (ops/peers.py). Nobody else
    touches its shard of either, so that out may be x. ready: [ranks, instances] signals; meetings: int64
    [instances]."""
    xs = (x0, x1, x2, x3, x4, x5, x6, x7)
    outs = (out0, out1, out2, out3, out4, out5, out6, out7)
    shard = tl.cdiv(tl.cdiv(n, RANKS), 64).to(tl.int64) * 64  # begins where wide accesses may
    first = dl.rank() * shard
    own = tl.maximum(tl.minimum(shard, n - first), 0)
    met = tl.load(meetings + tl.program_id(0))
    meet(ready, met + 1)
    add_shared(xs, outs, first, first, own, RANKS, RANKS, ACC, BLOCK, TAIL)
    meet(ready, met + 2)
    tl.store(meetings + tl.program_id(0), met + 2)
