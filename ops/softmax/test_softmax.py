# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""softmax against float64."""

import direct
import numpy as np
import pytest
from backends import assert_close, numpy_type, random_array


def reference(x):
    x = x.astype(np.float64)
    with np.errstate(invalid="ignore"):
        weights = np.exp(x - x.max(axis=-1, keepdims=True))
        return weights / weights.sum(axis=-1, keepdims=True)


@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16"])
@pytest.mark.parametrize("rows,n", [(1, 1), (3, 17), (2, 1000), (2, 1024), (2, 2880), (1, 3072)])
def test_softmax(backend, dtype, rows, n):
    x = random_array(np.random.default_rng(n), (rows, n), dtype, scale=4)
    y = np.zeros((rows, n), numpy_type(dtype))
    direct.softmax(x, y)
    assert_close(y, reference(x))


@pytest.mark.parametrize("at_once,rows,n", [(4, 9, 16), (2, 3, 100), (8, 3, 1024)])
def test_several_rows_an_instance(backend, at_once, rows, n):
    x = random_array(np.random.default_rng(n), (rows, n), "bf16")
    y = np.zeros((rows + 1, n), x.dtype)[:rows]
    direct.softmax(x, y, at_once)
    assert_close(y, reference(x))
    assert not y.base[rows:].any()


def test_infinities(backend):
    x = np.random.default_rng(1).standard_normal((3, 1500)).astype(np.float32)
    x[0, :1100] = -np.inf  # the whole first block
    x[1, 3] = -np.inf
    x[2] = -np.inf
    y = np.zeros_like(x)
    direct.softmax(x, y)
    assert_close(y, reference(x))


def test_rows_with_a_stride(backend):
    x = np.random.default_rng(2).standard_normal((4, 64)).astype(np.float32)[:, :33]
    y = np.zeros((4, 40), np.float32)[:, :33]
    direct.softmax(x, y)
    assert_close(y, reference(x))
