# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Rotary position embedding of queries, and of keys in the same launch; in place or not."""

import tilery as ty
import tilery.language as tl


@ty.jit
def rotate(x, out, cos, sin, heads, tokens, dims, HEADS, TOKENS, HALF, stride_xh, stride_xt,
           stride_oh, stride_ot, INTERLEAVED: tl.constexpr, BLOCK_D: tl.constexpr):
    """Rotates a tile of heads x tokens; `cos` and `sin` are tiles [tokens, dims]."""
    real = ((heads < HEADS)[:, None] & (tokens < TOKENS)[None, :])[:, :, None]
    source = x + (heads * stride_xh)[:, None, None] + (tokens * stride_xt)[None, :, None]
    target = out + (heads * stride_oh)[:, None, None] + (tokens * stride_ot)[None, :, None]
    if INTERLEAVED:
        both = tl.arange(0, 2 * BLOCK_D)[None, None, :]
        known = real & (both < 2 * HALF)
        pairs = tl.load(source + both, mask=known, other=0.0).to(tl.float32)
        left, right = tl.split(tl.reshape(pairs, (heads.shape[0], tokens.shape[0], BLOCK_D, 2)))
        turned = tl.join(left * cos - right * sin, right * cos + left * sin)
        tl.store(target + both, tl.reshape(turned, pairs.shape), mask=known)
    else:
        at = dims[None, None, :]
        known = real & (at < HALF)
        left = tl.load(source + at, mask=known, other=0.0).to(tl.float32)
        right = tl.load(source + HALF + at, mask=known, other=0.0).to(tl.float32)
        tl.store(target + at, left * cos - right * sin, mask=known)
        tl.store(target + HALF + at, right * cos + left * sin, mask=known)


@ty.jit
def rope(q, q_out, k, k_out, cos, sin, positions, POSITIONS, TOKENS, Q_HEADS, K_HEADS, HALF,
         stride_qb, stride_qh, stride_qt, stride_ub, stride_uh, stride_ut,
         stride_kb, stride_kh, stride_kt, stride_wb, stride_wh, stride_wt,
         stride_cos, stride_sin, stride_pb, stride_pt, INTERLEAVED: tl.constexpr,
         BLOCK_H: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_D: tl.constexpr):
    """Rotates the pairs of each head by the angle of its token's position, in float32.

    q and q_out (strides u): [batch, Q_HEADS, TOKENS, 2 HALF]; k and k_out (strides w) the same with
    K_HEADS, or None. cos and sin: [POSITIONS, HALF]. positions: integers [batch, TOKENS], or None:
    token i is at position i. A position that is not in the tables makes nan. A pair is (i, i + HALF); with INTERLEAVED (2 i, 2 i + 1). Grid: (tiles
    of TOKENS, tiles of Q_HEADS + tiles of K_HEADS, batch). An output may be its input.
    """
    tokens = (tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T)).to(tl.int64)
    dims = tl.arange(0, BLOCK_D)
    batch = tl.program_id(2).to(tl.int64)
    place = tokens
    if positions is not None:
        place = tl.load(positions + batch * stride_pb + tokens * stride_pt, mask=tokens < TOKENS,
                        other=0).to(tl.int64)
    known = (tokens < TOKENS)[:, None] & (dims < HALF)[None, :]
    if positions is not None:
        known = known & ((place >= 0) & (place < POSITIONS))[:, None]
    c = tl.load(cos + place[:, None] * stride_cos + dims[None, :], mask=known, other=float("nan"))
    s = tl.load(sin + place[:, None] * stride_sin + dims[None, :], mask=known, other=float("nan"))
    c = c.to(tl.float32)[None, :, :]
    s = s.to(tl.float32)[None, :, :]
    q_tiles = tl.cdiv(Q_HEADS, BLOCK_H)
    first = tl.program_id(1) * BLOCK_H
    lanes = tl.arange(0, BLOCK_H).to(tl.int64)
    if k is None:
        rotate(q + batch * stride_qb, q_out + batch * stride_ub, c, s, first + lanes, tokens, dims,
               Q_HEADS, TOKENS, HALF, stride_qh, stride_qt, stride_uh, stride_ut, INTERLEAVED,
               BLOCK_D)
    elif tl.program_id(1) < q_tiles:
        rotate(q + batch * stride_qb, q_out + batch * stride_ub, c, s, first + lanes, tokens, dims,
               Q_HEADS, TOKENS, HALF, stride_qh, stride_qt, stride_uh, stride_ut, INTERLEAVED,
               BLOCK_D)
    else:
        rotate(k + batch * stride_kb, k_out + batch * stride_wb, c, s,
               first - q_tiles * BLOCK_H + lanes, tokens, dims, K_HEADS, TOKENS, HALF, stride_kh,
               stride_kt, stride_wh, stride_wt, INTERLEAVED, BLOCK_D)
