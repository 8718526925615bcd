# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""matmul against float64 (integers exactly): shapes, layouts, types."""

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
