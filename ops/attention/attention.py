# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Attention forward without the score matrix in memory (flash attention)."""

import tilery as ty
import tilery.language as tl


@ty.jit
def attend(query, acc, total, highest, k_rows, v_rows, mask, rows, dims, start, end, Q_LEN, K_LEN,
           HEAD, scale, stride_kt, stride_vt, stride_mq, stride_mk, CAUSAL: tl.constexpr,
           MASK: tl.constexpr, WHOLE: tl.constexpr, BLOCK_K: tl.constexpr):
    """One more run of keys [start, end) for a tile of queries; returns (acc, total, highest).

    Scores are in units of log2, so that weights are powers of 2. WHOLE: every query of the tile sees
    every key of the run, so nothing is compared.
    """
    keys = tl.arange(0, BLOCK_K).to(tl.int64)
    # The few runs at a border are not worth the code that overlaps one with the next.
    for first in tl.range(start, end, BLOCK_K, num_stages=2 if WHOLE else 1):
        at = first + keys
        known = (at[:, None] < K_LEN) & (dims[None, :] < HEAD)
        key = tl.load(k_rows + at[:, None] * stride_kt + dims[None, :], mask=known, other=0.0)
        scores = tl.dot(query, tl.trans(key), input_precision="ieee")
        if WHOLE:
            peak = tl.maximum(highest, tl.max(scores, axis=1) * scale)
            weights = tl.exp2(scores * scale - peak[:, None])
            decay = tl.exp2(highest - peak)
        else:
            scores = scores * scale
            visible = (rows[:, None] < Q_LEN) & (at[None, :] < K_LEN)
            if CAUSAL:
                visible = visible & (at[None, :] <= rows[:, None] + (K_LEN - Q_LEN))
            if MASK != "none":
                m_tile = mask + rows[:, None] * stride_mq + at[None, :] * stride_mk
                if MASK == "keep":
                    visible = visible & (tl.load(m_tile, mask=visible, other=0) != 0)
                else:
                    added = tl.load(m_tile, mask=visible, other=0.0).to(tl.float32)
                    scores += added * 1.4426950408889634
            scores = tl.where(visible, scores, float("-inf"))
            peak = tl.maximum(highest, tl.max(scores, axis=1))
            # exp2(-inf - -inf) would be nan where a query has seen no key so far.
            shift = tl.where(peak == float("-inf"), 0.0, peak)
            weights = tl.exp2(scores - shift[:, None])
            decay = tl.exp2(highest - shift)
        total = total * decay + tl.sum(weights, axis=1)
        value = tl.load(v_rows + at[:, None] * stride_vt + dims[None, :], mask=known, other=0.0)
        acc = acc * decay[:, None]
        acc = tl.dot(weights.to(value.dtype), value, acc, input_precision="ieee")
        highest = peak
    return acc, total, highest


@ty.jit
def attention(q, k, v, mask, out, heads, group, Q_LEN, K_LEN, HEAD, scale,
              stride_qb, stride_qh, stride_qt, stride_kb, stride_kh, stride_kt,
              stride_vb, stride_vh, stride_vt, stride_ob, stride_oh, stride_ot,
              stride_mb, stride_mh, stride_mq, stride_mk,
              CAUSAL: tl.constexpr, MASK: tl.constexpr,
              BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_D: tl.constexpr,
              EVEN: tl.constexpr = False):
    """out = softmax(q k^T * scale + mask) v; grid (tiles of Q_LEN, batch x heads).

    q and out: [batch, heads, Q_LEN, HEAD]; k and v: [batch, heads / group, K_LEN, HEAD]; the last
    dimension is contiguous, other strides are in elements. CAUSAL: query i sees keys up to
    i + K_LEN - Q_LEN. MASK "keep": int8 [batch, heads, Q_LEN, K_LEN], 0 hides a key; "add": floats
    added to the scores; "none": `mask` is None. EVEN: K_LEN is a multiple of BLOCK_K. A query that
    sees no key gets 0.
    """
    # The last tiles of a causal product see most keys: they start first.
    tile = tl.num_programs(0) - 1 - tl.program_id(0) if CAUSAL else tl.program_id(0)
    start_q = tile * BLOCK_Q
    batch = (tl.program_id(1) // heads).to(tl.int64)
    head = (tl.program_id(1) % heads).to(tl.int64)
    kv_head = head // group
    rows = start_q + tl.arange(0, BLOCK_Q).to(tl.int64)
    dims = tl.arange(0, BLOCK_D)
    scale = scale * 1.4426950408889634  # log2(e)

    q_base = q + batch * stride_qb + head * stride_qh
    k_rows = k + batch * stride_kb + kv_head * stride_kh
    v_rows = v + batch * stride_vb + kv_head * stride_vh
    m_base = mask
    if MASK != "none":
        m_base = mask + batch * stride_mb + head * stride_mh
    inside = (rows[:, None] < Q_LEN) & (dims[None, :] < HEAD)
    query = tl.load(q_base + rows[:, None] * stride_qt + dims[None, :], mask=inside, other=0.0)

    highest = tl.full((BLOCK_Q,), float("-inf"), dtype=tl.float32)
    total = tl.zeros((BLOCK_Q,), dtype=tl.float32)
    acc = tl.zeros((BLOCK_Q, BLOCK_D), dtype=tl.float32)
    last = K_LEN
    whole = K_LEN
    if CAUSAL:
        last = tl.minimum(K_LEN, tl.maximum(start_q + BLOCK_Q + K_LEN - Q_LEN, 0))
        whole = tl.minimum(K_LEN, tl.maximum(start_q + 1 + K_LEN - Q_LEN, 0))
    whole = whole // BLOCK_K * BLOCK_K
    if MASK != "none":
        whole = 0
    else:
        acc, total, highest = attend(query, acc, total, highest, k_rows, v_rows, m_base, rows, dims,
                                     0, whole, Q_LEN, K_LEN, HEAD, scale, stride_kt, stride_vt,
                                     stride_mq, stride_mk, CAUSAL, MASK, True, BLOCK_K)
    if CAUSAL or MASK != "none" or not EVEN:
        acc, total, highest = attend(query, acc, total, highest, k_rows, v_rows, m_base, rows, dims,
                                     whole, last, Q_LEN, K_LEN, HEAD, scale, stride_kt, stride_vt,
                                     stride_mq, stride_mk, CAUSAL, MASK, False, BLOCK_K)

    inverse = 1.0 / tl.where(total == 0.0, 1.0, total)
    o_tile = (out + batch * stride_ob + head * stride_oh + rows[:, None] * stride_ot
              + dims[None, :])
    tl.store(o_tile, acc * inverse[:, None], mask=inside)
