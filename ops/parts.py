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
def share_of(length):
    """Elements of one instance when all share `length`; a multiple of 64, so that shares begin where
    wide accesses may."""
    return tl.cdiv(tl.cdiv(length, tl.num_programs(0)), 64).to(tl.int64) * 64


@ty.jit
def open_call(entered, epochs):
    """Begins a call whose data copy engines bring: grid (1,).

    Advances the epoch, epochs[0], which the engines then send as the value of their signals, and waits
    until every rank has come as far, that is, has finished the calls before and reads no more what
    they have brought. So one staging buffer is enough, and copies have fixed addresses.
    """
    epoch = tl.load(epochs) + 1
    tl.store(epochs, epoch)
    enter(entered, epoch)
    dl.wait(entered, dl.num_ranks(), waitValue=epoch, cmp="ge")


@ty.jit
def collect(own, out, stage, ready, epochs, n, total, chunk, chunks, capacity, BLOCK: tl.constexpr):
    """out[total] = all ranks' parts of n elements, in rank order; the last ones have fewer or none.

    This rank's part is `own`; what copy engines bring into stage[ranks, capacity] is taken from there
    chunk by chunk, once ready[rank, chunk] is epochs[0]. Grid (instances,), which share each chunk.
    """
    pid = tl.program_id(0)
    rank = dl.rank()
    world = dl.num_ranks()
    epoch = tl.load(epochs)
    first = rank.to(tl.int64) * n
    mine = tl.maximum(tl.minimum(n, total - first), 0)
    share = share_of(mine)
    copy(out + first + pid * share, own + pid * share, part_of(mine, share), BLOCK)
    for item in range(0, chunks * (world - 1)):
        index = item // (world - 1)
        source = (rank + 1 + item % (world - 1)) % world
        begin = source.to(tl.int64) * n
        at = index.to(tl.int64) * chunk
        length = tl.maximum(tl.minimum(tl.minimum(n, total - begin) - at, chunk), 0)
        share = share_of(length)
        dl.wait(ready + source * chunks + index, waitValue=epoch, cmp="ge")
        copy(out + begin + at + pid * share, stage + source.to(tl.int64) * capacity + at + pid * share,
             part_of(length, share), BLOCK)


@ty.jit
def add_arrivals(own, out, stage, ready, epochs, n, chunk, chunks, capacity, ACC: tl.constexpr,
                 BLOCK: tl.constexpr):
    """out[n] = sum in rank order of this rank's `own` and the others' parts in stage[ranks, capacity],
    which arrive as in `collect`."""
    pid = tl.program_id(0)
    rank = dl.rank()
    world = dl.num_ranks()
    epoch = tl.load(epochs)
    lanes = tl.arange(0, BLOCK)
    for index in range(0, chunks):
        for step in range(1, world):
            source = (rank + step) % world
            dl.wait(ready + source * chunks + index, waitValue=epoch, cmp="ge")
        at = index.to(tl.int64) * chunk
        length = tl.maximum(tl.minimum(n - at, chunk), 0)
        share = share_of(length)
        end = at + pid * share + part_of(length, share)
        for begin in range(at + pid * share, end, BLOCK):
            here = begin + lanes
            acc = tl.zeros((BLOCK,), dtype=ACC)
            for source in range(0, world):
                if source == rank:
                    acc += tl.load(own + here, mask=here < end, other=0).to(ACC)
                else:
                    acc += tl.load(stage + source.to(tl.int64) * capacity + here, mask=here < end,
                                   other=0).to(ACC)
            tl.store(out + here, acc, mask=here < end)


@ty.jit
def store_rows(source, out, M, N, stride_om, stride_on, BLOCK_M: tl.constexpr,
               BLOCK_N: tl.constexpr):
    """out = source, contiguous [M, N], which may be of another type; grid (tiles of M, tiles of N)."""
    rows = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.program_id(1).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
    inside = (rows[:, None] < M) & (cols[None, :] < N)
    value = tl.load(source + rows[:, None] * N + cols[None, :], mask=inside)
    tl.store(out + rows[:, None] * stride_om + cols[None, :] * stride_on, value, mask=inside)


@ty.jit
def place(tile, tiles_m, tiles_n, GROUP_M: tl.constexpr):
    """(row, column) of a tile of one product. Tiles are walked in groups of GROUP_M rows, so that
    operands stay in the cache."""
    group = tile // (GROUP_M * tiles_n)
    first_m = group * GROUP_M
    group_rows = tl.minimum(tiles_m - first_m, GROUP_M)
    inside = tile % (GROUP_M * tiles_n)
    return first_m + inside % group_rows, inside // group_rows


@ty.jit
def known(index, end, COUNT: tl.constexpr, BLOCK: tl.constexpr):
    """Which of the BLOCK indices are below `end`, and among the first COUNT, which a tile has."""
    inside = index < end
    if COUNT < BLOCK:
        inside = inside & (tl.arange(0, BLOCK) < COUNT)
    return inside


@ty.jit
def span(tile, first, end, COUNT: tl.constexpr, BLOCK: tl.constexpr):
    """(indices along one dimension, which of them are known) of a tile of COUNT, counted from `first`."""
    index = first + tile.to(tl.int64) * COUNT + tl.arange(0, BLOCK)
    return index, known(index, end, COUNT, BLOCK)


