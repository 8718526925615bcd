# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Attention forward without the score matrix in memory (flash attention)."""

import tilery as ty
import tilery.language as tl


@ty.jit
def kernel(q, k, v, mask, out, heads, group, Q_LEN, K_LEN, HEAD, scale,
              stride_qb, stride_qh, stride_qt, stride_kb, stride_kh, stride_kt,
              stride_vb, stride_vh, stride_vt, stride_ob, stride_oh, stride_ot,
              stride_mb, stride_mh, stride_mq, stride_mk,
              CAUSAL: tl.constexpr, MASK: tl.constexpr,
              BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_D: tl.constexpr):
    """out = softmax(q k^T * scale + mask) v; grid (tiles of Q_LEN, batch x heads).

    q and out: [batch, heads, Q_LEN, HEAD]; k and v: [batch, heads / group, K_LEN, HEAD]; the last
    dimension is contiguous, other strides are in elements. CAUSAL: query i sees keys up to
    i + K_LEN - Q_LEN. MASK "keep": int8 [batch, heads, Q_LEN, K_LEN], 0 hides a key; "add": floats
    added to the scores; "none": `mask` is None. A query that sees no key gets 0.
    """
    start_q = tl.program_id(0) * BLOCK_Q
    batch = (tl.program_id(1) // heads).to(tl.int64)
    head = (tl.program_id(1) % heads).to(tl.int64)
    kv_head = head // group
    rows = start_q + tl.arange(0, BLOCK_Q).to(tl.int64)
    dims = tl.arange(0, BLOCK_D)
    keys = tl.arange(0, BLOCK_K).to(tl.int64)

    q_base = q + batch * stride_qb + head * stride_qh
    k_base = k + batch * stride_kb + kv_head * stride_kh
    v_base = v + batch * stride_vb + kv_head * stride_vh
    inside = (rows[:, None] < Q_LEN) & (dims[None, :] < HEAD)
    query = tl.load(q_base + rows[:, None] * stride_qt + dims[None, :], mask=inside, other=0.0)

    highest = tl.full((BLOCK_Q,), float("-inf"), dtype=tl.float32)
    total = tl.zeros((BLOCK_Q,), dtype=tl.float32)
    acc = tl.zeros((BLOCK_Q, BLOCK_D), dtype=tl.float32)
    last = K_LEN
    if CAUSAL:
        last = tl.minimum(K_LEN, tl.maximum(start_q + BLOCK_Q + K_LEN - Q_LEN, 0))
    for start in range(0, last, BLOCK_K):
        at = start + keys
        known = (at[:, None] < K_LEN) & (dims[None, :] < HEAD)
        key = tl.load(k_base + at[:, None] * stride_kt + dims[None, :], mask=known, other=0.0)
        scores = tl.dot(query, tl.trans(key), input_precision="ieee") * scale
        visible = (rows[:, None] < Q_LEN) & (at[None, :] < K_LEN)
        if CAUSAL:
            visible = visible & (at[None, :] <= rows[:, None] + (K_LEN - Q_LEN))
        if MASK != "none":
            m_tile = (mask + batch * stride_mb + head * stride_mh + rows[:, None] * stride_mq
                      + at[None, :] * stride_mk)
            if MASK == "keep":
                visible = visible & (tl.load(m_tile, mask=visible, other=0) != 0)
            else:
                scores += tl.load(m_tile, mask=visible, other=0.0).to(tl.float32)
        scores = tl.where(visible, scores, float("-inf"))

        peak = tl.maximum(highest, tl.max(scores, axis=1))
        shift = tl.where(peak == float("-inf"), 0.0, peak)
        weights = tl.exp(scores - shift[:, None])
        decay = tl.exp(highest - shift)
        total = total * decay + tl.sum(weights, axis=1)
        value = tl.load(v_base + at[:, None] * stride_vt + dims[None, :], mask=known, other=0.0)
        acc = acc * decay[:, None]
        acc = tl.dot(weights.to(value.dtype), value, acc, input_precision="ieee")
        highest = peak

    safe = tl.where(total == 0.0, 1.0, total)
    o_tile = (out + batch * stride_ob + head * stride_oh + rows[:, None] * stride_ot
              + dims[None, :])
    tl.store(o_tile, acc / safe[:, None], mask=inside)
