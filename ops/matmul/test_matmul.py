# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""matmul against float64 (integers exactly): shapes, layouts, types."""

import math

import direct
import numpy as np
import pytest
from backends import assert_close, random_array

SHAPES = [(1, 1, 1), (17, 33, 5), (64, 48, 80), (1, 130, 70), (97, 1, 33), (40, 40, 0)]


@pytest.mark.parametrize("m,n,k", SHAPES)
def test_shapes(backend, m, n, k):
    rng = np.random.default_rng(1)
    a, b = random_array(rng, (m, k)), random_array(rng, (k, n))
    c = np.full((m, n), np.nan, np.float32)
    direct.matmul(a, b, c)
    assert_close(c, a.astype(np.float64) @ b.astype(np.float64), depth=max(k, 1))


@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16", "int8"])
@pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt"])
def test_types_and_layouts(backend, dtype, layout):
    rng = np.random.default_rng(2)
    m, n, k = 45, 37, 50
    a = random_array(rng, (m, k) if layout[0] == "n" else (k, m), dtype)
    b = random_array(rng, (k, n) if layout[1] == "n" else (n, k), dtype)
    a, b = (a if layout[0] == "n" else a.T), (b if layout[1] == "n" else b.T)
    c = np.zeros((m, n), np.int32 if dtype == "int8" else np.float32)
    direct.matmul(a, b, c)
    assert_close(c, a.astype(np.float64) @ b.astype(np.float64), depth=k)


@pytest.mark.parametrize("tile,group", [((16, 64, 16), 1), ((64, 16, 32), 3), ((1, 1, 1), 2)])
def test_same_result_for_any_tile(backend, tile, group):
    rng = np.random.default_rng(3)
    m, n, k = (9, 7, 5) if tile == (1, 1, 1) else (70, 50, 33)
    a, b = random_array(rng, (m, k)), random_array(rng, (k, n))
    c = np.zeros((m, n), np.float32)
    direct.matmul(a, b, c, tile, group)
    assert_close(c, a.astype(np.float64) @ b.astype(np.float64), depth=k)


def test_no_rows(backend):
    c = np.zeros((0, 5), np.float32)
    direct.matmul(np.zeros((0, 4), np.float32), np.zeros((4, 5), np.float32), c)


def wide(x):
    return np.asarray(x).astype(np.float64)


@pytest.mark.parametrize("layout", ["nn", "tt"])
def test_batches(backend, layout):
    rng = np.random.default_rng(4)
    batches, m, n, k = 3, 33, 20, 17
    a, b = random_array(rng, (batches, m, k)), random_array(rng, (batches, k, n))
    if layout == "tt":
        a, b = (np.ascontiguousarray(x.transpose(0, 2, 1)).transpose(0, 2, 1) for x in (a, b))
    c = np.zeros((batches, m, n), np.float32)
    direct.matmul(a, b, c, (16, 16, 16))
    assert_close(c, wide(a) @ wide(b), depth=k)


ACTIVATIONS = {"relu": lambda x: np.maximum(x, 0), "silu": lambda x: x / (1 + np.exp(-x)),
               "gelu": lambda x: x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2))),
               "gelu_tanh": lambda x: x * 0.5 * (1 + np.tanh(math.sqrt(2 / math.pi)
                                                             * (x + 0.044715 * x**3)))}


@pytest.mark.parametrize("activation", ["none", *ACTIVATIONS])
def test_what_follows_a_product(backend, activation):
    rng = np.random.default_rng(5)
    m, n, k = 35, 44, 30
    a, b, residual = (random_array(rng, s, "bf16") for s in ((m, k), (k, n), (n, m)))
    bias = random_array(rng, (n,), "bf16")
    c = np.zeros((m, n), np.float32)
    direct.matmul(a, b, c, bias=bias, residual=residual.T, activation=activation)
    expected = wide(a) @ wide(b) + wide(bias)
    assert_close(c, ACTIVATIONS.get(activation, lambda x: x)(expected) + wide(residual).T, depth=k)


