# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Overlapped all-gather and matrix product: tiles start as their chunks of A arrive.

Who brings the chunks: instances 0 .. COMM - 1, each its share of every chunk, or, where COMM is 0,
copy engines, whose transfers run beside the kernel. All instances share the tiles, those of the own
rows first, which nobody has to bring, then those of the ranks behind it; who sends leaves out one tile.
Transfers have one staging buffer, and `open_call` before each call. Otherwise every launch advances
an epoch that each instance keeps in device memory, so that calls follow each other without a reset by
the host. Staging is double buffered: a peer's slot is written in
epoch e only after that peer has entered e - 1, that is, has finished e - 2 and its reads.
"""

import tilery as ty
import tilery.language as tl
import tilery.language.device as dl

from ..parts import add_product, copy, enter, known, place, span


# What a chunk's senders add up to, however many they are: ranks may choose differently.
WHOLE = tl.constexpr(1024)


@ty.jit
def send_shares(a, outbox, entered, ready, epoch, own, K, rows_per_rank, chunk_rows, head, tail,
                CHUNKS: tl.constexpr, COMM: tl.constexpr):
    """This instance's share of each chunk to all other ranks; all shares add WHOLE to ready[rank, chunk]
    there. Of the own chunks, which it takes in turn, what lies before row `head` or from `tail` on, for tiles
    that read those rows in staging."""
    rank = dl.rank()
    world = dl.num_ranks()
    share = tl.program_id(0)
    first = rank.to(tl.int64) * rows_per_rank
    for chunk in range(share, CHUNKS, COMM):
        begin = tl.minimum(chunk * chunk_rows, own)
        end = tl.minimum(begin + chunk_rows, own)
        begin = tl.where(begin < head, begin, tl.maximum(begin, tail))
        end = tl.where(end > tail, end, tl.minimum(end, head))
        dl.put_signal(outbox + (first + begin) * K, a + begin.to(tl.int64) * K,
                      tl.maximum(end - begin, 0) * K, rank, ready + rank * CHUNKS + chunk, WHOLE, "add")
    for item in range(0, CHUNKS * (world - 1)):
        chunk = item // (world - 1)
        peer = (rank + 1 + item % (world - 1)) % world
        begin = tl.minimum(chunk * chunk_rows, own).to(tl.int64) * K
        end = tl.minimum((chunk + 1) * chunk_rows, own).to(tl.int64) * K
        part = tl.cdiv(tl.cdiv(end - begin, COMM), 64) * 64  # so that parts stay aligned
        at = tl.minimum(begin + share * part, end)
        count = tl.minimum(part, end - at)
        dl.wait(entered + peer, waitValue=epoch - 1, cmp="ge")
        dl.put_signal(outbox + first * K + at, a + at, count, peer, ready + rank * CHUNKS + chunk,
                      tl.where(share == 0, WHOLE + 1 - COMM, 1), "add")


@ty.jit
def ag_gemm(a, b, c, gathered, stage, outbox, entered, ready, epochs, own, M, N, K, rows_per_rank,
            chunk_rows, capacity, stride_bk, stride_bn, stride_cm, stride_cn, IN_PLACE: tl.constexpr,
            CHUNKS: tl.constexpr, COMM: tl.constexpr, BLOCK_M: tl.constexpr,
            BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, ROWS: tl.constexpr,
            COLUMNS: tl.constexpr, GROUP_M: tl.constexpr, ACC: tl.constexpr):
    """c[M, N] = all_gather(a) @ b; grid (instances,), more than COMM, all resident at once.

    a: this rank's rows, contiguous [own, K]; rank r owns rows r * rows_per_rank up to the next
    rank's or M. A rank's rows fall into CHUNKS chunks of chunk_rows. gathered: None, or
    contiguous [M, K] that receives all of A. Tiles are ROWS x COLUMNS, at most BLOCK_M x BLOCK_N,
    which are powers of two; IN_PLACE: those that lie within the own rows take them from a, not from
    stage. stage: symmetric, [2, capacity >= ranks * rows_per_rank * K]; outbox: stage, under the name by
    which it is written: all is read behind a wait for its sender, so that copies of tiles may run ahead
    of what this instance sends. entered: [ranks] signals;
    ready: [ranks, CHUNKS] signals, each of which a call advances by WHOLE; epochs: int64 [instances],
    all starting at 0. Where COMM is 0, stage is [1, capacity], epochs[0] the epoch, to which
    transfers set ready, of own chunks only where a tile takes rows from stage.
    """
    pid = tl.program_id(0)
    rank = dl.rank()
    if COMM > 0:
        epoch = tl.load(epochs + pid) + 1
        arrived = epoch * WHOLE
        slot = stage + (epoch % 2) * capacity
        enter(entered, epoch)
    else:
        epoch = tl.load(epochs)
        arrived = epoch
        slot = stage
    tiles_m = tl.cdiv(M, ROWS)
    tiles_n = tl.cdiv(N, COLUMNS)
    first = rank * rows_per_rank
    start_m = (first + ROWS - 1) // ROWS
    own_tiles = tl.where(first + own == M, tiles_m, (first + own) // ROWS) - start_m
    if COMM > 0:
        if pid < COMM:
            head = own
            tail = own * 0
            if IN_PLACE:
                head = tl.minimum(start_m * ROWS - first, own)
                tail = tl.where(first + own == M, own, tl.maximum((first + own) // ROWS * ROWS - first, 0))
            send_shares(a, outbox + (epoch % 2) * capacity, entered, ready, epoch, own, K, rows_per_rank, chunk_rows, head, tail,
                        CHUNKS, COMM)
    start = tl.where(pid < COMM, pid + tl.num_programs(0), pid) - COMM
    for item in range(start, tiles_m * tiles_n, tl.num_programs(0)):
        walked_m, tile_n = place(item, tiles_m, tiles_n, GROUP_M)
        tile_m = (start_m + walked_m) % tiles_m
        row = tile_m * ROWS
        rows, row_known = span(tile_m, 0, M, ROWS, BLOCK_M)
        cols, col_known = span(tile_n, 0, N, COLUMNS, BLOCK_N)
        acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=ACC)
        start_k = 0
        if IN_PLACE:
            start_k = tl.where(walked_m < own_tiles, K, 0)
            acc = add_product(acc, a, b, rows - first, cols, known(rows - first, own, ROWS, BLOCK_M),
                              col_known, 0, start_k, K, K, 1, stride_bk, stride_bn, BLOCK_K)
        if not IN_PLACE or start_k < K:
            last = tl.minimum(row + ROWS, M) - 1
            first_chunk = row // rows_per_rank * CHUNKS + row % rows_per_rank // chunk_rows
            last_chunk = last // rows_per_rank * CHUNKS + last % rows_per_rank // chunk_rows
            dl.wait(ready + first_chunk, last_chunk - first_chunk + 1, waitValue=arrived, cmp="ge")
        acc = add_product(acc, slot, b, rows, cols, row_known, col_known, start_k, K, K, K, 1,
                          stride_bk, stride_bn, BLOCK_K)
        tl.store(c + rows[:, None] * stride_cm + cols[None, :] * stride_cn, acc,
                 mask=row_known[:, None] & col_known[None, :])
    if gathered is not None:
        for chunk in range(pid, CHUNKS * dl.num_ranks(), tl.num_programs(0)):
            source = chunk // CHUNKS
            at = tl.minimum(chunk % CHUNKS * chunk_rows, rows_per_rank).to(tl.int64)
            row = source.to(tl.int64) * rows_per_rank + at
            count = tl.minimum(tl.minimum(chunk_rows, rows_per_rank - at), M - row)
            count = tl.maximum(count, 0) * K
            if source == rank:
                copy(gathered + row * K, a + at * K, count, 1024)
            else:
                dl.wait(ready + chunk, waitValue=arrived, cmp="ge")
                copy(gathered + row * K, slot + row * K, count, 1024)
    if COMM > 0:
        tl.store(epochs + pid, epoch)
