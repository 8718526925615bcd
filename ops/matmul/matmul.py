# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Matrix products of one rank: any M, N, K and any strides, batches, what follows a product."""

import tilery as ty
import tilery.language as tl

from ..parts import place, product, span


@ty.jit
def activate(x, ACTIVATION: tl.constexpr):
    if ACTIVATION == "relu":
        x = tl.maximum(x, 0.0)
    if ACTIVATION == "silu":
        x = x * tl.sigmoid(x)
    if ACTIVATION == "gelu":
        x = 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476))
    if ACTIVATION == "gelu_tanh":
        x = x * tl.sigmoid(1.5957691216057308 * (x + 0.044715 * x * x * x))
    return x


@ty.jit
def gather(acc, partials, arrived, tile, part, parts, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
           BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """Leaves one of `parts` parts of a tile for the others; returns the whole tile and True in the
    instance that comes last. Parts are added in their order, whoever comes last: the same bits each
    time."""
    row = tl.arange(0, BLOCK_M)[:, None]
    column = tl.arange(0, BLOCK_N)[None, :]
    own = (row < ROWS) & (column < COLUMNS)
    elements = row * COLUMNS + column
    first = partials + (tile * parts).to(tl.int64) * (ROWS * COLUMNS)
    tl.store(first + part.to(tl.int64) * (ROWS * COLUMNS) + elements, acc, mask=own)
    is_last = tl.atomic_add(arrived + tile, 1, sem="acq_rel", scope="gpu") == parts - 1
    if is_last:
        acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=acc.dtype)
        for other in tl.range(0, parts):
            acc += tl.load(first + other.to(tl.int64) * (ROWS * COLUMNS) + elements, mask=own,
                           other=0)
        tl.store(arrived + tile, 0)  # for the next launch
    return acc, is_last


@ty.jit
def matmul(a, b, c, bias, residual, scale_a, scale_b, partials, arrived, M, N, K, batches,
           stride_ab, stride_am, stride_ak, stride_bb, stride_bk, stride_bn, stride_cb, stride_cm,
           stride_cn, stride_rb, stride_rm, stride_rn, stride_sa, stride_sb, whole, parts, part_steps,
           BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
           ROWS: tl.constexpr, COLUMNS: tl.constexpr, GROUP_M: tl.constexpr, ACC: tl.constexpr,
           BATCHED: tl.constexpr = False, SPLIT: tl.constexpr = False, BIAS: tl.constexpr = False,
           RESIDUAL: tl.constexpr = False, SCALED: tl.constexpr = False,
           ACTIVATION: tl.constexpr = "none"):
    """c = activation(a @ b * scale_a * scale_b + bias) + residual; grid (instances,).

    a: [batches, M, K], b: [batches, K, N], c and residual: [batches, M, N], bias: [N]; scale_a: one
    for each row (stride_sa 1) or one for all (0), scale_b the same for columns. What a flag leaves
    out is None. Strides are in elements. ACC is the accumulator's type: float32, or int32 for
    integers.

    A tile is ROWS x COLUMNS. They may be less than BLOCK_M and BLOCK_N, which are powers of two and
    what a matrix unit takes: fewer columns where that makes tiles and processors come out even, fewer
    rows where there are no more.

    Instances share the tiles: as many as tiles, or as many as the device runs at a time. Each then
    walks over its tiles, and the first loads of a tile overlap the end of the one before.

    SPLIT: tiles that do not give all instances work, those behind the first `whole` ones, are made in
    `parts` parts of `part_steps` steps along K. Instances that run together work on the same steps, so
    that they find operands in the cache. `partials` has a tile of ACC for each part, `arrived` an
    int32 for each such tile, all 0 before and after.
    """
    tiles_m = tl.cdiv(M, ROWS)
    tiles_n = tl.cdiv(N, COLUMNS)
    tiles = tiles_m * tiles_n
    all_tiles = tiles
    if BATCHED:
        all_tiles *= batches
    work = all_tiles
    if SPLIT:
        work = whole + (all_tiles - whole) * parts
    for item in range(tl.program_id(0), work, tl.num_programs(0)):
        tile = item
        first_k = 0
        end_k = K
        if SPLIT:
            cut = (item - whole) % (all_tiles - whole)
            part = (item - whole) // (all_tiles - whole)
            if item >= whole:
                tile = whole + cut
                first_k = part * part_steps * BLOCK_K
                end_k = tl.minimum(first_k + part_steps * BLOCK_K, K)
        in_batch = tile
        a_base = a
        b_base = b
        c_base = c
        batch = 0
        if BATCHED:
            batch = (tile // tiles).to(tl.int64)
            in_batch = tile % tiles
            a_base += batch * stride_ab
            b_base += batch * stride_bb
            c_base += batch * stride_cb
        tile_m, tile_n = place(in_batch, tiles_m, tiles_n, GROUP_M)
        rows, row_known = span(tile_m, 0, M, ROWS, BLOCK_M)
        cols, col_known = span(tile_n, 0, N, COLUMNS, BLOCK_N)
        acc = product(a_base, b_base, rows, cols, row_known, col_known, first_k, end_k, K,
                      stride_am, stride_ak, stride_bk, stride_bn, BLOCK_M, BLOCK_N, BLOCK_K, ACC)
        finished = True
        if SPLIT:
            if item >= whole:
                acc, finished = gather(acc, partials, arrived, cut, part, parts, ROWS, COLUMNS,
                                       BLOCK_M, BLOCK_N)
        inside = row_known[:, None] & col_known[None, :] & finished
        result = acc
        if SCALED:
            factors = (tl.load(scale_a + rows * stride_sa, mask=rows < M, other=0.0)[:, None]
                       * tl.load(scale_b + cols * stride_sb, mask=cols < N, other=0.0)[None, :])
            result = acc.to(tl.float32) * factors
        if BIAS:
            result += tl.load(bias + cols, mask=cols < N, other=0)[None, :].to(result.dtype)
        result = activate(result, ACTIVATION)
        if RESIDUAL:
            r_tile = (residual + batch * stride_rb + rows[:, None] * stride_rm
                      + cols[None, :] * stride_rn)
            result += tl.load(r_tile, mask=inside, other=0).to(result.dtype)
        tl.store(c_base + rows[:, None] * stride_cm + cols[None, :] * stride_cn, result,
                 mask=inside)
