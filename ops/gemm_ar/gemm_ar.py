# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Overlapped matrix product and all-reduce.

One-shot: each rank sends its part of a tile to all others and adds up what it gets. Two-shot: like
gemm_rs, then each rank sends the sums of its rows to all, and takes in those of the others, which
for more than two ranks moves less. Direct: two-shot, with the sums straight into the others' `out`.
Partial sums travel in the type of `stage` and are added in fp32, in an order that gives all ranks the
same bits.
Every launch advances an epoch that each instance keeps in device memory, so that calls follow
each other without a reset by the host. Staging is double buffered: a peer's slot is written in
epoch e only after that peer has entered e - 1, that is, has finished e - 2 and its reads.
"""

import tilery as ty
import tilery.language as tl
import tilery.language.device as dl

from ..parts import (add_parts, enter, known, leave_part, part_from, place, place_among_owners,
                     place_of_owner, product, send_part, span, tell)


@ty.jit
def gemm_ar_one_shot(a, b, out, stage, entered, arrived, epochs, M, N, K, capacity,
                     stride_am, stride_ak, stride_bk, stride_bn, stride_om, stride_on,
                     KIND: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
                     BLOCK_K: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
                     GROUP_M: tl.constexpr, ACC: tl.constexpr):
    """out[M, N] = sum over ranks of a[M, K] @ b[K, N], on every rank.

    Grid (instances,), all resident at once. Tiles are ROWS x COLUMNS, at most BLOCK_M x BLOCK_N,
    which are powers of two. stage: symmetric, of KIND, [2, capacity >= ranks * M * N]; entered:
    [ranks] signals; arrived: [ranks, tiles] signals; epochs: int64 [instances]; all start at 0.
    """
    pid = tl.program_id(0)
    rank = dl.rank()
    world = dl.num_ranks()
    epoch = tl.load(epochs + pid) + 1
    enter(entered, epoch)
    slot = stage + (epoch % 2) * capacity
    tiles_m = tl.cdiv(M, ROWS)
    tiles_n = tl.cdiv(N, COLUMNS)
    tiles = tiles_m * tiles_n
    whole = M.to(tl.int64) * N
    for tile in range(pid, tiles, tl.num_programs(0)):
        tile_m, tile_n = place(tile, tiles_m, tiles_n, GROUP_M)
        rows, row_known = span(tile_m, 0, M, ROWS, BLOCK_M)
        cols, col_known = span(tile_n, 0, N, COLUMNS, BLOCK_N)
        acc = product(a, b, rows, cols, row_known, col_known, 0, K, K, stride_am, stride_ak,
                      stride_bk, stride_bn, BLOCK_M, BLOCK_N, BLOCK_K, ACC)
        inside = row_known[:, None] & col_known[None, :]
        at = rows[:, None] * N + cols[None, :]
        for step in range(1, world):
            send_part(acc, slot, at, inside, (rank + step) % world, whole, entered, arrived, tile,
                      tiles, epoch)
        if world == 2:  # a sum of two is the same in either order
            total = add_parts(acc, slot, at, inside, whole, arrived, tile, tiles, epoch, KIND, ACC)
        else:
            tl.store(slot + rank.to(tl.int64) * whole + at, acc, mask=inside)
            dl.notify(arrived + rank * tiles + tile, rank, signal=epoch, sig_op="set")
            total = tl.zeros((BLOCK_M, BLOCK_N), dtype=ACC)
            for source in range(0, world):
                total += part_from(slot, source, at, inside, whole, arrived, tile, tiles,
                                   epoch).to(ACC)
        tl.store(out + rows[:, None] * stride_om + cols[None, :] * stride_on, total, mask=inside)
    tl.store(epochs + pid, epoch)


@ty.jit
def tell_of_tile(arrived, done, tile, tiles, owner, epoch):
    """That a part has gone to its owner, or, of an own tile, that its sums have gone to all others."""
    if owner == dl.rank():
        for step in range(1, dl.num_ranks()):
            tell(done, tile, tiles, (dl.rank() + step) % dl.num_ranks(), epoch)
    else:
        tell(arrived, tile, tiles, owner, epoch)


@ty.jit
def gemm_ar_two_shot(a, b, out, stage, result, entered, arrived, done, epochs, M, N, K,
                     rows_per_rank, capacity, result_capacity,
                     stride_am, stride_ak, stride_bk, stride_bn, stride_om, stride_on,
                     KIND: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
                     BLOCK_K: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
                     GROUP_M: tl.constexpr, ACC: tl.constexpr):
    """out[M, N] = sum over ranks of a[M, K] @ b[K, N], on every rank.

    Rank r adds up rows r * rows_per_rank up to the next rank's or M; tiles are counted within the
    rows of each rank, and walked as in gemm_rs. stage: symmetric, of KIND, [2, capacity >= ranks *
    rows_per_rank * N]; result: likewise; done: [ranks, tiles] signals; the rest as in the one-shot
    form.
    """
    pid = tl.program_id(0)
    rank = dl.rank()
    world = dl.num_ranks()
    epoch = tl.load(epochs + pid) + 1
    enter(entered, epoch)
    slot = stage + (epoch % 2) * capacity
    sums = result + (epoch % 2) * result_capacity
    whole = rows_per_rank.to(tl.int64) * N
    tiles_m = tl.cdiv(rows_per_rank, ROWS)
    tiles_n = tl.cdiv(N, COLUMNS)
    tiles = tiles_m * tiles_n
    # Others are told of a tile when the next one is computed: by then its copy is complete.
    told_tile = -1
    told_owner = rank
    for item in range(pid, world * tiles, tl.num_programs(0)):
        owner, tile, tile_m, tile_n = place_of_owner(item, rows_per_rank, tiles_n, ROWS, GROUP_M)
        first = owner.to(tl.int64) * rows_per_rank
        rows, row_known = span(tile_m, first, M, ROWS, BLOCK_M)
        cols, col_known = span(tile_n, 0, N, COLUMNS, BLOCK_N)
        acc = product(a, b, rows, cols, row_known, col_known, 0, K, K, stride_am, stride_ak,
                      stride_bk, stride_bn, BLOCK_M, BLOCK_N, BLOCK_K, ACC)
        inside = (row_known & (rows < first + rows_per_rank))[:, None] & col_known[None, :]
        at = (rows - first)[:, None] * N + cols[None, :]
        if told_tile >= 0:
            tell_of_tile(arrived, done, told_tile, tiles, told_owner, epoch)
        told_tile = tile
        told_owner = owner
        if owner != rank:
            leave_part(acc, slot, at, inside, owner, whole, entered, epoch)
        else:
            total = add_parts(acc, slot, at, inside, whole, arrived, tile, tiles, epoch, KIND, ACC)
            tl.store(out + rows[:, None] * stride_om + cols[None, :] * stride_on, total, mask=inside)
            for step in range(1, world):
                leave_part(total, sums, at, inside, (rank + step) % world, whole, entered, epoch)
    if told_tile >= 0:
        tell_of_tile(arrived, done, told_tile, tiles, told_owner, epoch)
    # What the others have added up, in the order in which they do.
    for item in range(pid, (world - 1) * tiles, tl.num_programs(0)):
        owner, tile, tile_m, tile_n = place_of_owner(item, rows_per_rank, tiles_n, ROWS, GROUP_M)
        first = owner.to(tl.int64) * rows_per_rank
        rows, row_known = span(tile_m, first, M, ROWS, BLOCK_M)
        cols, col_known = span(tile_n, 0, N, COLUMNS, BLOCK_N)
        inside = (row_known & (rows < first + rows_per_rank))[:, None] & col_known[None, :]
        dl.wait(done + owner * tiles + tile, waitValue=epoch, cmp="ge")
        theirs = sums + owner.to(tl.int64) * whole
        value = tl.load(theirs + (rows - first)[:, None] * N + cols[None, :], mask=inside, other=0)
        tl.store(out + rows[:, None] * stride_om + cols[None, :] * stride_on, value, mask=inside)
    tl.store(epochs + pid, epoch)


@ty.jit
def await_done(done, tiles, epoch):
    """Waits until all others have told of this instance's share of their tiles."""
    rank = dl.rank()
    world = dl.num_ranks()
    first = tl.program_id(0) * tl.cdiv(tiles, tl.num_programs(0))
    end = tl.minimum(first + tl.cdiv(tiles, tl.num_programs(0)), tiles)
    if first < end:
        for step in range(1, world):
            dl.wait(done + (rank + step) % world * tiles + first, end - first, waitValue=epoch, cmp="ge")


