# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Softmax over the last dimension, rows of any length, computed in float32."""

import tilery as ty
import tilery.language as tl


LOG2E = tl.constexpr(1.4426950408889634)


@ty.jit
def power(v, shift):
    """exp(v - shift) as a power of 2: one multiply-add, which rounds once, and one exponential."""
    return tl.exp2(tl.fma(v, LOG2E, -shift * LOG2E))


@ty.jit
def softmax(x, y, M, N, stride_x, stride_y, ROWS: tl.constexpr, BLOCK: tl.constexpr,
            ONCE: tl.constexpr, WHOLE: tl.constexpr,
            STAGES: tl.constexpr = 1):
    """y[row] = softmax(x[row]) for M rows of N elements, ROWS at a time.

    ONCE: N is at most BLOCK, and a row is read once. Any number of instances walk over the groups of
    rows; with STAGES of 2 and more they copy STAGES - 1 groups ahead. A longer row, one an instance,
    is read twice: once for its maximum and sum together, once to write the result. WHOLE: N is a
    multiple of BLOCK, so no lane is masked.
    A row of -inf gives nan, as the definition does.
    """
    row = tl.program_id(0).to(tl.int64)
    lanes = tl.arange(0, BLOCK)
    if ONCE:
        for group in tl.range(tl.program_id(0), tl.cdiv(M, ROWS), tl.num_programs(0),
                              num_stages=STAGES):
            rows = group.to(tl.int64) * ROWS + tl.arange(0, ROWS)
            inside = ((rows < M) | (ROWS == 1))[:, None] & ((lanes < N) | WHOLE)[None, :]
            v = tl.load(x + rows[:, None] * stride_x + lanes[None, :], mask=inside,
                        other=float("-inf")).to(tl.float32)
            peak = tl.max(v, axis=1)
            weights = power(v, tl.where(peak == float("-inf"), 0.0, peak)[:, None])
            scale = 1.0 / tl.sum(weights, axis=1)
            tl.store(y + rows[:, None] * stride_y + lanes[None, :], weights * scale[:, None],
                     mask=inside)
    else:
        highest = float("-inf")
        total = 0.0
        for start in range(0, N, BLOCK):
            at = start + lanes
            inside = (at < N) | WHOLE
            v = tl.load(x + row * stride_x + at, mask=inside, other=float("-inf")).to(tl.float32)
            peak = tl.maximum(highest, tl.max(v, axis=0))
            # exp(-inf - -inf) would be nan where all values so far are -inf.
            shift = tl.where(peak == float("-inf"), 0.0, peak)
            total = total * tl.exp(highest - shift) + tl.sum(power(v, shift), axis=0)
            highest = peak
        shift = tl.where(highest == float("-inf"), 0.0, highest)
        scale = 1.0 / total
        for start in range(0, N, BLOCK):
            at = start + lanes
            inside = (at < N) | WHOLE
            v = tl.load(x + row * stride_x + at, mask=inside, other=float("-inf")).to(tl.float32)
            tl.store(y + row * stride_y + at, power(v, shift) * scale, mask=inside)
