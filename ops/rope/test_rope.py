# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""rope against rotations of complex numbers in float64: both orders of pairs, positions, in place."""

import direct
import numpy as np
import pytest
from backends import numpy_type, random_array
from test_errors import fails

import tilery as ty

TOLERANCE = {"fp32": 1e-5, "fp16": 4e-3, "bf16": 3e-2}


def tables(positions, half, dtype="fp32"):
    angles = np.arange(positions)[:, None] * 10000.0**(-np.arange(half) / half)[None, :]
    return np.cos(angles).astype(numpy_type(dtype)), np.sin(angles).astype(numpy_type(dtype))


def reference(x, cos, sin, positions, interleaved):
    wide = x.astype(np.float64)
    half = x.shape[-1] // 2
    pairs = wide.reshape(*x.shape[:-1], half, 2) if interleaved else \
        np.stack([wide[..., :half], wide[..., half:]], axis=-1)
    turn = cos.astype(np.float64)[positions] + 1j * sin.astype(np.float64)[positions]
    turned = (pairs[..., 0] + 1j * pairs[..., 1]) * turn[..., None, :, :]
    parts = [turned.real, turned.imag]
    return np.stack(parts, axis=-1).reshape(x.shape) if interleaved else \
        np.concatenate(parts, axis=-1)


def close(actual, expected, dtype="fp32"):
    np.testing.assert_allclose(actual.astype(np.float64), expected, rtol=TOLERANCE[dtype],
                               atol=TOLERANCE[dtype])


def data(dtype="fp32", batch=2, heads=3, tokens=13, head=16):
    return random_array(np.random.default_rng(tokens), (batch, heads, tokens, head), dtype)


@pytest.mark.parametrize("dtype,table", [("fp32", "fp32"), ("fp16", "fp16"), ("bf16", "fp32")])
@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("heads,tokens,head", [(1, 1, 2), (3, 13, 16), (5, 9, 80)])
def test_types(backend, dtype, table, interleaved, heads, tokens, head):
    q = data(dtype, heads=heads, tokens=tokens, head=head)
    cos, sin = tables(tokens, head // 2, table)
    out = np.full_like(q, np.nan)
    direct.rope(q, out, cos, sin, interleaved=interleaved)
    close(out, reference(q, cos, sin, np.arange(tokens), interleaved), dtype)


@pytest.mark.parametrize("kind", [np.int32, np.int64])
@pytest.mark.parametrize("each", [False, True])
@pytest.mark.parametrize("interleaved", [False, True])
def test_positions(backend, kind, each, interleaved):
    q, k = data(), data(heads=2)
    shape = q.shape[:1] + q.shape[2:3] if each else q.shape[2:3]
    positions = np.random.default_rng(1).integers(0, 40, shape).astype(kind)
    cos, sin = tables(40, 8)
    out, k_out = np.full_like(q, np.nan), np.full_like(k, np.nan)
    direct.rope(q, out, cos, sin, k, k_out, positions, interleaved)
    close(out, reference(q, cos, sin, positions, interleaved))
    close(k_out, reference(k, cos, sin, positions, interleaved))


def test_positions_that_the_tables_do_not_have(backend):
    q = data(batch=1, tokens=4)
    cos, sin = tables(5, 8)
    out = np.zeros_like(q)
    direct.rope(q, out, cos, sin, positions=np.array([0, 5, -1, 4]))
    assert np.isnan(out[:, :, 1:3]).all()
    close(out[:, :, ::3], reference(q[:, :, ::3], cos, sin, np.array([0, 4]), False))


@pytest.mark.parametrize("interleaved", [False, True])
def test_in_place(backend, interleaved):
    q = data(tokens=20)
    cos, sin = tables(20, 8)
    expected = reference(q, cos, sin, np.arange(20), interleaved)
    direct.rope(q, q, cos, sin, interleaved=interleaved)
    close(q, expected)


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
@pytest.mark.parametrize("interleaved", [False, True])
def test_host_on_the_parts_of_one_product(host, dtype, interleaved):
    """q, k and v side by side in the rows of one array; q and k are rotated where they are."""
    batch, tokens, heads, kv_heads, head = 2, 21, 6, 2, 32
    rng = np.random.default_rng(4)
    qkv = random_array(rng, (batch, tokens, heads + 2 * kv_heads, head), dtype)
    before = qkv.copy()
    cos, sin = tables(50, head // 2)
    positions = rng.integers(0, 50, (batch, tokens)).astype(np.int64)

    def parts(x):
        x = x.swapaxes(1, 2)
        return x[:, :heads], x[:, heads:heads + kv_heads]
    q, k = parts(qkv)
    ty.ops.rope(q, q, cos, sin, k, k, positions, interleaved=interleaved)
    for turned, original in zip(parts(qkv), parts(before)):
        close(turned, reference(original, cos, sin, positions, interleaved), dtype)
    np.testing.assert_array_equal(qkv[:, :, heads + kv_heads:], before[:, :, heads + kv_heads:])


def test_host_on_the_first_dimensions_of_heads(host):
    q = data(head=64)
    before = q.copy()
    cos, sin = tables(13, 8)
    ty.ops.rope(q[..., :16], q[..., :16], cos, sin)
    close(q[..., :16], reference(before[..., :16], cos, sin, np.arange(13), False))
    np.testing.assert_array_equal(q[..., 16:], before[..., 16:])


@pytest.mark.parametrize("batch,heads,tokens", [(1, 1, 1), (5, 40, 1), (1, 3, 100), (0, 2, 4), (2, 2, 0)])
def test_host(host, batch, heads, tokens):
    q = data(batch=batch, heads=heads, tokens=tokens, head=64)
    cos, sin = tables(tokens, 32)
    out = np.full_like(q, np.nan)
    ty.ops.rope(q, out, cos, sin)
    close(out, reference(q, cos, sin, np.arange(tokens), False))


def test_checks(compiled):
    q = data()
    cos, sin = tables(13, 8)
    out = np.empty_like(q)
    with fails(ty.LaunchError, r"rope: 'cos' has shape \[13, 7\]", "half the head dimension of 'q'"):
        ty.ops.rope(q, out, cos[:, :7], sin)
    with fails(ty.LaunchError, "'cos' has 12 positions for 13 tokens; pass 'positions' or longer tables"):
        ty.ops.rope(q, out, cos[:12], sin[:12])
    with fails(ty.LaunchError, "the head dimension of 'q' is 15; pairs need an even one"):
        ty.ops.rope(q[..., :15], out[..., :15], cos, sin)
    wide, table = np.zeros((1, 1, 1, 2**21 + 2), np.float32), np.zeros((1, 2**20 + 1), np.float32)
    with fails(ty.LaunchError, "the head dimension of 'q' is 2097154, at most 2097152 is possible"):
        ty.ops.rope(wide, np.zeros_like(wide), table, table)
    with fails(ty.LaunchError, "'k' and 'k_out' come together"):
        ty.ops.rope(q, out, cos, sin, q)
    with fails(ty.LaunchError, r"'positions' has shape \[12\]", "tokens of 'q'"):
        ty.ops.rope(q, out, cos, sin, None, None, np.zeros(12, np.int32))
    with fails(ty.LaunchError, "'q_out' shares memory with 'q'"):
        ty.ops.rope(q[:, :, 1:], q[:, :, :-1], cos, sin)
    square = np.zeros((1, 3, 3, 16), np.float32)
    with fails(ty.LaunchError, "'q_out' is at the address of 'q' but has other strides"):
        ty.ops.rope(square, square.swapaxes(1, 2), cos, sin)
