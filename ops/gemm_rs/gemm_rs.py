# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Overlapped matrix product and reduce-scatter: tiles go to their owner as they are finished.

Instances share the tiles of the whole product. They begin with those of the next rank's rows and end with
the own ones, to which they add what the others have sent by then, or mix them (place_among_owners). Partial sums travel in
the type of `stage`, and are added in fp32 from the owner's next rank on.
Every launch advances an epoch that each instance keeps in device memory, so that calls follow
each other without a reset by the host. Staging is double buffered: a peer's slot is written in
epoch e only after that peer has entered e - 1, that is, has finished e - 2 and its reads.
"""

import tilery as ty
import tilery.language as tl
import tilery.language.device as dl

from ..parts import (add_parts, enter, known, leave_part, place, place_among_owners, product, send_part,
                     span, tell)


@ty.jit
def gemm_rs(a, b, out, stage, entered, arrived, epochs, M, N, K, rows_per_rank, own_rows,
            capacity,
            stride_am, stride_ak, stride_bk, stride_bn, stride_om, stride_on,
            RANKS: tl.constexpr, MIXED: tl.constexpr, SHARED: tl.constexpr,
            KIND: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, ROWS: tl.constexpr,
            COLUMNS: tl.constexpr, GROUP_M: tl.constexpr, ACC: tl.constexpr):
    """out = rows of this rank of the sum over ranks of a[M, K] @ b[K, N].

    Grid (instances,), all resident at once. Rank r owns rows r * rows_per_rank up to the next
    rank's or M, this one own_rows. Tiles are ROWS x COLUMNS, at most BLOCK_M x BLOCK_N, which are powers of two, and
    are counted within the rows of each rank; with SHARED, where a rank has fewer rows than a tile,
    within all rows. stage: symmetric, of KIND, [2, capacity >= ranks * rows_per_rank * N];
    entered: [ranks] signals; arrived: [ranks, tiles] signals; epochs: int64 [instances]; all start
    at 0.

    MIXED: own tiles come between those of others instead of behind them, for links that are slower than the
    product.
    No instance waits for a tile that another may send only after it has waited itself: of each tile of the
    rows, what goes to the others comes before the own one, in a walk that is alike on all ranks.
    """
    pid = tl.program_id(0)
    rank = dl.rank()
    epoch = tl.load(epochs + pid) + 1
    enter(entered, epoch)
    slot = stage + (epoch % 2) * capacity
    whole = rows_per_rank.to(tl.int64) * N
    end = M if SHARED else rows_per_rank
    tiles_m = tl.cdiv(end, ROWS)
    tiles_n = tl.cdiv(N, COLUMNS)
    tiles = tiles_m * tiles_n
    # An owner is told of a tile when the next one is computed: by then its copy is complete.
    told_tile = 0
    told_owner = rank
    for item in range(pid, tiles if SHARED else RANKS * tiles, tl.num_programs(0)):
        if SHARED:
            owner = rank
            tile = item
            tile_m, tile_n = place(tile, tiles_m, tiles_n, GROUP_M)
        else:
            owner, tile, tile_m, tile_n = place_among_owners(item, rows_per_rank, tiles_n, RANKS,
                                                             MIXED, ROWS, GROUP_M)
        first = owner.to(tl.int64) * rows_per_rank
        rows = tile_m.to(tl.int64) * ROWS + tl.arange(0, BLOCK_M)
        if not SHARED:
            rows += first
        row_known = known(rows, M, ROWS, BLOCK_M)
        cols, col_known = span(tile_n, 0, N, COLUMNS, BLOCK_N)
        acc = product(a, b, rows, cols, row_known, col_known, 0, K, K, stride_am, stride_ak,
                      stride_bk, stride_bn, BLOCK_M, BLOCK_N, BLOCK_K, ACC)
        inside = row_known[:, None] & col_known[None, :]
        if told_owner != rank:
            tell(arrived, told_tile, tiles, told_owner, epoch)
        told_tile = tile
        told_owner = owner
        if SHARED:
            for step in range(1, RANKS):
                peer = (rank + step) % RANKS
                begin = peer.to(tl.int64) * rows_per_rank
                theirs = inside & ((rows >= begin) & (rows < begin + rows_per_rank))[:, None]
                send_part(acc, slot, (rows - begin)[:, None] * N + cols[None, :], theirs, peer, whole,
                          entered, arrived, tile, tiles, epoch)
        elif owner != rank:
            theirs = inside & (rows < first + rows_per_rank)[:, None]
            leave_part(acc, slot, (rows - first)[:, None] * N + cols[None, :], theirs, owner, whole,
                       entered, epoch)
        if owner == rank:
            mine = rows - first
            own_known = known(mine, own_rows, ROWS, BLOCK_M)
            if SHARED:
                own_known = own_known & (mine >= 0)
            own = own_known[:, None] & col_known[None, :]
            total = add_parts(acc, slot, mine[:, None] * N + cols[None, :], own, whole, arrived,
                              tile, tiles, epoch, KIND, ACC)
            tl.store(out + mine[:, None] * stride_om + cols[None, :] * stride_on, total, mask=own)
    if told_owner != rank:
        tell(arrived, told_tile, tiles, told_owner, epoch)
    tl.store(epochs + pid, epoch)
