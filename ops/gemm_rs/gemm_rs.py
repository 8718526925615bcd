# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Overlapped matrix product and reduce-scatter: tiles go to their owner as they are finished.

The last COMM instances add up what all ranks computed for this rank's rows, chunk by chunk, in
rank order; the others compute tiles and store them in the owner's memory, those for peers
first.
Every launch advances an epoch that each instance keeps in device memory, so that calls follow
each other without a reset by the host. Staging is double buffered: a peer's slot is written in
epoch e only after that peer has entered e - 1, that is, has finished e - 2 and its reads.
"""

import tilery as ty
import tilery.language as tl
import tilery.language.device as dl

from ..parts import add_products, await_products, enter, send_products


@ty.jit
def gemm_rs(a, b, out, stage, entered, arrived, seen, epochs, M, N, K, rows_per_rank, chunk_rows,
            capacity, stride_am, stride_ak, stride_bk, stride_bn, stride_om, stride_on,
            CHUNKS: tl.constexpr, COMM: tl.constexpr, FIRST: tl.constexpr,
            BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
            ACC: tl.constexpr):
    """out = rows of this rank of the sum over ranks of a[M, K] @ b[K, N].

    Grid (computing instances + COMM,), all resident at once. Rank r owns rows r * rows_per_rank
    up to the next rank's or M, in CHUNKS chunks of chunk_rows. FIRST: tiles are computed for rank
    + FIRST first (0: the own ones first). stage: symmetric, [2, capacity >= ranks *
    rows_per_rank * N]; entered: [ranks] signals; arrived: [ranks, CHUNKS] signals that count
    tiles; seen: int64 [ranks, CHUNKS], what this rank has used of them; epochs: int64
    [instances]; all start at 0.
    """
    pid = tl.program_id(0)
    rank = dl.rank()
    compute = tl.num_programs(0) - COMM
    epoch = tl.load(epochs + pid) + 1
    enter(entered, epoch)
    slot = stage + (epoch % 2) * capacity
    shard = rows_per_rank.to(tl.int64) * N
    tiles_m = tl.cdiv(chunk_rows, BLOCK_M)
    tiles_chunk = tiles_m * tl.cdiv(N, BLOCK_N)
    if pid < compute:
        send_products(a, b, slot, entered, arrived, epoch, pid, compute, M, N, K, rows_per_rank,
                      chunk_rows, stride_am, stride_ak, stride_bk, stride_bn, CHUNKS, FIRST,
                      BLOCK_M, BLOCK_N, BLOCK_K, ACC)
    else:
        first = rank.to(tl.int64) * rows_per_rank
        own = tl.minimum(M - first, rows_per_rank)
        for chunk in range(pid - compute, CHUNKS, COMM):
            await_products(arrived, seen, chunk, tiles_chunk, CHUNKS)
            row_end = tl.minimum((chunk + 1) * chunk_rows, own)
            for inside in range(0, tiles_chunk):
                rows = chunk * chunk_rows + inside % tiles_m * BLOCK_M + tl.arange(0, BLOCK_M)
                rows = rows.to(tl.int64)
                cols = inside // tiles_m * BLOCK_N + tl.arange(0, BLOCK_N).to(tl.int64)
                mask = (rows[:, None] < row_end) & (cols[None, :] < N)
                acc = add_products(slot, rows[:, None] * N + cols[None, :], mask, shard, ACC,
                                   BLOCK_M, BLOCK_N)
                tl.store(out + rows[:, None] * stride_om + cols[None, :] * stride_on, acc,
                         mask=mask)
    tl.store(epochs + pid, epoch)
