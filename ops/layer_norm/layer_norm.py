# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Layer norm over the last dimension; weight and bias may differ from the input in type."""

import tilery as ty
import tilery.language as tl


@ty.jit
def layer_norm(x, weight, bias, y, N, stride_x, stride_y, eps, BLOCK: tl.constexpr):
    """y[row] = (x[row] - mean) / sqrt(var + eps) * weight + bias; one row an instance.

    Rows have N elements and are `stride_*` elements apart. The variance is that of differences
    from the mean, in float32, so that a large mean does not cancel it. `weight` and `bias` may
    be None.
    """
    row = tl.program_id(0).to(tl.int64)
    lanes = tl.arange(0, BLOCK)
    sums = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, N, BLOCK):
        at = start + lanes
        sums += tl.load(x + row * stride_x + at, mask=at < N, other=0.0).to(tl.float32)
    mean = tl.sum(sums, axis=0) / N
    squares = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, N, BLOCK):
        at = start + lanes
        v = tl.load(x + row * stride_x + at, mask=at < N, other=0.0).to(tl.float32)
        delta = tl.where(at < N, v - mean, 0.0)
        squares += delta * delta
    scale = tl.rsqrt(tl.sum(squares, axis=0) / N + eps)
    for start in range(0, N, BLOCK):
        at = start + lanes
        v = tl.load(x + row * stride_x + at, mask=at < N, other=0.0).to(tl.float32)
        out = (v - mean) * scale
        if weight is not None:
            out = out * tl.load(weight + at, mask=at < N, other=0.0).to(tl.float32)
        if bias is not None:
            out = out + tl.load(bias + at, mask=at < N, other=0.0).to(tl.float32)
        tl.store(y + row * stride_y + at, out, mask=at < N)
