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


@ty.jit
def enter(entered, epoch):
    """Tells every rank that this one has finished all launches before `epoch`."""
    if tl.program_id(0) == 0:
        for peer in range(0, dl.num_ranks()):
            dl.notify(entered + dl.rank(), peer, signal=epoch, sig_op="set")


@ty.jit
def copy(destination, source, n, BLOCK: tl.constexpr):
    """Copies `n` elements within this rank."""
    lanes = tl.arange(0, BLOCK)
    for start in range(0, n, BLOCK):
        at = start + lanes
        tl.store(destination + at, tl.load(source + at, mask=at < n), mask=at < n)


@ty.jit
def part_of(length, part):
    """How many of `length` elements this instance moves, in parts of `part`."""
    start = tl.program_id(0) * part
    return tl.maximum(tl.minimum(part, length - start), 0)


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
    part = tl.cdiv(n, parts).to(tl.int64)
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
    part = tl.cdiv(n, parts).to(tl.int64)
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
