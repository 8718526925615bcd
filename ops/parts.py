# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Pieces that several operators' kernels share: the entry handshake, copies, one output tile."""

import tilery as ty
import tilery.language as tl
import tilery.language.device as dl


@ty.jit
def enter(entered, epoch):
    """Tells every rank that this one has finished all launches before `epoch`."""
    if tl.program_id(0) == 0:
        for peer in range(0, dl.num_ranks()):
            dl.notify(entered + dl.rank(), peer, signal=epoch, sig_op="set")


@ty.jit
def copy(destination, source, n, BLOCK: tl.constexpr):
    """Copies `n` elements within this rank."""
    lanes = tl.arange(0, BLOCK)
    for start in range(0, n, BLOCK):
        at = start + lanes
        tl.store(destination + at, tl.load(source + at, mask=at < n), mask=at < n)


@ty.jit
def part_of(length, part):
    """How many of `length` elements this instance moves, in parts of `part`."""
    start = tl.program_id(0) * part
    return tl.maximum(tl.minimum(part, length - start), 0)


@ty.jit
def tile_product(a, b, row, M, col, N, K, stride_am, stride_ak, stride_bk, stride_bn,
                 BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
                 ACC: tl.constexpr):
    """The tile of a @ b at (row, col); rows from M on and columns from N on are 0.

    M, the same for all tiles, rather than the rows that the caller stores: bulk copies leave out what
    lies outside of an array only.
    """
    rows = row + tl.arange(0, BLOCK_M).to(tl.int64)
    cols = col + tl.arange(0, BLOCK_N).to(tl.int64)
    depth = tl.arange(0, BLOCK_K).to(tl.int64)
    a_tile = a + rows[:, None] * stride_am + depth[None, :] * stride_ak
    b_tile = b + depth[:, None] * stride_bk + cols[None, :] * stride_bn
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=ACC)
    for k in range(0, K, BLOCK_K):
        left = tl.load(a_tile, mask=(rows[:, None] < M) & (k + depth[None, :] < K), other=0)
        right = tl.load(b_tile, mask=(k + depth[:, None] < K) & (cols[None, :] < N), other=0)
        acc = tl.dot(left, right, acc, input_precision="ieee")
        a_tile += BLOCK_K * stride_ak
        b_tile += BLOCK_K * stride_bk
    return acc


@ty.jit
def send_products(a, b, slot, entered, arrived, epoch, instance, instances, M, N, K, rows_per_rank,
                  chunk_rows, stride_am, stride_ak, stride_bk, stride_bn, CHUNKS: tl.constexpr,
                  FIRST: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
                  BLOCK_K: tl.constexpr, ACC: tl.constexpr):
    """Tiles of a @ b to this rank's part of `slot` on the rank that owns their rows.

    This is instance number `instance` of `instances` that compute. Tiles for rank + FIRST come
    first; each adds 1 to arrived[rank, chunk] of its owner, also where it is empty.
    """
    rank = dl.rank()
    world = dl.num_ranks()
    shard = rows_per_rank.to(tl.int64) * N
    tiles_m = tl.cdiv(chunk_rows, BLOCK_M)
    tiles_chunk = tiles_m * tl.cdiv(N, BLOCK_N)
    tiles_rank = CHUNKS * tiles_chunk
    for tile in range(instance, world * tiles_rank, instances):
        owner = (rank + FIRST + tile // tiles_rank) % world
        chunk = tile % tiles_rank // tiles_chunk
        inside = tile % tiles_chunk
        first = owner.to(tl.int64) * rows_per_rank
        chunk_end = tl.minimum((chunk + 1) * chunk_rows, rows_per_rank)
        row = first + chunk * chunk_rows + inside % tiles_m * BLOCK_M
        row_end = tl.minimum(first + chunk_end, M)
        col = inside // tiles_m * BLOCK_N
        if row < row_end:
            acc = tile_product(a, b, row, M, col, N, K, stride_am, stride_ak, stride_bk, stride_bn,
                               BLOCK_M, BLOCK_N, BLOCK_K, ACC)
            rows = row + tl.arange(0, BLOCK_M).to(tl.int64)
            cols = col + tl.arange(0, BLOCK_N).to(tl.int64)
            dl.wait(entered + owner, waitValue=epoch - 1, cmp="ge")
            theirs = dl.symm_at(slot, owner) + rank.to(tl.int64) * shard
            tl.store(theirs + (rows - first)[:, None] * N + cols[None, :], acc,
                     mask=(rows[:, None] < row_end) & (cols[None, :] < N))
        dl.notify(arrived + rank * CHUNKS + chunk, owner, signal=1, sig_op="add")


@ty.jit
def await_products(arrived, seen, chunk, tiles_chunk, CHUNKS: tl.constexpr):
    """Waits until all ranks' tiles of a chunk are here; seen[ranks, CHUNKS] counts them."""
    for source in range(0, dl.num_ranks()):
        index = source * CHUNKS + chunk
        expected = tl.load(seen + index) + tiles_chunk
        dl.wait(arrived + index, waitValue=expected, cmp="ge")
        tl.store(seen + index, expected)


@ty.jit
def add_products(slot, at, mask, shard, ACC: tl.constexpr, BLOCK_M: tl.constexpr,
                 BLOCK_N: tl.constexpr):
    """The sum in rank order of all ranks' elements `at` of their parts of `slot`."""
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=ACC)
    for source in range(0, dl.num_ranks()):
        theirs = slot + source.to(tl.int64) * shard
        acc += tl.load(theirs + at, mask=mask, other=0).to(ACC)
    return acc
