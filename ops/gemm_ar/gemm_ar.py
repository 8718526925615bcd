# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Overlapped matrix product and all-reduce: like gemm_rs, then the sums go to every rank.

The last COMM instances add up this rank's rows chunk by chunk, in rank order, push each chunk
to all peers at once, and take in the peers' chunks.
Every launch advances an epoch that each instance keeps in device memory, so that calls follow
each other without a reset by the host. Staging is double buffered: a peer's slot is written in
epoch e only after that peer has entered e - 1, that is, has finished e - 2 and its reads.
"""

import tilery as ty
import tilery.language as tl
import tilery.language.device as dl

from ..parts import add_products, await_products, enter, send_products


@ty.jit
def gemm_ar(a, b, out, stage, result, entered, arrived, done, seen, epochs, M, N, K,
            rows_per_rank, chunk_rows, capacity, result_capacity,
            stride_am, stride_ak, stride_bk, stride_bn, stride_om, stride_on,
            CHUNKS: tl.constexpr, COMM: tl.constexpr, FIRST: tl.constexpr,
            BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
            ACC: tl.constexpr):
    """out[M, N] = sum over ranks of a[M, K] @ b[K, N], on every rank.

    Arguments as in gemm_rs, and: result: symmetric, out's type, [2, result_capacity >= ranks *
    rows_per_rank * N]; done: [ranks, CHUNKS] signals.
    """
    pid = tl.program_id(0)
    rank = dl.rank()
    world = dl.num_ranks()
    compute = tl.num_programs(0) - COMM
    epoch = tl.load(epochs + pid) + 1
    enter(entered, epoch)
    slot = stage + (epoch % 2) * capacity
    sums = result + (epoch % 2) * result_capacity
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
            begin = tl.minimum(chunk * chunk_rows, rows_per_rank).to(tl.int64)
            row_end = tl.minimum((chunk + 1) * chunk_rows, own)
            for inside in range(0, tiles_chunk):
                rows = begin + inside % tiles_m * BLOCK_M + tl.arange(0, BLOCK_M)
                cols = inside // tiles_m * BLOCK_N + tl.arange(0, BLOCK_N).to(tl.int64)
                mask = (rows[:, None] < row_end) & (cols[None, :] < N)
                acc = add_products(slot, rows[:, None] * N + cols[None, :], mask, shard, ACC,
                                   BLOCK_M, BLOCK_N)
                tl.store(sums + (first + rows)[:, None] * N + cols[None, :], acc, mask=mask)
            mine = sums + (first + begin) * N
            count = tl.maximum(row_end - begin, 0) * N
            for step in range(1, world):
                peer = (rank + step) % world
                dl.wait(entered + peer, waitValue=epoch - 1, cmp="ge")
                dl.put_signal(mine, mine, count, peer, done + rank * CHUNKS + chunk, epoch, "set")
            dl.notify(done + rank * CHUNKS + chunk, rank, signal=epoch, sig_op="set")
        for item in range(pid - compute, world * CHUNKS, COMM):
            owner = (rank - item // CHUNKS + world) % world
            chunk = item % CHUNKS
            dl.wait(done + owner * CHUNKS + chunk, waitValue=epoch, cmp="ge")
            begin = owner.to(tl.int64) * rows_per_rank
            row_end = tl.minimum(begin + tl.minimum((chunk + 1) * chunk_rows, rows_per_rank), M)
            for inside in range(0, tiles_chunk):
                rows = begin + chunk * chunk_rows + inside % tiles_m * BLOCK_M
                rows = rows + tl.arange(0, BLOCK_M)
                cols = inside // tiles_m * BLOCK_N + tl.arange(0, BLOCK_N).to(tl.int64)
                mask = (rows[:, None] < row_end) & (cols[None, :] < N)
                value = tl.load(sums + rows[:, None] * N + cols[None, :], mask=mask, other=0)
                tl.store(out + rows[:, None] * stride_om + cols[None, :] * stride_on, value,
                         mask=mask)
    tl.store(epochs + pid, epoch)
