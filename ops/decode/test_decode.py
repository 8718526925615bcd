# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""decode against float64: grouped heads, lengths, splits, strides, what lies behind the keys."""

import direct
import numpy as np
import pytest
from backends import numpy_type, random_array
from numpy.lib.stride_tricks import as_strided
from test_errors import fails

import tilery as ty

TOLERANCE = {"fp32": 2e-5, "fp16": 5e-3, "bf16": 4e-2}


def reference(q, k, v, lengths, causal):
    """Each sequence by itself, over its own keys only."""
    out = np.zeros(q.shape)
    tokens, group = q.shape[2], q.shape[1] // k.shape[1]
    for b, length in enumerate(lengths):
        for h in range(q.shape[1]):
            keys, values = (x[b, h // group, :length].astype(np.float64) for x in (k, v))
            for t in range(tokens):
                seen = max(length - tokens + t + 1, 0) if causal else length
                if seen:
                    scores = keys[:seen] @ q[b, h, t].astype(np.float64) * q.shape[3]**-0.5
                    weights = np.exp(scores - scores.max())
                    out[b, h, t] = weights @ values[:seen] / weights.sum()
    return out


def data(dtype="fp32", batch=2, kv_heads=2, group=3, tokens=1, head=16, keys=50, lengths=None):
    """q, k, v, out; behind a sequence's keys the cache holds nan."""
    rng = np.random.default_rng(keys * 7 + tokens)
    q = random_array(rng, (batch, kv_heads * group, tokens, head), dtype)
    k, v = (random_array(rng, (batch, kv_heads, keys, head), dtype) for _ in range(2))
    for b, length in enumerate([] if lengths is None else lengths):
        k[b, :, length:] = v[b, :, length:] = np.nan
    return q, k, v, np.full(q.shape, np.nan, numpy_type(dtype))


def check(q, k, v, out, lengths, causal=False):
    lengths = [k.shape[2]] * len(q) if lengths is None else lengths
    tolerance = TOLERANCE[{"float32": "fp32", "float16": "fp16"}.get(q.dtype.name, "bf16")]
    np.testing.assert_allclose(out.astype(np.float64), reference(q, k, v, lengths, causal),
                               rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16"])
@pytest.mark.parametrize("splits", [1, 3])
def test_types(backend, dtype, splits):
    q, k, v, out = data(dtype)
    direct.decode(q, k, v, out, splits=splits)
    check(q, k, v, out, None)


@pytest.mark.parametrize("splits", [1, 2, 8])
@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_lengths(backend, splits, kind):
    """Shorter than a tile, a whole number of tiles, none at all, and all that the cache has."""
    lengths = np.array([5, 16, 0, 32, 49, 50], kind)
    q, k, v, out = data(batch=6, lengths=lengths)
    direct.decode(q, k, v, out, lengths, splits=splits)
    check(q, k, v, out, lengths)


@pytest.mark.parametrize("splits", [1, 2])
def test_lengths_that_the_cache_does_not_have(backend, splits):
    lengths = np.array([51, 50, -3, 0], np.int32)
    q, k, v, out = data(batch=4)
    direct.decode(q, k, v, out, lengths, splits=splits)
    assert np.isnan(out[::2]).all()
    check(*(x[1::2] for x in (q, k, v, out)), [50, 0])


@pytest.mark.parametrize("tokens,causal", [(2, True), (5, False), (5, True), (16, True)])
@pytest.mark.parametrize("splits", [1, 3])
def test_several_tokens(backend, tokens, causal, splits):
    lengths = np.array([3, 40], np.int32)
    q, k, v, out = data(tokens=tokens, group=2, lengths=lengths)
    direct.decode(q, k, v, out, lengths, causal, splits)
    check(q, k, v, out, lengths, causal)


@pytest.mark.parametrize("group,kv_heads,head,pieces", [
    (1, 2, 8, 1), (8, 1, 24, 2), (5, 2, 64, 8), (3, 1, 130, 1), (3, 1, 256, 4)])
def test_grouped_heads(backend, group, kv_heads, head, pieces):
    q, k, v, out = data(group=group, kv_heads=kv_heads, head=head)
    direct.decode(q, k, v, out, splits=2, instances=2, pieces=pieces)
    check(q, k, v, out, None)


@pytest.mark.parametrize("splits", [2, 3, 7, 33, 128])
def test_any_number_of_splits(backend, splits):
    """Also more than a sequence has tiles, of which 600 keys are 38."""
    lengths = np.array([600, 0, 1, 16, 17, 590, 300], np.int32)
    q, k, v, out = data(batch=7, kv_heads=1, tokens=2, keys=600, lengths=lengths)
    direct.decode(q, k, v, out, lengths, causal=True, splits=splits, instances=40)
    check(q, k, v, out, lengths, causal=True)


def test_a_cache_with_tokens_before_heads(backend):
    q, k, v, out = data()
    k, v = (np.ascontiguousarray(x.swapaxes(1, 2)).swapaxes(1, 2) for x in (k, v))
    direct.decode(q, k, v, out, splits=2)
    check(q, k, v, out, None)


def test_the_same_bits_again(backend):
    q, k, v, out = data(keys=100)
    again = np.empty_like(out)
    direct.decode(q, k, v, out, splits=4, instances=1)
    direct.decode(q, k, v, again, splits=4, instances=5)
    np.testing.assert_array_equal(out, again)


@pytest.mark.parametrize("dtype,head", [("fp32", 24), ("bf16", 64), ("bf16", 128), ("fp16", 256)])
@pytest.mark.parametrize("keys,splits", [(300, 0), (300, 1), (1000, 0), (1000, 7)])
def test_host(host, dtype, head, keys, splits):
    lengths = np.array([keys, keys // 3, 70], np.int32)
    q, k, v, out = data(dtype, batch=3, group=4, head=head, keys=keys, lengths=lengths)
    ty.ops.decode(q, k, v, out, lengths, splits=splits)
    check(q, k, v, out, lengths)


@pytest.mark.parametrize("kv_heads,group,tokens,head", [(1, 16, 8, 128), (2, 4, 3, 256), (2, 8, 1, 64)])
@pytest.mark.parametrize("splits", [2, 3, 33, 128])
def test_host_of_any_number_of_splits(host, kv_heads, group, tokens, head, splits):
    lengths = np.array([0, 2, 64, 65, 1000, 700], np.int32)
    q, k, v, out = data("bf16", 6, kv_heads, group, tokens, head, 1000, lengths)
    ty.ops.decode(q, k, v, out, lengths, causal=True, splits=splits)
    check(q, k, v, out, lengths, causal=True)


def test_host_again_and_again(host):
    """Calls find the counters of those before them at 0, also when matmul used them in between."""
    q, k, v, out = data("fp32", batch=3, group=4, head=64, keys=500)
    a, b = np.ones((32, 512), np.float32), np.ones((512, 32), np.float32)
    results = []
    for splits in (4, 128, 3, 4):
        c = np.empty((32, 32), np.float32)
        ty.ops.matmul(a, b, c, parts=4)
        assert (c == 512).all()
        out[:] = np.nan
        ty.ops.decode(q, k, v, out, splits=splits)
        check(q, k, v, out, None)
        results.append(out.copy())
    np.testing.assert_array_equal(results[0], results[-1])


@pytest.mark.parametrize("tokens,causal", [(1, False), (4, True)])
def test_host_with_more_sequences_than_processors(host, tokens, causal):
    lengths = (np.arange(41) * 37 % 301).astype(np.int32)
    q, k, v, out = data("bf16", 41, kv_heads=4, group=2, tokens=tokens, head=64, keys=300,
                        lengths=lengths)
    ty.ops.decode(q, k, v, out, lengths, causal=causal)
    check(q, k, v, out, lengths, causal)


@pytest.mark.parametrize("tokens", [1, 3])
def test_host_without_lengths(host, tokens):
    q, k, v, out = data("bf16", tokens=tokens, head=64, keys=200)
    ty.ops.decode(q, k, v, out, causal=True)
    check(q, k, v, out, None, causal=True)


def test_host_of_one_token_without_its_dimension(host):
    q, k, v, out = data("fp16", head=64, keys=200)
    ty.ops.decode(q[:, :, 0], k, v, out[:, :, 0], splits=4)
    check(q, k, v, out, None)


def test_checks(compiled):
    q, k, v, out = data()
    with fails(ty.LaunchError, r"decode: 'out' has shape \[2, 6, 1, 15\]", "must be 16", "as of 'q'"):
        ty.ops.decode(q, k, v, out[..., :15])
    with fails(ty.LaunchError, "decode: 6 heads of 'q' are no multiple of the 4 heads of 'k'"):
        ty.ops.decode(q, np.zeros((2, 4, 9, 16), "f4"), np.zeros((2, 4, 9, 16), "f4"), out)
    with fails(ty.LaunchError, r"'lengths' has shape \[3\]", "batch of 'q'"):
        ty.ops.decode(q, k, v, out, np.zeros(3, np.int32))
    with fails(ty.LaunchError, "option 'splits' is 129, at most 128 can be combined"):
        ty.ops.decode(q, k, v, out, splits=129)
    with fails(ty.LaunchError, "option 'splits' is -1, needs 1 or more"):
        ty.ops.decode(q, k, v, out, splits=-1)
    long = np.zeros((2, 6, 50, 16), np.float32)
    with fails(ty.LaunchError, "150 queries share a head of the cache", "3 heads of 50 tokens",
               "at most 128 can; use attention"):
        ty.ops.decode(long, k, v, np.zeros_like(long))
    with fails(ty.LaunchError, "'out' shares memory with 'q'"):
        ty.ops.decode(q, k, v, q)
    many = [np.zeros((65537, 1, 1, 1), np.float32) for _ in range(4)]
    with fails(ty.LaunchError, "option 'splits' is 2 for 65537 sequences and heads of the cache",
               "possible for 65536 at most"):
        ty.ops.decode(*many, splits=2)
    wide = [np.zeros((1, 1, 1, 65537), np.float32) for _ in range(4)]
    with fails(ty.LaunchError, "the head dimension of 'q' is 65537, at most 65536 is possible"):
        ty.ops.decode(*wide)
    endless = as_strided(k, (2, 2, 2**30 + 1, 16), (*k.strides[:2], 0, 4))
    with fails(ty.LaunchError, r"'k' has 1073741825 keys, at most 2\^30 can be numbered"):
        ty.ops.decode(q, endless, endless, out)
