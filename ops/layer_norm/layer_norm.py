# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Layer norm over the last dimension; weight and bias may differ from the input in type."""

import tilery as ty
import tilery.language as tl


@ty.jit
def elements(vector, at, known):
    """Those of weight or bias; None where there is none."""
    return tl.load(vector + at, mask=known, other=0.0) if vector is not None else None


@ty.jit
def adjusted(values, weight, bias):
    """Scales and shifts rows of values that have mean 0 and variance 1."""
    if weight is not None:
        values = values * weight.to(tl.float32)[None, :]
    if bias is not None:
        values = values + bias.to(tl.float32)[None, :]
    return values


@ty.jit
def whole_rows(x, weight, bias, y, group, M, N, stride_x, stride_y, eps, ROWS: tl.constexpr,
               BLOCK: tl.constexpr, WHOLE: tl.constexpr, w=None):
    """Rows of at most BLOCK elements, each read once. w: the elements of weight, where they are known."""
    lanes = tl.arange(0, BLOCK)
    known = (lanes < N) | WHOLE
    rows = group.to(tl.int64) * ROWS + tl.arange(0, ROWS)
    inside = ((rows < M) | (ROWS == 1))[:, None] & known[None, :]
    v = tl.load(x + rows[:, None] * stride_x + lanes[None, :], mask=inside, other=0.0)
    v = v.to(tl.float32)
    mean = tl.sum(v, axis=1) / N
    delta = tl.where(known[None, :], v - mean[:, None], 0.0)
    scale = tl.rsqrt(tl.sum(delta * delta, axis=1) / N + eps)
    if w is None:
        w = elements(weight, lanes, known)
    tl.store(y + rows[:, None] * stride_y + lanes[None, :],
             adjusted(delta * scale[:, None], w, elements(bias, lanes, known)), mask=inside)


@ty.jit
def layer_norm(x, weight, bias, y, M, N, stride_x, stride_y, eps, ROWS: tl.constexpr,
               BLOCK: tl.constexpr, ONCE: tl.constexpr, WHOLE: tl.constexpr,
               STAGES: tl.constexpr = 1):
    """y[row] = (x[row] - mean) / sqrt(var + eps) * weight + bias, ROWS rows at a time.

    The M rows have N elements and are `stride_*` elements apart. The variance is that of differences
    from the mean, in float32, so that a large mean does not cancel it. `weight` and `bias` may
    be None. ONCE: N is at most BLOCK, a row is read once, and an instance has one group of rows; with
    STAGES of 2 and more any number of instances walk over the groups, copy STAGES - 1 of them ahead
    and load the weight once. Of longer rows an instance has one. WHOLE: N is a multiple of BLOCK, so no lane is masked.
    """
    row = tl.program_id(0).to(tl.int64)
    lanes = tl.arange(0, BLOCK)
    if ONCE:
        if STAGES > 1:
            # Of many rows; registers have no room for both weight and bias.
            w = elements(weight, lanes, (lanes < N) | WHOLE)
            for group in tl.range(tl.program_id(0), tl.cdiv(M, ROWS), tl.num_programs(0),
                                  num_stages=STAGES):
                whole_rows(x, weight, bias, y, group, M, N, stride_x, stride_y, eps, ROWS, BLOCK,
                           WHOLE, w)
        else:
            # No loop: what it keeps from one group to the next costs registers, and with them an instance.
            whole_rows(x, weight, bias, y, tl.program_id(0), M, N, stride_x, stride_y, eps, ROWS,
                       BLOCK, WHOLE)
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
            values = adjusted(((v - mean) * scale)[None, :], elements(weight, at, inside),
                              elements(bias, at, inside))
            tl.store(y + row * stride_y + at[None, :], values, mask=inside[None, :])
