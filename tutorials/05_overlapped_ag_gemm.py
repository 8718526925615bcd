# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Lesson 5: communication and computation at the same time.

Tensor parallel layers need C = all_gather(A) @ B: each rank has some rows of A and some columns
of B. Gathering first and multiplying afterwards leaves the arithmetic units idle during the
gather. Here one kernel does both: some instances push chunks of A, the others compute the tiles
whose chunk has arrived, beginning with the own chunk, which needs no waiting at all.
"""

import numpy as np

import tilery as ty
import tilery.language as tl
import tilery.language.device as dl


@ty.jit
def ag_gemm(a, b, c, gathered, ready, N, K, ROWS: tl.constexpr, BLOCK_N: tl.constexpr,
            BLOCK_K: tl.constexpr):
    rank = dl.rank()
    world = dl.num_ranks()
    if tl.program_id(0) == 0:
        # The communicating instance: this rank's rows to everybody, itself first.
        for step in range(0, world):
            peer = (rank + step) % world
            dl.put_signal(gathered + rank * ROWS * K, a, ROWS * K, peer, ready + rank, 1, "set")
    else:
        # The computing instances share the tiles; each tile waits for its chunk only.
        tiles_n = tl.cdiv(N, BLOCK_N)
        for tile in range(tl.program_id(0) - 1, world * tiles_n, tl.num_programs(0) - 1):
            owner = (rank - tile // tiles_n + world) % world  # the order of arrival
            rows = owner * ROWS + tl.arange(0, ROWS)
            cols = tile % tiles_n * BLOCK_N + tl.arange(0, BLOCK_N)
            dl.wait(ready + owner, waitValue=1, cmp="ge")

            acc = tl.zeros((ROWS, BLOCK_N), dtype=tl.float32)
            for k in range(0, K, BLOCK_K):
                depth = k + tl.arange(0, BLOCK_K)
                left = tl.load(gathered + rows[:, None] * K + depth[None, :],
                               mask=depth[None, :] < K, other=0.0)
                right = tl.load(b + depth[:, None] * N + cols[None, :],
                                mask=(depth[:, None] < K) & (cols[None, :] < N), other=0.0)
                acc = tl.dot(left, right, acc, input_precision="ieee")
            tl.store(c + rows[:, None] * N + cols[None, :], acc, mask=cols[None, :] < N)


def body(rows: int, n: int, k: int):
    world, rank = ty.num_ranks(), ty.rank()
    all_of_a = np.random.default_rng(1).standard_normal((world * rows, k)).astype(np.float32)
    a = all_of_a[rank * rows:(rank + 1) * rows].copy()
    b = np.random.default_rng(10 + rank).standard_normal((k, n)).astype(np.float32)
    c = np.empty((world * rows, n), dtype=np.float32)
    gathered = ty.empty((world * rows, k), ty.float32, name="gathered")
    ready = ty.signals(world, name="ready")

    ag_gemm[(3,)](a, b, c, gathered, ready, n, k, ROWS=rows, BLOCK_N=32, BLOCK_K=16)
    return np.abs(c - all_of_a.astype(np.float64) @ b.astype(np.float64)).max()


def main():
    for ranks in (1, 2, 4):
        errors = ty.spawn(body, ranks=ranks, args=(16, 70, 40), seed=5, delay=True)
        assert max(errors) < 1e-4, errors
    print(f"the overlapped product is right on 1, 2 and 4 ranks, largest error {max(errors):.1e}")
    # ops/ag_gemm is the grown-up version: any M, several chunks a rank, reuse without a reset.


if __name__ == "__main__":
    main()
