# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Lesson 2: a matrix product, tile by tile.

Each program instance computes one tile of the result and walks along K, adding the product of
two tiles at each step.
"""

import numpy as np

import tilery as ty
import tilery.language as tl


@ty.jit
def matmul(a, b, c, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    # A grid of two dimensions: one instance for each tile of c.
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    depth = tl.arange(0, BLOCK_K)

    # [:, None] and [None, :] make columns and rows, which broadcast against each other: a tile
    # of pointers with BLOCK_M rows and BLOCK_K columns.
    a_tile = a + rows[:, None] * K + depth[None, :]
    b_tile = b + depth[:, None] * N + cols[None, :]

    # The accumulator is float32, whatever the type of a and b.
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        left = tl.load(a_tile, mask=(rows[:, None] < M) & (k + depth[None, :] < K), other=0.0)
        right = tl.load(b_tile, mask=(k + depth[:, None] < K) & (cols[None, :] < N), other=0.0)
        acc = tl.dot(left, right, acc, input_precision="ieee")
        a_tile += BLOCK_K
        b_tile += BLOCK_K * N

    # A store converts to the type of the array.
    tl.store(c + rows[:, None] * N + cols[None, :], acc,
             mask=(rows[:, None] < M) & (cols[None, :] < N))


def main():
    rng = np.random.default_rng(0)
    m, n, k = 100, 70, 50  # none of them a multiple of a tile
    a = rng.standard_normal((m, k)).astype(np.float32)
    b = rng.standard_normal((k, n)).astype(np.float32)
    c = np.empty((m, n), dtype=np.float32)

    # The grid can be a function of the arguments, so that it follows the tile sizes.
    def grid(meta):
        return ty.cdiv(meta["M"], meta["BLOCK_M"]), ty.cdiv(meta["N"], meta["BLOCK_N"])

    matmul[grid](a, b, c, m, n, k, BLOCK_M=32, BLOCK_N=32, BLOCK_K=16)

    error = np.abs(c - a.astype(np.float64) @ b.astype(np.float64)).max()
    assert error < 1e-4, error
    print(f"the product is right, largest error {error:.1e}")


if __name__ == "__main__":
    main()
