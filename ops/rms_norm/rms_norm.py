# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""RMS norm over the last dimension; the weight's type may differ from the input's."""

import tilery as ty
import tilery.language as tl


@ty.jit
def rms_norm(x, weight, y, M, N, stride_x, stride_y, eps, ROWS: tl.constexpr,
             BLOCK: tl.constexpr, ONCE: tl.constexpr, WHOLE: tl.constexpr,
             STAGES: tl.constexpr = 1):
    """y[row] = x[row] / sqrt(mean(x[row]^2) + eps) * weight, ROWS rows at a time.

    The M rows have N elements and are `stride_*` elements apart. Everything is computed in float32
    and rounded once, when it is stored. ONCE: N is at most BLOCK, a row is read once, and any number
    of instances walk over the groups of rows; with STAGES of 2 and more they copy STAGES - 1 groups
    ahead and load the weight once. Of longer rows an instance has one. WHOLE: N is a multiple of BLOCK, so no lane is masked.
    """
    row = tl.program_id(0).to(tl.int64)
    lanes = tl.arange(0, BLOCK)
    if ONCE:
        known = (lanes < N) | WHOLE
        if STAGES > 1:  # an instance has many rows
            w = tl.load(weight + lanes, mask=known, other=0.0)
        for group in tl.range(tl.program_id(0), tl.cdiv(M, ROWS), tl.num_programs(0),
                              num_stages=STAGES):
            rows = group.to(tl.int64) * ROWS + tl.arange(0, ROWS)
            inside = ((rows < M) | (ROWS == 1))[:, None] & known[None, :]
            v = tl.load(x + rows[:, None] * stride_x + lanes[None, :], mask=inside, other=0.0)
            v = v.to(tl.float32)
            scale = tl.rsqrt(tl.sum(v * v, axis=1) / N + eps)
            if STAGES == 1:
                w = tl.load(weight + lanes, mask=known, other=0.0)
            tl.store(y + rows[:, None] * stride_y + lanes[None, :],
                     v * scale[:, None] * w.to(tl.float32)[None, :], mask=inside)
    else:
        squares = tl.zeros((BLOCK,), dtype=tl.float32)
        for start in range(0, N, BLOCK):
            at = start + lanes
            inside = (at < N) | WHOLE
            v = tl.load(x + row * stride_x + at, mask=inside, other=0.0).to(tl.float32)
            squares += v * v
        scale = tl.rsqrt(tl.sum(squares, axis=0) / N + eps)
        for start in range(0, N, BLOCK):
            at = start + lanes
            inside = (at < N) | WHOLE
            v = tl.load(x + row * stride_x + at, mask=inside, other=0.0).to(tl.float32)
            w = tl.load(weight + at, mask=inside, other=0.0).to(tl.float32)
            tl.store(y + row * stride_y + at, v * scale * w, mask=inside)
