# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""All-to-all of equal blocks: block p of rank r becomes block r of rank p.

Every launch advances an epoch that each instance keeps in device memory, so that calls follow
each other without a reset by the host. Staging is double buffered: a peer's slot is written in
epoch e only after that peer has entered e - 1, that is, has finished e - 2 and its reads.
"""

import tilery as ty
import tilery.language as tl
import tilery.language.device as dl

from ..flagged import flag_of, send_blocks, unpack_words
from ..parts import copy, enter, part_of, share_of
from ..peers import meet, move_shared


@ty.jit
def all_to_all_push(x, out, stage, entered, ready, epochs, n, capacity, BLOCK: tl.constexpr):
    """out[ranks, n]: row r is what rank r had for this rank in its x[ranks, n].

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
        peer = (rank + step) % world
        dl.wait(entered + peer, waitValue=epoch - 1, cmp="ge")
        dl.put_signal(slot + rank.to(tl.int64) * capacity + start,
                      x + peer.to(tl.int64) * n + start, own, peer,
                      ready + rank * parts + pid, epoch, "set")
    for step in range(0, world):
        source = (rank - step + world) % world
        dl.wait(ready + source * parts + pid, waitValue=epoch, cmp="ge")
        copy(out + source.to(tl.int64) * n + start,
             slot + source.to(tl.int64) * capacity + start, own, BLOCK)
    tl.store(epochs + pid, epoch)


@ty.jit
def all_to_all_flagged(x, out, stage, epochs, n, capacity, SIZE: tl.constexpr, BLOCK: tl.constexpr):
    """Like all_to_all_push, for elements of SIZE bytes, 2 or 4, that travel in words with flags.

    stage: int64, symmetric, [2, ranks, capacity >= words of a block]; epochs: int64 [instances]; all
    start at 0.
    """
    pid = tl.program_id(0)
    world = dl.num_ranks()
    epoch = tl.load(epochs + pid) + 1
    flag = flag_of(epoch)
    slot = stage + (epoch % 2) * world * capacity
    part = tl.cdiv(tl.cdiv(n, 4 // SIZE), tl.num_programs(0))
    first = pid * part
    total = world * n.to(tl.int64)
    send_blocks(x, slot, n, total, first, part, flag, capacity, SIZE, BLOCK)
    unpack_words(x + dl.rank().to(tl.int64) * n, out, slot, n, total, n, part, flag, capacity, first, SIZE,
                 BLOCK)
    tl.store(epochs + pid, epoch)


@ty.jit
def all_to_all_pull(x, out, stage, entered, ready, epochs, n, capacity, BLOCK: tl.constexpr):
    """Like all_to_all_push, but each rank offers x and the others fetch their blocks."""
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
    # Peers may still fetch what epoch - 2 left in this slot.
    dl.wait(entered, world, waitValue=epoch - 1, cmp="ge")
    for step in range(0, world):
        peer = (rank + step) % world
        copy(slot + peer.to(tl.int64) * capacity + start, x + peer.to(tl.int64) * n + start, own,
             BLOCK)
        dl.notify(ready + rank * parts + pid, peer, signal=epoch, sig_op="set")
    for step in range(0, world):
        source = (rank - step + world) % world
        dl.wait(ready + source * parts + pid, waitValue=epoch, cmp="ge")
        dl.get(out + source.to(tl.int64) * n + start,
               slot + rank.to(tl.int64) * capacity + start, own, source)
    tl.store(epochs + pid, epoch)


@ty.jit
def all_to_all_direct(out0, out1, out2, out3, out4, out5, out6, out7, x, ready, meetings, n,
                      RANKS: tl.constexpr, BLOCK: tl.constexpr, TAIL: tl.constexpr):
    """Like all_to_all_push, but blocks go straight to their places in all ranks' out (ops/peers.py), which
    begin with the next rank's. ready: [ranks, instances] signals; meetings: int64 [instances]."""
    outs = (out0, out1, out2, out3, out4, out5, out6, out7)
    rank = dl.rank()
    met = tl.load(meetings + tl.program_id(0))
    meet(ready, met + 1)
    for step in tl.static_range(RANKS):
        block = ((rank + 1 + step) % RANKS).to(tl.int64) * n
        move_shared(outs[step] + rank.to(tl.int64) * n, x + block, n, BLOCK, TAIL)
    meet(ready, met + 2)
    tl.store(meetings + tl.program_id(0), met + 2)