@ty.jit
def place_of_owner(item, rows_per_rank, tiles_n, ROWS: tl.constexpr, GROUP_M: tl.constexpr):
    """(owner, number among its tiles, row, column of tiles) of an item of a walk through the tiles of
    all ranks' rows, which begins with those of the next rank and ends with the own ones."""
    tiles_m = tl.cdiv(rows_per_rank, ROWS)
    tile = item % (tiles_m * tiles_n)
    tile_m, tile_n = place(tile, tiles_m, tiles_n, GROUP_M)
    return (dl.rank() + 1 + item // (tiles_m * tiles_n)) % dl.num_ranks(), tile, tile_m, tile_n


@ty.jit
def place_among_owners(item, rows_per_rank, tiles_n, RANKS: tl.constexpr, MIXED: tl.constexpr,
                       ROWS: tl.constexpr, GROUP_M: tl.constexpr):
    """`place_of_owner`; MIXED: of a walk that mixes the own tiles with those of others, so that the link, where
    it is slower than the product, has work from the begin to the end: a tile of each other owner in turn, and
    an own one, as far behind as there are instances, which the others have sent by then."""
    OTHERS: tl.constexpr = RANKS - 1
    tiles_m = tl.cdiv(rows_per_rank, ROWS)
    tiles = tiles_m * tiles_n
    if MIXED:
        behind = tl.minimum(tl.num_programs(0), tiles)
        mixed = item - OTHERS * behind  # the first items have no own tile, the last ones no other's
        turn = mixed // RANKS
        tile = turn
        owner = dl.rank()
        if item >= OTHERS * tiles + tiles - behind:
            tile = item - OTHERS * tiles
        elif mixed < 0:
            tile = item // max(OTHERS, 1)
            owner = (owner + 1 + item % max(OTHERS, 1)) % RANKS
        elif mixed % RANKS < OTHERS:
            tile = turn + behind
            owner = (owner + 1 + mixed % RANKS) % RANKS
        tile_m, tile_n = place(tile, tiles_m, tiles_n, GROUP_M)
    else:
        owner, tile, tile_m, tile_n = place_of_owner(item, rows_per_rank, tiles_n, ROWS, GROUP_M)
    return owner, tile, tile_m, tile_n


@ty.jit
def add_product(acc, a, b, rows, cols, row_known, col_known, first_k, end_k, K, stride_am, stride_ak,
                stride_bk, stride_bn, BLOCK_K: tl.constexpr):
    """acc plus the tile of a @ b at these rows and columns, of the steps of BLOCK_K from first_k up
    to end_k; plus 0 where a row or a column is not known."""
    depth = tl.arange(0, BLOCK_K).to(tl.int64)
    a_tile = a + rows[:, None] * stride_am + (first_k + depth)[None, :] * stride_ak
    b_tile = b + (first_k + depth)[:, None] * stride_bk + cols[None, :] * stride_bn
    for k in range(first_k, end_k, BLOCK_K):
        left = tl.load(a_tile, mask=row_known[:, None] & (k + depth[None, :] < K), other=0)
        right = tl.load(b_tile, mask=(k + depth[:, None] < K) & col_known[None, :], other=0)
        acc = tl.dot(left, right, acc, input_precision="ieee")
        a_tile += BLOCK_K * stride_ak
        b_tile += BLOCK_K * stride_bk
    return acc


@ty.jit
def product(a, b, rows, cols, row_known, col_known, first_k, end_k, K, stride_am, stride_ak,
            stride_bk, stride_bn, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
            BLOCK_K: tl.constexpr, ACC: tl.constexpr):
    """The tile that `add_product` adds."""
    return add_product(tl.zeros((BLOCK_M, BLOCK_N), dtype=ACC), a, b, rows, cols, row_known, col_known,
                       first_k, end_k, K, stride_am, stride_ak, stride_bk, stride_bn, BLOCK_K)


@ty.jit
def leave_part(acc, stage, at, inside, owner, whole, entered, epoch):
    """A tile, as far as it is `inside`, to this rank's part (of `whole` elements) of `stage` on
    `owner`, who has to be told (`tell`) when it is there."""
    dl.wait(entered + owner, waitValue=epoch - 1, cmp="ge")
    theirs = dl.symm_at(stage, owner) + dl.rank().to(tl.int64) * whole
    tl.store(theirs + at, acc, mask=inside)


@ty.jit
def tell(arrived, tile, tiles, owner, epoch):
    """arrived[rank, tile] on `owner` is `epoch`: what was stored there before is there."""
    dl.notify(arrived + dl.rank() * tiles + tile, owner, signal=epoch, sig_op="set")


@ty.jit
def send_part(acc, stage, at, inside, owner, whole, entered, arrived, tile, tiles, epoch):
    """`leave_part`, then `tell`."""
    leave_part(acc, stage, at, inside, owner, whole, entered, epoch)
    tell(arrived, tile, tiles, owner, epoch)


@ty.jit
def part_from(stage, source, at, inside, whole, arrived, tile, tiles, epoch):
    """The part of a tile that `source` sent, once it is here."""
    dl.wait(arrived + source * tiles + tile, waitValue=epoch, cmp="ge")
    return tl.load(stage + source.to(tl.int64) * whole + at, mask=inside, other=0)


@ty.jit
def add_parts(acc, stage, at, inside, whole, arrived, tile, tiles, epoch, KIND: tl.constexpr,
              ACC: tl.constexpr):
    """A tile with what the other ranks sent for it, added from the next rank on. The own part is
    rounded as theirs are: with two ranks the sum is the same on both."""
    rank = dl.rank()
    world = dl.num_ranks()
    acc = acc.to(KIND).to(ACC)
    for step in range(1, world):
        acc += part_from(stage, (rank + step) % world, at, inside, whole, arrived, tile, tiles,
                         epoch).to(ACC)
    return acc
