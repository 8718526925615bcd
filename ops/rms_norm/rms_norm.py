# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""RMS norm over the last dimension; the weight's type may differ from the input's."""

import tilery as ty
import tilery.language as tl


@ty.jit
def rms_norm(x, weight, y, N, stride_x, stride_y, eps, BLOCK: tl.constexpr,
             ONCE: tl.constexpr, WHOLE: tl.constexpr):
    """y[row] = x[row] / sqrt(mean(x[row]^2) + eps) * weight; one row an instance.

    Rows have N elements and are `stride_*` elements apart. Everything is computed in float32
    and rounded once, when it is stored. ONCE: N is at most BLOCK, and a row is read
    once. WHOLE: N is a multiple of BLOCK, so nothing is masked.
    """
    row = tl.program_id(0).to(tl.int64)
    lanes = tl.arange(0, BLOCK)
    if ONCE:
        inside = (lanes < N) | WHOLE
        v = tl.load(x + row * stride_x + lanes, mask=inside, other=0.0).to(tl.float32)
        scale = tl.rsqrt(tl.sum(v * v, axis=0) / N + eps)
        w = tl.load(weight + lanes, mask=inside, other=0.0).to(tl.float32)
        tl.store(y + row * stride_y + lanes, v * scale * w, mask=inside)
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
