# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Broadcast of the root's data to every rank, by pushing or by pulling.

Every launch advances an epoch that each instance keeps in device memory, so that calls follow
each other without a reset by the host. Staging is double buffered: a peer's slot is written in
epoch e only after that peer has entered e - 1, that is, has finished e - 2 and its reads.
The root may change from call to call: each possible root has its own signals.
"""

import tilery as ty
import tilery.language as tl
import tilery.language.device as dl

from ..parts import copy, enter, part_of, share_of
from ..peers import meet, move_shared


@ty.jit
def broadcast_push(x, out, stage, entered, ready, epochs, root, n, capacity,
                   BLOCK: tl.constexpr):
    """out[n] = x[n] of rank `root`; x is read on the root only.

    stage: symmetric, [2, capacity >= n]; entered: [ranks] signals; ready: [ranks, instances]
    signals; epochs: int64 [instances], all starting at 0; grid (instances,).
    """
    pid = tl.program_id(0)
    parts = tl.num_programs(0)
    world = dl.num_ranks()
    epoch = tl.load(epochs + pid) + 1
    enter(entered, epoch)
    slot = stage + (epoch % 2) * capacity
    part = share_of(n)
    start = pid * part
    own = part_of(n, part)
    if dl.rank() == root:
        for step in range(0, world):
            peer = (root + step) % world
            dl.wait(entered + peer, waitValue=epoch - 1, cmp="ge")
            dl.put_signal(slot + start, x + start, own, peer, ready + root * parts + pid, epoch,
                          "set")
    dl.wait(ready + root * parts + pid, waitValue=epoch, cmp="ge")
    copy(out + start, slot + start, own, BLOCK)
    tl.store(epochs + pid, epoch)


@ty.jit
def broadcast_pull(x, out, stage, entered, ready, epochs, root, n, capacity,
                   BLOCK: tl.constexpr):
    """Like broadcast_push, but the root offers x and the others fetch it."""
    pid = tl.program_id(0)
    parts = tl.num_programs(0)
    world = dl.num_ranks()
    epoch = tl.load(epochs + pid) + 1
    enter(entered, epoch)
    slot = stage + (epoch % 2) * capacity
    part = share_of(n)
    start = pid * part
    own = part_of(n, part)
    if dl.rank() == root:
        # Peers may still fetch what epoch - 2 left in this slot.
        dl.wait(entered, world, waitValue=epoch - 1, cmp="ge")
        copy(slot + start, x + start, own, BLOCK)
        for step in range(0, world):
            dl.notify(ready + root * parts + pid, (root + step) % world, signal=epoch,
                      sig_op="set")
    dl.wait(ready + root * parts + pid, waitValue=epoch, cmp="ge")
    dl.get(out + start, slot + start, own, root)
    tl.store(epochs + pid, epoch)


@ty.jit
def broadcast_direct(out0, out1, out2, out3, out4, out5, out6, out7, x, ready, meetings, root, n,
                     RANKS: tl.constexpr, BLOCK: tl.constexpr, TAIL: tl.constexpr):
    """Like broadcast_push, but the root stores straight into all ranks' out (ops/peers.py), which begin with
    the next rank's. ready: [ranks, instances] signals; meetings: int64 [instances]."""
    outs = (out0, out1, out2, out3, out4, out5, out6, out7)
    met = tl.load(meetings + tl.program_id(0))
    meet(ready, met + 1)
    if dl.rank() == root:
        for step in tl.static_range(RANKS):
            move_shared(outs[step], x, n, BLOCK, TAIL)
    meet(ready, met + 2)
    tl.store(meetings + tl.program_id(0), met + 2)
