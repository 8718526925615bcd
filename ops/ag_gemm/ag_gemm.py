# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Overlapped all-gather and matrix product: tiles start as their chunk of A arrives.

Instances 0 .. COMM - 1 push this rank's rows chunk by chunk to all ranks; the others compute
tiles, those of the own chunks first, then in the order in which chunks arrive.
Every launch advances an epoch that each instance keeps in device memory, so that calls follow
each other without a reset by the host. Staging is double buffered: a peer's slot is written in
epoch e only after that peer has entered e - 1, that is, has finished e - 2 and its reads.
"""

import tilery as ty
import tilery.language as tl
import tilery.language.device as dl

from ..parts import copy, enter, tile_product


@ty.jit
def ag_gemm(a, b, c, gathered, stage, entered, ready, epochs, M, N, K, rows_per_rank, chunk_rows,
            capacity, stride_bk, stride_bn, stride_cm, stride_cn,
            CHUNKS: tl.constexpr, COMM: tl.constexpr,
            BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
            ACC: tl.constexpr):
    """c[M, N] = all_gather(a) @ b; grid (COMM + computing instances,), all resident at once.

    a: this rank's rows, contiguous [rows, K]; rank r owns rows r * rows_per_rank up to the next
    rank's or M. A rank's rows fall into CHUNKS chunks of chunk_rows. gathered: None, or
    contiguous [M, K] that receives all of A. stage: symmetric, [2, capacity >= ranks *
    rows_per_rank * K]; entered: [ranks] signals; ready: [ranks, CHUNKS] signals; epochs: int64
    [instances], all starting at 0.
    """
    pid = tl.program_id(0)
    rank = dl.rank()
    world = dl.num_ranks()
    epoch = tl.load(epochs + pid) + 1
    enter(entered, epoch)
    slot = stage + (epoch % 2) * capacity
    if pid < COMM:
        first = rank.to(tl.int64) * rows_per_rank
        for item in range(pid, CHUNKS * world, COMM):
            chunk = item // world
            peer = (rank + item % world) % world
            row = tl.minimum(chunk * chunk_rows, rows_per_rank)
            row_end = tl.minimum(tl.minimum(row + chunk_rows, rows_per_rank), M - first)
            count = tl.maximum(row_end - row, 0).to(tl.int64) * K
            at = row.to(tl.int64) * K
            dl.wait(entered + peer, waitValue=epoch - 1, cmp="ge")
            dl.put_signal(slot + first * K + at, a + at, count, peer,
                          ready + rank * CHUNKS + chunk, epoch, "set")
        if gathered is not None:
            for item in range(pid, CHUNKS * world, COMM):
                owner = (rank - item // CHUNKS + world) % world
                chunk = item % CHUNKS
                first = owner.to(tl.int64) * rows_per_rank
                row = first + tl.minimum(chunk * chunk_rows, rows_per_rank)
                row_end = tl.minimum(tl.minimum(row + chunk_rows, first + rows_per_rank), M)
                dl.wait(ready + owner * CHUNKS + chunk, waitValue=epoch, cmp="ge")
                copy(gathered + row * K, slot + row * K,
                          tl.maximum(row_end - row, 0) * K, 1024)
    else:
        tiles_m = tl.cdiv(chunk_rows, BLOCK_M)
        tiles_n = tl.cdiv(N, BLOCK_N)
        tiles_chunk = tiles_m * tiles_n
        tiles_rank = CHUNKS * tiles_chunk
        for tile in range(pid - COMM, world * tiles_rank, tl.num_programs(0) - COMM):
            owner = (rank - tile // tiles_rank + world) % world
            chunk = tile % tiles_rank // tiles_chunk
            inside = tile % tiles_chunk
            first = owner.to(tl.int64) * rows_per_rank
            chunk_end = tl.minimum((chunk + 1) * chunk_rows, rows_per_rank)
            row = first + chunk * chunk_rows + inside % tiles_m * BLOCK_M
            row_end = tl.minimum(first + chunk_end, M)
            col = inside // tiles_m * BLOCK_N
            if row < row_end:
                dl.wait(ready + owner * CHUNKS + chunk, waitValue=epoch, cmp="ge")
                # Rows from row_end on may still arrive; they are not stored.
                acc = tile_product(slot, b, row, M, col, N, K, K, 1, stride_bk, stride_bn,
                                   BLOCK_M, BLOCK_N, BLOCK_K, ACC)
                rows = row + tl.arange(0, BLOCK_M).to(tl.int64)
                cols = col + tl.arange(0, BLOCK_N).to(tl.int64)
                tl.store(c + rows[:, None] * stride_cm + cols[None, :] * stride_cn, acc,
                         mask=(rows[:, None] < row_end) & (cols[None, :] < N))
    tl.store(epochs + pid, epoch)
