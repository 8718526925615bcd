# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Cases from the field, section C, as far as the operators' own tests do not hold them.

Cases 41, 42, 43, 53 and 57 are in ops/ag_gemm, ops/gemm_rs, ops/rms_norm and ops/all_reduce.
"""

import direct
import numpy as np
import pytest
from backends import assert_close, random_array
from worlds import data_of, run

import tilery as ty

HIDDEN = [1536, 2048, 2816, 2880, 3072, 3584, 3840, 4096, 5120, 6144, 7168, 12288, 13, 129]


@pytest.mark.parametrize("hidden", HIDDEN)
def test_45_any_hidden_size(backend, hidden):
    x = random_array(np.random.default_rng(hidden), (2, hidden))
    y = np.zeros_like(x)
    direct.softmax(x, y)
    weights = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    assert_close(y, weights / weights.sum(axis=1, keepdims=True))


@pytest.mark.parametrize("n", [1, 1000, 5_000_000])
def test_49_messages_beyond_16_megabytes(backend, n):
    """No bound on the size of a message: 5,000,000 floats are 20 MB."""
    if backend == "interpret" and n > 10_000:
        n = 200_000

    def body():
        ws = direct.Workspace("fp32", n, 1)
        x, out = np.full(n, ty.rank() + 1, np.float32), np.zeros(n, np.float32)
        direct.all_reduce(ws, x, out, "one_shot")
        return float(out.min()), float(out.max())
    assert run(body, 2, heap_bytes=(1 << 20) + 32 * n) == [(3.0, 3.0)] * 2


@pytest.mark.parametrize("tokens", [0, 1, 7, 9, 128])
@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_50_and_51_few_tokens_and_empty_ranks(backend, tokens, ranks):
    """Tokens that do not divide by the ranks: the last ranks have fewer, or none."""
    def body():
        own = direct.rows_of(tokens, ty.rank(), ty.num_ranks())
        n = max(1, ty.cdiv(tokens, ty.num_ranks())) * 8
        ws = direct.Workspace("fp32", n, 1)
        x = data_of(0, (tokens, 8))[own].copy()
        out = np.zeros((tokens, 8), np.float32)
        if tokens:
            direct.all_gather(ws, x, out, n=n)
        return out
    for out in run(body, ranks):
        np.testing.assert_array_equal(out, data_of(0, (tokens, 8)))


def test_58_float32_is_not_rounded_to_fewer_bits(backend):
    """An fp32 product in the reference mode is within float32's own rounding."""
    rng = np.random.default_rng(58)
    a, b = random_array(rng, (32, 512)), random_array(rng, (512, 32))
    c = np.zeros((32, 32), np.float32)
    direct.matmul(a, b, c)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    assert np.abs(c - exact).max() < 2e-4 < np.abs(exact).max()
