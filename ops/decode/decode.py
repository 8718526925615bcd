# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Attention of one or a few new tokens over a cache of keys and values (flash decoding).

The cache is read once: the query heads that share a head of the cache are the rows of one tile. The
keys of a sequence are dealt out to several instances, the last of which combines their results.
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
def combine(sums, peaks, totals, out, splits, HEAD, stride_oh, stride_ot, ROWS: tl.constexpr,
            TOKENS: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_S: tl.constexpr,
            BLOCK_P: tl.constexpr, PIECE: tl.constexpr):
    """The ROWS rows of `out`, its first one at `out`, from `splits` partial results of each: sums
    [splits, ROWS, HEAD], peaks and totals [splits, ROWS]. Always in the same order.

    BLOCK_P pieces of rows, PIECE long, are made at a time, of all splits, BLOCK_S or fewer.
    """
    PIECES: tl.constexpr = BLOCK_D // PIECE
    split = tl.arange(0, BLOCK_S)[:, None]
    for begin in range(0, ROWS * PIECES, BLOCK_P):
        piece = begin + tl.arange(0, BLOCK_P)
        row = piece // PIECES
        dims = (piece % PIECES * PIECE)[:, None] + tl.arange(0, PIECE)[None, :]
        inside = (row < ROWS)[:, None] & (dims < HEAD)
        at = split * ROWS + row[None, :]
        known = (split < splits) & (row < ROWS)[None, :]
        # All loads first: combining is as long as their latency.
        peak = tl.load(peaks + at, mask=known, other=float("-inf"))
        total = tl.load(totals + at, mask=known, other=0.0)
        sum_ = tl.load(sums + (at[:, :, None] * HEAD + dims[None, :, :]),
                       mask=known[:, :, None] & inside[None, :, :], other=0.0)
        highest = tl.max(peak, axis=0)
        weights = tl.exp2(peak - tl.where(highest == float("-inf"), 0.0, highest)[None, :])
        whole = tl.sum(weights * total, axis=0)
        inverse = 1.0 / tl.where(whole == 0.0, 1.0, whole)
        acc = tl.sum(weights[:, :, None] * sum_, axis=0)
        o_rows = out + (row // TOKENS).to(tl.int64) * stride_oh + row % TOKENS * stride_ot
        tl.store(o_rows[:, None] + dims, acc * inverse[:, None], mask=inside)


@ty.jit
def leave(acc, peak, total, sums, peaks, totals, split, rows, dims, inside, HEAD,
          ROWS: tl.constexpr):
    """One partial result, where `combine` finds it."""
    row = split * ROWS + rows
    tl.store(sums + row[:, None] * HEAD + dims[None, :], acc, mask=inside)
    tl.store(peaks + row, peak, mask=rows < ROWS)
    tl.store(totals + row, total, mask=rows < ROWS)


@ty.jit
def decode(q, k, v, lengths, out, partials, arrived, works, splits, kv_heads, K_LEN, HEAD, scale,
           stride_qb, stride_qh, stride_qt, stride_kb, stride_kh, stride_kt,
           stride_vb, stride_vh, stride_vt, stride_ob, stride_oh, stride_ot,
           GROUP: tl.constexpr, TOKENS: tl.constexpr, CAUSAL: tl.constexpr,
           BLOCK_R: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_D: tl.constexpr,
           BLOCK_S: tl.constexpr, BLOCK_P: tl.constexpr, PIECE: tl.constexpr):
    """out = softmax(q k^T * scale) v over lengths[batch] keys; any number of instances.

    q and out: [batch, kv_heads x GROUP, TOKENS, HEAD]; k and v: [batch, kv_heads, K_LEN, HEAD]; the
    last dimension is contiguous, other strides are in elements. `works` is batch x kv_heads x
    `splits`. CAUSAL: token i sees keys up to lengths[batch] - TOKENS + i. A query that sees no key
    gets 0, a sequence of a length that the cache cannot have nan. What the cache holds behind a
    sequence's keys is not used, whatever it is.

    `partials` None: one split. Else the splits of a pair, that is of a sequence and a head of the
    cache, leave partial results, which the last one combines (BLOCK_S, BLOCK_P, PIECE: as there).
    `partials` are floats: sums [pairs, splits, GROUP x TOKENS, HEAD], then the peaks and then the
    totals of the same rows. `arrived` has an int32 for each pair, all 0 before and after.
    """
    ROWS: tl.constexpr = GROUP * TOKENS
    rows = tl.arange(0, BLOCK_R)
    dims = tl.arange(0, BLOCK_D)
    member = (rows // TOKENS).to(tl.int64)
    token = rows % TOKENS
    inside = (rows < ROWS)[:, None] & (dims < HEAD)[None, :]
    scale = scale * LOG2E
    for work in range(tl.program_id(0), works, tl.num_programs(0)):
        pair = work // splits
        split = work % splits
        batch = (pair // kv_heads).to(tl.int64)
        kv_head = (pair % kv_heads).to(tl.int64)
        length, wrong = keys_of(lengths, batch, K_LEN)
        tiles = tl.cdiv(length, BLOCK_K)
        share = tl.cdiv(tiles, splits)
        first = split * share
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
        out_pair = out + batch * stride_ob + kv_head * GROUP * stride_oh
        if partials is None:
            inverse = 1.0 / tl.where(total == 0.0, 1.0, total)
            o_tile = out_pair + member[:, None] * stride_oh + token[:, None] * stride_ot
            tl.store(o_tile + dims[None, :], acc * inverse[:, None], mask=inside)
        else:
            before = (pair * splits).to(tl.int64) * ROWS  # rows of the pairs before
            sums = partials + before * HEAD
            peaks = partials + works.to(tl.int64) * ROWS * HEAD + before
            totals = peaks + works.to(tl.int64) * ROWS
            leave(acc, peak, total, sums, peaks, totals, split, rows, dims, inside, HEAD, ROWS)
            if tl.atomic_add(arrived + pair, 1, sem="acq_rel", scope="gpu") == splits - 1:
                combine(sums, peaks, totals, out_pair, splits, HEAD, stride_oh, stride_ot, ROWS,
                        TOKENS, BLOCK_D, BLOCK_S, BLOCK_P, PIECE)
                tl.store(arrived + pair, 0)  # for the next launch
