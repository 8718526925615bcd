# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Attention of one or a few new tokens over a cache of keys and values (flash decoding).

The cache is read once: the query heads that share a head of the cache are the rows of one tile. The
keys of a sequence are dealt out to several instances, whose partial results are combined.
"""

import tilery as ty
import tilery.language as tl

LOG2E = tl.constexpr(1.4426950408889634)


@ty.jit
def keys_of(lengths, batch, K_LEN):
    """How many keys sequence `batch` has, all of the cache's when `lengths` is None; and 0, or nan
    when the cache cannot have so many."""
    if lengths is None:
        return K_LEN, 0.0
    given = tl.load(lengths + batch)
    possible = (given >= 0) & (given <= K_LEN)
    return (tl.maximum(tl.minimum(given, K_LEN), 0).to(tl.int32),
            tl.where(possible, 0.0, float("nan")))


@ty.jit
def attend(query, k_rows, v_rows, limit, origin, first, last, K_LEN, HEAD, scale, stride_kt,
           stride_vt, dims, CAUSAL: tl.constexpr, BLOCK_K: tl.constexpr):
    """Keys of tiles [first, last), of which tile 0 starts at `origin`; returns (acc, peak, total).

    Scores are in units of log2, so that weights are powers of 2. `limit`: each row's last key.
    """
    peak = tl.full((query.shape[0],), float("-inf"), dtype=tl.float32)
    total = tl.zeros((query.shape[0],), dtype=tl.float32)
    acc = tl.zeros(query.shape, dtype=tl.float32)
    for tile in range(first, last):
        at = origin + tile * BLOCK_K + tl.arange(0, BLOCK_K)
        place = at.to(tl.int64)[:, None]
        known = ((at >= 0) & (at < K_LEN))[:, None] & (dims < HEAD)[None, :]
        key = tl.load(k_rows + place * stride_kt + dims[None, :], mask=known, other=0.0)
        scores = tl.dot(query, tl.trans(key), input_precision="ieee") * scale
        visible = (at >= 0)[None, :]
        if CAUSAL:
            visible = visible & (at[None, :] <= limit[:, None])
        scores = tl.where(visible, scores, float("-inf"))
        highest = tl.maximum(peak, tl.max(scores, axis=1))
        # exp2(-inf - -inf) would be nan where a row has seen no key so far.
        shift = tl.where(highest == float("-inf"), 0.0, highest)
        weights = tl.exp2(scores - shift[:, None])
        decay = tl.exp2(peak - shift)
        total = total * decay + tl.sum(weights, axis=1)
        value = tl.load(v_rows + place * stride_vt + dims[None, :], mask=known, other=0.0)
        acc = acc * decay[:, None]
        acc = tl.dot(weights.to(value.dtype), value, acc, input_precision="ieee")
        peak = highest
    return acc, peak, total


@ty.jit
def decode(q, k, v, lengths, out, partial, works, splits, kv_heads, K_LEN, HEAD, scale,
           stride_qb, stride_qh, stride_qt, stride_kb, stride_kh, stride_kt,
           stride_vb, stride_vh, stride_vt, stride_ob, stride_oh, stride_ot,
           GROUP: tl.constexpr, TOKENS: tl.constexpr, CAUSAL: tl.constexpr,
           BLOCK_R: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_D: tl.constexpr):
    """out = softmax(q k^T * scale) v over lengths[batch] keys; any number of instances.

    q and out: [batch, kv_heads x GROUP, TOKENS, HEAD]; k and v: [batch, kv_heads, K_LEN, HEAD]; the
    last dimension is contiguous, other strides are in elements. `works` is batch x kv_heads x
    `splits`. CAUSAL: token i sees keys up to lengths[batch] - TOKENS + i. A query that sees no key
    gets 0, a sequence of a length that the cache cannot have nan. What the cache holds behind a
    sequence's keys is not used, whatever it is.

    `partial` None: one split, whose result goes to `out`. Else floats: sums [splits, batch x
    kv_heads, GROUP x TOKENS, HEAD], then the peaks and then the totals of the same rows.
    """
    rows = tl.arange(0, BLOCK_R)
    dims = tl.arange(0, BLOCK_D)
    member = (rows // TOKENS).to(tl.int64)
    token = rows % TOKENS
    inside = (rows < GROUP * TOKENS)[:, None] & (dims < HEAD)[None, :]
    scale = scale * LOG2E
    for work in range(tl.program_id(0), works, tl.num_programs(0)):
        pair = work // splits
        batch = (pair // kv_heads).to(tl.int64)
        kv_head = (pair % kv_heads).to(tl.int64)
        length, wrong = keys_of(lengths, batch, K_LEN)
        tiles = tl.cdiv(length, BLOCK_K)
        share = tl.cdiv(tiles, splits)
        first = work % splits * share
        # The last tile ends with the last key, so that only tile 0 is cut off, at its beginning:
        # behind the keys the cache may hold nan, which a weight of 0 would not hide.
        origin = length - tiles * BLOCK_K
        q_tile = (q + batch * stride_qb + (kv_head * GROUP + member)[:, None] * stride_qh
                  + token[:, None] * stride_qt + dims[None, :])
        query = tl.where(inside, tl.load(q_tile, mask=inside, other=0.0), 0.0)
        acc, peak, total = attend(query, k + batch * stride_kb + kv_head * stride_kh,
                                  v + batch * stride_vb + kv_head * stride_vh,
                                  length - TOKENS + token, origin, first,
                                  tl.minimum(first + share, tiles), K_LEN, HEAD, scale, stride_kt,
                                  stride_vt, dims, CAUSAL, BLOCK_K)
        total += wrong
        if partial is None:
            inverse = 1.0 / tl.where(total == 0.0, 1.0, total)
            o_tile = (out + batch * stride_ob + (kv_head * GROUP + member)[:, None] * stride_oh
                      + token[:, None] * stride_ot + dims[None, :])
            tl.store(o_tile, acc * inverse[:, None], mask=inside)
        else:
            pairs = works // splits
            row = (work % splits * pairs + pair).to(tl.int64) * (GROUP * TOKENS) + rows
            peaks = partial + works.to(tl.int64) * (GROUP * TOKENS) * HEAD
            totals = peaks + works.to(tl.int64) * (GROUP * TOKENS)
            tl.store(partial + row[:, None] * HEAD + dims[None, :], acc, mask=inside)
            tl.store(peaks + row, peak, mask=rows < GROUP * TOKENS)
            tl.store(totals + row, total, mask=rows < GROUP * TOKENS)


@ty.jit
def combine(partial, out, splits, kv_heads, HEAD, stride_ob, stride_oh, stride_ot,
            GROUP: tl.constexpr, TOKENS: tl.constexpr, BLOCK_S: tl.constexpr,
            BLOCK_D: tl.constexpr):
    """out from the partial results of `decode`, always in the same order; grid (batch x
    kv_heads, GROUP x TOKENS), one row of `out` an instance; BLOCK_S is not less than `splits`."""
    pair = tl.program_id(0)
    row = tl.program_id(1)
    rows = tl.num_programs(0).to(tl.int64) * (GROUP * TOKENS)
    split = tl.arange(0, BLOCK_S).to(tl.int64)
    dims = tl.arange(0, BLOCK_D)
    known = split < splits
    at = split * rows + pair.to(tl.int64) * (GROUP * TOKENS) + row
    peaks = partial + splits * rows * HEAD
    # All loads first: the kernel is as long as their latency.
    peak = tl.load(peaks + at, mask=known, other=float("-inf"))
    totals = tl.load(peaks + splits * rows + at, mask=known, other=0.0)
    sums = tl.load(partial + at[:, None] * HEAD + dims[None, :],
                   mask=known[:, None] & (dims < HEAD)[None, :], other=0.0)
    highest = tl.max(peak, axis=0)
    weights = tl.exp2(peak - tl.where(highest == float("-inf"), 0.0, highest))
    total = tl.sum(weights * totals, axis=0)
    acc = tl.sum(weights[:, None] * sums, axis=0)
    head = pair % kv_heads * GROUP + row // TOKENS
    o_row = (out + (pair // kv_heads).to(tl.int64) * stride_ob + head.to(tl.int64) * stride_oh
             + row % TOKENS * stride_ot)
    inverse = 1.0 / tl.where(total == 0.0, 1.0, total)
    tl.store(o_row + dims, acc * inverse, mask=dims < HEAD)
