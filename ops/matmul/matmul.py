# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Matrix product of one rank: any M, N, K and any strides."""

import tilery as ty
import tilery.language as tl


@ty.jit
def matmul(a, b, c, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
           BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
           GROUP_M: tl.constexpr, ACC: tl.constexpr):
    """c[M, N] = a[M, K] @ b[K, N]; grid (instances,), which share the tiles of c.

    As many instances as tiles, or as many as the device runs at a time: each then walks over its
    tiles, and the first loads of a tile overlap the end of the one before.

    Strides are in elements. ACC is the accumulator's type: float32, or int32 for integers.
    Tiles are walked in groups of GROUP_M rows, so that operands stay in the cache.
    """
    tiles_m = tl.cdiv(M, BLOCK_M)
    tiles_n = tl.cdiv(N, BLOCK_N)
    depth = tl.arange(0, BLOCK_K).to(tl.int64)
    for tile in range(tl.program_id(0), tiles_m * tiles_n, tl.num_programs(0)):
        group = tile // (GROUP_M * tiles_n)
        first_m = group * GROUP_M
        group_rows = tl.minimum(tiles_m - first_m, GROUP_M)
        inside = tile % (GROUP_M * tiles_n)
        tile_m = first_m + inside % group_rows
        tile_n = inside // group_rows

        rows = tile_m.to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
        cols = tile_n.to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
        a_tile = a + rows[:, None] * stride_am + depth[None, :] * stride_ak
        b_tile = b + depth[:, None] * stride_bk + cols[None, :] * stride_bn
        acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=ACC)
        for k in range(0, K, BLOCK_K):
            left = tl.load(a_tile, mask=(rows[:, None] < M) & (k + depth[None, :] < K), other=0)
            right = tl.load(b_tile, mask=(k + depth[:, None] < K) & (cols[None, :] < N), other=0)
            acc = tl.dot(left, right, acc, input_precision="ieee")
            a_tile += BLOCK_K * stride_ak
            b_tile += BLOCK_K * stride_bk
        c_tile = c + rows[:, None] * stride_cm + cols[None, :] * stride_cn
        tl.store(c_tile, acc, mask=(rows[:, None] < M) & (cols[None, :] < N))