@pytest.mark.parametrize("dtype", ["fp8e4nv", "int8"])
@pytest.mark.parametrize("rowwise", [False, True])
def test_scales(backend, dtype, rowwise):
    if backend == "cpu" and dtype == "fp8e4nv":
        pytest.skip("fp8 values are not supported on the CPU target")
    rng = np.random.default_rng(6)
    m, n, k = 40, 33, 64
    a, b = random_array(rng, (m, k), dtype), random_array(rng, (k, n), dtype)
    scale_a = (rng.random(m if rowwise else 1) + 0.5).astype(np.float32)
    scale_b = (rng.random(n if rowwise else 1) + 0.5).astype(np.float32)
    c = np.zeros((m, n), np.float32)
    direct.matmul(a, b, c, scale_a=scale_a, scale_b=scale_b)
    assert_close(c, (wide(a) @ wide(b)) * wide(scale_a)[:, None] * wide(scale_b), depth=k)


# 5 steps: parts of equal and of different length, and parts that are left without steps.
@pytest.mark.parametrize("parts,instances", [(2, None), (3, 4), (4, 1), (5, 7), (7, 40)])
def test_parts_along_the_depth(backend, parts, instances):
    rng = np.random.default_rng(7)
    m, n, k = 40, 33, 70
    a, b = random_array(rng, (m, k)), random_array(rng, (k, n))
    c = np.zeros((m, n), np.float32)
    direct.matmul(a, b, c, (16, 32, 16), parts=parts, instances=instances,
                  bias=np.ones(n, np.float32))
    assert_close(c, wide(a) @ wide(b) + 1, depth=k)


@pytest.mark.parametrize("whole,parts,instances", [(1, 2, None), (4, 3, 4), (5, 2, 1), (6, 5, 40)])
def test_parts_of_the_last_tiles(backend, whole, parts, instances):
    """7 tiles, of which the first ones are whole."""
    rng = np.random.default_rng(whole)
    a, b = random_array(rng, (20, 70), "fp32"), random_array(rng, (70, 200), "fp32")
    c, bias = np.full((20, 200), np.nan, np.float32), random_array(rng, (200,), "fp32")
    direct.matmul(a, b, c, (32, 32, 16), whole=whole, parts=parts, instances=instances, bias=bias)
    assert_close(c, wide(a) @ wide(b) + bias, depth=70)


def test_parts_give_the_same_bits(backend):
    rng = np.random.default_rng(8)
    a, b = random_array(rng, (2, 64, 200), "bf16"), random_array(rng, (2, 200, 32), "bf16")
    first, second = np.zeros((2, 2, 64, 32), np.float32)
    for c in (first, second):
        direct.matmul(a, b, c, (32, 32, 16), parts=5)
    assert (first == second).all()
    assert_close(first, wide(a) @ wide(b), depth=200)


@pytest.mark.parametrize("layout", ["nn", "nt"])
@pytest.mark.parametrize("m,rows,columns,block", [(70, 64, 48, 64), (70, 64, 80, 128),
                                                  (70, 64, 224, 256), (1, 8, 64, 64), (16, 16, 48, 64),
                                                  (40, 24, 128, 128)])
@pytest.mark.parametrize("parts", [1, 2])
def test_tiles_of_any_size(backend, m, rows, columns, block, layout, parts):
    rng = np.random.default_rng(9)
    n, k = 250, 136
    a = random_array(rng, (m, k), "bf16")
    b = random_array(rng, (k, n) if layout == "nn" else (n, k), "bf16")
    b = b if layout == "nn" else b.T
    c = np.zeros((m, n), np.float32)
    direct.matmul(a, b, c, (64, block, 64), rows=rows, columns=columns, parts=parts)
    assert_close(c, wide(a) @ wide(b), depth=k)
