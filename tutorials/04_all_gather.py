# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Lesson 4: an all-gather that can be called again and again.

Every rank ends up with the data of all ranks. The first version of such a kernel is easy; what
makes it a good one is that the next call may start at once, without any reset by the host.
"""

import numpy as np

import tilery as ty
import tilery.language as tl
import tilery.language.device as dl


# Two dangers come with reuse. (1) A signal from the last call is still set: so the n-th call
# waits for the value n, an *epoch*, which the kernel itself keeps in memory and advances; signals
# only ever grow. (2) A fast rank may overwrite data that a slow one still reads: so there are two
# buffers in turn, and before writing into a peer's buffer a rank waits until that peer has
# *entered* the previous call, which means that it has finished the one before, the last to use
# this buffer.
@ty.jit
def all_gather(x, out, stage, entered, ready, epoch_memory, N: tl.constexpr):
    rank = dl.rank()
    world = dl.num_ranks()
    at = tl.arange(0, N)
    epoch = tl.load(epoch_memory) + 1
    slot = stage + (epoch % 2) * world * N

    for peer in range(0, world):
        dl.notify(entered + rank, peer, signal=epoch, sig_op="set")

    # Start with the next rank, so that not all ranks send to rank 0 first. put_signal copies,
    # and sets the signal after the data has arrived.
    for step in range(0, world):
        peer = (rank + step) % world
        dl.wait(entered + peer, waitValue=epoch - 1, cmp="ge")
        dl.put_signal(slot + rank * N, x, N, peer, ready + rank, epoch, "set")

    # Take the shards in the order in which they come.
    for step in range(0, world):
        owner = (rank - step + world) % world
        dl.wait(ready + owner, waitValue=epoch, cmp="ge")
        tl.store(out + owner * N + at, tl.load(slot + owner * N + at))
    tl.store(epoch_memory, epoch)


def body(calls: int, n: int):
    world, rank = ty.num_ranks(), ty.rank()
    stage = ty.empty((2, world, n), ty.float32, name="stage")
    entered, ready = ty.signals(world, name="entered"), ty.signals(world, name="ready")
    epoch = np.zeros(1, dtype=np.int64)
    out = np.empty((world, n), dtype=np.float32)
    x = np.empty(n, dtype=np.float32)
    for call in range(calls):
        x[:] = 100 * call + rank
        all_gather[(1,)](x, out, stage, entered, ready, epoch, N=n)
        expected = 100 * call + np.arange(world)
        assert (out == expected[:, None]).all(), (rank, call, out)
    return int(epoch[0])


def main():
    for ranks in (1, 2, 3, 4):
        epochs = ty.spawn(body, ranks=ranks, args=(20, 16), seed=ranks, delay=True)
        assert epochs == [20] * ranks
    print("20 calls in a row on 1, 2, 3 and 4 ranks, with late writes, and no reset between them")


if __name__ == "__main__":
    main()