@ty.jit
def gemm_ar_direct(out0, out1, out2, out3, out4, out5, out6, out7, a, b, stage, entered, arrived, done,
                   epochs, M, N, K, rows_per_rank, own_end, capacity,
                   stride_am, stride_ak, stride_bk, stride_bn, stride_om, stride_on,
                   KIND: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
                   BLOCK_K: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
                   GROUP_M: tl.constexpr, ACC: tl.constexpr, RANKS: tl.constexpr, MIXED: tl.constexpr):
    """Like gemm_ar_two_shot, but the sums go straight into all ranks' out, which begin with the next rank's
    (ops/peers.py) and have the same strides. MIXED: as in gemm_rs. own_end: up to this row the rows of this rank go.

    Who has sent a part of a tile has begun this call: nothing that came before uses its `out` any more, so
    that the sums may go there. An instance ends when its share of the others' tiles is done, all of them
    together when nobody writes this rank's `out` any more.
    """
    outs = (out0, out1, out2, out3, out4, out5, out6, out7)
    pid = tl.program_id(0)
    rank = dl.rank()
    epoch = tl.load(epochs + pid) + 1
    enter(entered, epoch)
    slot = stage + (epoch % 2) * capacity
    whole = rows_per_rank.to(tl.int64) * N
    tiles_m = tl.cdiv(rows_per_rank, ROWS)
    tiles_n = tl.cdiv(N, COLUMNS)
    tiles = tiles_m * tiles_n
    # Others are told of a tile when the next one is computed: by then its copy is complete.
    told_tile = -1
    told_owner = rank
    for item in range(pid, RANKS * tiles, tl.num_programs(0)):
        owner, tile, tile_m, tile_n = place_among_owners(item, rows_per_rank, tiles_n, RANKS, MIXED, ROWS,
                                                         GROUP_M)
        first = owner.to(tl.int64) * rows_per_rank
        rows, row_known = span(tile_m, first, M, ROWS, BLOCK_M)
        cols, col_known = span(tile_n, 0, N, COLUMNS, BLOCK_N)
        acc = product(a, b, rows, cols, row_known, col_known, 0, K, K, stride_am, stride_ak,
                      stride_bk, stride_bn, BLOCK_M, BLOCK_N, BLOCK_K, ACC)
        at = (rows - first)[:, None] * N + cols[None, :]
        if told_tile >= 0:
            tell_of_tile(arrived, done, told_tile, tiles, told_owner, epoch)
        told_tile = tile
        told_owner = owner
        if owner != rank:
            inside = (row_known & (rows < first + rows_per_rank))[:, None] & col_known[None, :]
            leave_part(acc, slot, at, inside, owner, whole, entered, epoch)
        else:
            own = known(rows, own_end, ROWS, BLOCK_M)[:, None] & col_known[None, :]
            total = add_parts(acc, slot, at, own, whole, arrived, tile, tiles, epoch, KIND, ACC)
            for step in tl.static_range(RANKS):  # into the own one first, which takes the least
                tl.store(outs[(step + RANKS - 1) % RANKS] + rows[:, None] * stride_om + cols[None, :] * stride_on, total,
                         mask=own)
    if told_tile >= 0:
        tell_of_tile(arrived, done, told_tile, tiles, told_owner, epoch)
    await_done(done, tiles, epoch)
    tl.store(epochs + pid, epoch)
