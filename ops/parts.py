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
def tile_product(a, b, row, row_end, col, N, K, stride_am, stride_ak, stride_bk, stride_bn,
                 BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
                 ACC: tl.constexpr):
    """The tile of a @ b at (row, col); rows from row_end on and columns from N on are 0."""
    rows = row + tl.arange(0, BLOCK_M).to(tl.int64)
    cols = col + tl.arange(0, BLOCK_N).to(tl.int64)
    depth = tl.arange(0, BLOCK_K).to(tl.int64)
    a_tile = a + rows[:, None] * stride_am + depth[None, :] * stride_ak
    b_tile = b + depth[:, None] * stride_bk + cols[None, :] * stride_bn
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=ACC)
    for k in range(0, K, BLOCK_K):
        left = tl.load(a_tile, mask=(rows[:, None] < row_end) & (k + depth[None, :] < K), other=0)
        right = tl.load(b_tile, mask=(k + depth[:, None] < K) & (cols[None, :] < N), other=0)
        acc = tl.dot(left, right, acc, input_precision="ieee")
        a_tile += BLOCK_K * stride_ak
        b_tile += BLOCK_K * stride_bk
    return acc
