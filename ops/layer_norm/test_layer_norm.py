# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""layer_norm against float64."""

import direct
import numpy as np
import pytest
from backends import assert_close, numpy_type, random_array


def reference(x, weight, bias, eps=1e-5):
    x = x.astype(np.float64)
    y = (x - x.mean(axis=-1, keepdims=True)) / np.sqrt(x.var(axis=-1, keepdims=True) + eps)
    y = y if weight is None else y * weight.astype(np.float64)
    return y if bias is None else y + bias.astype(np.float64)


@pytest.mark.parametrize("dtype,weight_type", [("fp32", "fp32"), ("fp16", "fp16"),
                                               ("bf16", "fp32")])
@pytest.mark.parametrize("rows,n", [(2, 17), (3, 1000), (2, 2048)])
def test_layer_norm(backend, dtype, weight_type, rows, n):
    rng = np.random.default_rng(n)
    x = random_array(rng, (rows, n), dtype)
    weight, bias = random_array(rng, (n,), weight_type), random_array(rng, (n,), weight_type)
    y = np.zeros((rows, n), numpy_type(dtype))
    direct.layer_norm(x, weight, bias, y)
    expected = reference(x, weight, bias)
    # Near zero the bias cancels the product, so errors are measured against the row's size.
    assert_close(y.astype(np.float64) + 8, expected + 8) if dtype == "fp64" else \
        np.testing.assert_allclose(y.astype(np.float64), expected, rtol=2e-2 if dtype != "fp32"
                                   else 1e-5, atol={"fp32": 1e-5, "fp16": 4e-3, "bf16": 3e-2}[dtype])


@pytest.mark.parametrize("at_once,rows,n", [(4, 9, 16), (2, 3, 100)])
def test_several_rows_an_instance(backend, at_once, rows, n):
    rng = np.random.default_rng(n)
    x, weight, bias = (random_array(rng, shape) for shape in ((rows, n), (n,), (n,)))
    y = np.zeros_like(x)
    direct.layer_norm(x, weight, bias, y, at_once=at_once)
    np.testing.assert_allclose(y, reference(x, weight, bias), rtol=1e-5, atol=1e-5)


def test_without_weight_and_bias(backend):
    x = np.random.default_rng(1).standard_normal((3, 100)).astype(np.float32)
    y = np.zeros_like(x)
    direct.layer_norm(x, None, None, y)
    np.testing.assert_allclose(y, reference(x, None, None), rtol=1e-5, atol=1e-5)


def test_a_large_mean_does_not_cancel_the_variance(backend):
    x = (1000 + np.random.default_rng(2).standard_normal((2, 512))).astype(np.float32)
    y = np.zeros_like(x)
    direct.layer_norm(x, None, None, y)
    np.testing.assert_allclose(y, reference(x, None, None), rtol=1e-3, atol=1e-3)
