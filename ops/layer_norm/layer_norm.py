# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Layer norm over the last dimension; weight and bias may differ from the input in type."""

import tilery as ty
import tilery.language as tl


@ty.jit
def store_normed(values, weight, bias, place, at, inside):
    """Scales, shifts and stores values that have mean 0 and variance 1."""
    if weight is not None:
        values = values * tl.load(weight + at, mask=inside, other=0.0).to(tl.float32)
    if bias is not None:
        values = values + tl.load(bias + at, mask=inside, other=0.0).to(tl.float32)
    tl.store(place + at, values, mask=inside)


@ty.jit
def layer_norm(x, weight, bias, y, N, stride_x, stride_y, eps, BLOCK: tl.constexpr,
               ONCE: tl.constexpr, WHOLE: tl.constexpr):
    """y[row] = (x[row] - mean) / sqrt(var + eps) * weight + bias; one row an instance.

    Rows have N elements and are `stride_*` elements apart. The variance is that of differences
    from the mean, in float32, so that a large mean does not cancel it. `weight` and `bias` may
    be None. ONCE: N is at most BLOCK, and a row is read once. WHOLE: N is a multiple of BLOCK, so
    nothing is masked.
    """
    row = tl.program_id(0).to(tl.int64)
    lanes = tl.arange(0, BLOCK)
    if ONCE:
        inside = (lanes < N) | WHOLE
        v = tl.load(x + row * stride_x + lanes, mask=inside, other=0.0).to(tl.float32)
        mean = tl.sum(v, axis=0) / N
        delta = tl.where(inside, v - mean, 0.0)
        scale = tl.rsqrt(tl.sum(delta * delta, axis=0) / N + eps)
        store_normed(delta * scale, weight, bias, y + row * stride_y, lanes, inside)
    else:
        sums = tl.zeros((BLOCK,), dtype=tl.float32)
        for start in range(0, N, BLOCK):
            at = start + lanes
            inside = (at < N) | WHOLE
            sums += tl.load(x + row * stride_x + at, mask=inside, other=0.0).to(tl.float32)
        mean = tl.sum(sums, axis=0) / N
        squares = tl.zeros((BLOCK,), dtype=tl.float32)
        for start in range(0, N, BLOCK):
            at = start + lanes
            inside = (at < N) | WHOLE
            v = tl.load(x + row * stride_x + at, mask=inside, other=0.0).to(tl.float32)
            delta = tl.where(inside, v - mean, 0.0)
            squares += delta * delta
        scale = tl.rsqrt(tl.sum(squares, axis=0) / N + eps)
        for start in range(0, N, BLOCK):
            at = start + lanes
            inside = (at < N) | WHOLE
            v = tl.load(x + row * stride_x + at, mask=inside, other=0.0).to(tl.float32)
            store_normed((v - mean) * scale, weight, bias, y + row * stride_y, at, inside)
