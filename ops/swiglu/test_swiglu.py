# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""swiglu against float64: two arrays and one, rows with a stride, in place."""

import direct
import numpy as np
import pytest
from backends import assert_close, numpy_type, random_array
from test_errors import fails

import tilery as ty


def reference(gate, up):
    gate = gate.astype(np.float64)
    return gate / (1 + np.exp(-gate)) * up.astype(np.float64)


def data(rows, n, dtype):
    rng = np.random.default_rng(n)
    return (random_array(rng, (rows, n), dtype, scale=3), random_array(rng, (rows, n), dtype),
            np.full((rows, n), np.nan, numpy_type(dtype)))


@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16"])
@pytest.mark.parametrize("rows,n", [(1, 1), (3, 17), (2, 1024), (2, 2880)])
def test_two_arrays(backend, dtype, rows, n):
    gate, up, out = data(rows, n, dtype)
    direct.swiglu(gate, out, up)
    assert_close(out, reference(gate, up))


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
@pytest.mark.parametrize("n", [5, 64, 1500])
def test_side_by_side(backend, dtype, n):
    gate, up, out = data(3, n, dtype)
    direct.swiglu(np.concatenate([gate, up], axis=1), out)
    assert_close(out, reference(gate, up))


def test_large_values(backend):
    gate = np.array([[-3e38, -100, -88, 88, 100, 3e38, np.inf]], np.float32)
    up, out = np.full_like(gate, 0.5), np.zeros_like(gate)
    direct.swiglu(gate, out, up)
    np.testing.assert_allclose(out, [[0, 0, 0, 44, 50, 1.5e38, np.inf]], rtol=1e-6, atol=1e-35)


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
@pytest.mark.parametrize("rows,n", [(0, 8), (4, 7), (3, 5000)])
def test_host(host, dtype, rows, n):
    gate, up, out = data(rows, n, dtype)
    ty.ops.swiglu(gate, out, up)
    assert_close(out, reference(gate, up))
    packed = np.zeros((rows, 2 * n + 3), gate.dtype)[:, :2 * n]
    packed[:, :n], packed[:, n:] = gate, up
    wide = np.zeros((rows, n + 5), gate.dtype)
    ty.ops.swiglu(packed, wide[:, :n])
    assert_close(wide[:, :n], reference(gate, up))
    assert not wide[:, n:].any()
    expected = reference(gate, up)
    ty.ops.swiglu(gate, gate, up)
    assert_close(gate, expected)


def test_checks(compiled):
    x = np.zeros((4, 6), np.float32)
    with fails(ty.LaunchError, r"swiglu: 'out' has shape \[4, 6\]", "must be 3",
               "half the columns of 'gate'"):
        ty.ops.swiglu(x, np.zeros_like(x))
    with fails(ty.LaunchError, r"'up' has shape \[4, 5\]", "must be 6", "columns of 'gate'"):
        ty.ops.swiglu(x, np.zeros_like(x), np.zeros((4, 5), "f4"))
    with fails(ty.LaunchError, "without 'up', 'gate' holds both side by side, but it has 5 columns, "
                               "which is odd"):
        ty.ops.swiglu(x[:, :5], np.zeros((4, 2), "f4"))
    with fails(ty.LaunchError, "'out' shares memory with 'gate'"):
        ty.ops.swiglu(x, x[:, :3])
