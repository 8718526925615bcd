# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""attention against float64: causal, grouped heads, odd lengths, masks."""

import direct
import numpy as np
import pytest
from backends import numpy_type, random_array


def reference(q, k, v, mask=None, causal=False):
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    k, v = (np.repeat(x, q.shape[1] // x.shape[1], axis=1) for x in (k, v))
    scores = q @ k.swapaxes(-1, -2) * q.shape[-1]**-0.5
    q_len, k_len = scores.shape[-2:]
    if causal:
        visible = np.arange(k_len)[None, :] <= np.arange(q_len)[:, None] + k_len - q_len
        scores = np.where(visible, scores, -np.inf)
    if mask is not None:
        scores = np.where(mask != 0, scores, -np.inf) if mask.dtype == np.int8 else scores + mask
    peak = scores.max(axis=-1, keepdims=True)
    weights = np.exp(scores - np.where(np.isinf(peak), 0, peak))
    total = weights.sum(axis=-1, keepdims=True)
    return weights @ v / np.where(total == 0, 1, total)


TOLERANCE = {"fp32": 2e-5, "fp16": 5e-3, "bf16": 4e-2}


def check(dtype="fp32", batch=1, heads=2, kv_heads=2, q_len=33, k_len=33, head=16, mask=None,
          causal=False):
    rng = np.random.default_rng(q_len * 7 + k_len)
    q = random_array(rng, (batch, heads, q_len, head), dtype)
    k = random_array(rng, (batch, kv_heads, k_len, head), dtype)
    v = random_array(rng, (batch, kv_heads, k_len, head), dtype)
    out = np.full(q.shape, np.nan, numpy_type(dtype))
    direct.attention(q, k, v, out, mask, causal)
    np.testing.assert_allclose(out.astype(np.float64), reference(q, k, v, mask, causal),
                               rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16"])
@pytest.mark.parametrize("causal", [False, True])
def test_types(backend, dtype, causal):
    check(dtype, causal=causal)


@pytest.mark.parametrize("q_len,k_len", [(1, 1), (1, 40), (17, 17), (50, 20), (20, 50)])
@pytest.mark.parametrize("causal", [False, True])
def test_lengths(backend, q_len, k_len, causal):
    check(q_len=q_len, k_len=k_len, causal=causal)


@pytest.mark.parametrize("heads,kv_heads,head", [(4, 1, 8), (6, 3, 24), (2, 2, 64)])
def test_grouped_heads(backend, heads, kv_heads, head):
    check(batch=2, heads=heads, kv_heads=kv_heads, head=head, causal=True, q_len=19, k_len=19)


@pytest.mark.parametrize("shape", [(1, 1, 21, 30), (2, 1, 21, 30), (2, 3, 21, 30)])
@pytest.mark.parametrize("kind", ["keep", "add"])
def test_masks(backend, shape, kind):
    rng = np.random.default_rng(5)
    mask = (rng.random(shape) < 0.6).astype(np.int8)
    mask[..., 4, :] = 0  # a query that sees nothing gets zeros
    if kind == "add":
        mask = rng.standard_normal(shape).astype(np.float32)
    check(batch=2, heads=3, kv_heads=3, q_len=21, k_len=30, mask=mask)
