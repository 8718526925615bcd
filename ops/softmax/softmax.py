# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Softmax over the last dimension, rows of any length, computed in float32."""

import tilery as ty
import tilery.language as tl


@ty.jit
def softmax(x, y, N, stride_x, stride_y, BLOCK: tl.constexpr):
    """y[row] = softmax(x[row]) for rows of N elements; one row an instance, grid (rows,).

    A row of at most BLOCK is read once; a longer one twice: once for its maximum and sum together,
    once to write the result.
    A row of -inf gives nan, as the definition does.
    """
    row = tl.program_id(0).to(tl.int64)
    lanes = tl.arange(0, BLOCK)
    if N <= BLOCK:
        v = tl.load(x + row * stride_x + lanes, mask=lanes < N, other=float("-inf")).to(tl.float32)
        peak = tl.max(v, axis=0)
        power = tl.exp(v - tl.where(peak == float("-inf"), 0.0, peak))
        total = tl.sum(power, axis=0)
        tl.store(y + row * stride_y + lanes, power / total, mask=lanes < N)
    else:
        highest = float("-inf")
        total = 0.0
        for start in range(0, N, BLOCK):
            at = start + lanes
            v = tl.load(x + row * stride_x + at, mask=at < N, other=float("-inf")).to(tl.float32)
            peak = tl.maximum(highest, tl.max(v, axis=0))
            # exp(-inf - -inf) would be nan where all values so far are -inf.
            shift = tl.where(peak == float("-inf"), 0.0, peak)
            total = total * tl.exp(highest - shift) + tl.sum(tl.exp(v - shift), axis=0)
            highest = peak
        shift = tl.where(highest == float("-inf"), 0.0, highest)
        for start in range(0, N, BLOCK):
            at = start + lanes
            v = tl.load(x + row * stride_x + at, mask=at < N, other=float("-inf")).to(tl.float32)
            tl.store(y + row * stride_y + at, tl.exp(v - shift) / total, mask=at < N)
