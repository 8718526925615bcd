# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Reductions and scans: op x type x axis against NumPy."""

import numpy as np
import pytest
from backends import assert_close, numpy_type, random_array
from kernel_text import make

SHAPES = [(16, 16), (4, 64), (64, 2), (1, 32)]


def reduce_kernel(expression: str, shape, elements: int):
    return make(f'''@ty.jit
def combine(a, b):
    return a + b

@ty.jit
def larger(a, i, b, j):
    first = (a > b) | ((a == b) & (i < j))
    return tl.where(first, a, b), tl.where(first, i, j)

@ty.jit
def kernel(a, out):
    at = tl.arange(0, {shape[0]})[:, None] * {shape[1]} + tl.arange(0, {shape[1]})[None, :]
    x = tl.load(a + at)
    y = {expression}
    tl.store(out + tl.arange(0, {elements}), tl.reshape(y, ({elements},)))
''')


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16", "int32", "int8", "int64"])
def test_sum(backend, dtype, axis, shape):
    x = random_array(np.random.default_rng(1), shape, dtype)
    n = shape[1 - axis]
    out = np.zeros(n, np.float32 if dtype[0] in "fb" else np.int64)
    cast = ".to(tl.float32)" if dtype in ("fp16", "bf16") else ""
    reduce_kernel(f"tl.sum(x{cast}, axis={axis})", shape, n)[(1,)](x, out)
    assert_close(out, x.astype(np.float64).sum(axis=axis), depth=shape[axis])


@pytest.mark.parametrize("op", ["max", "min", "argmax", "argmin"])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("dtype", ["fp32", "bf16", "int32", "int8"])
def test_extremes(backend, op, axis, dtype):
    x = random_array(np.random.default_rng(2), (16, 32), dtype)  # with ties
    n = (16, 32)[1 - axis]
    out = np.zeros(n, np.int32 if "arg" in op else numpy_type(dtype))
    reduce_kernel(f"tl.{op}(x, axis={axis})", (16, 32), n)[(1,)](x, out)
    np.testing.assert_array_equal(out, getattr(np, op)(x.astype(np.float64), axis=axis))


def test_ties_break_to_the_right_when_asked(backend):
    x = np.ones((4, 8), np.float32)
    out = np.zeros(4, np.int32)
    reduce_kernel("tl.argmax(x, axis=1, tie_break_left=False)", (4, 8), 4)[(1,)](x, out)
    np.testing.assert_array_equal(out, 7)


def test_max_with_indices(backend):
    x = np.random.default_rng(3).standard_normal((8, 16)).astype(np.float32)
    value, index = np.zeros(8, np.float32), np.zeros(8, np.int32)
    make('''@ty.jit
def kernel(a, value, index):
    at = tl.arange(0, 8)[:, None] * 16 + tl.arange(0, 16)[None, :]
    v, i = tl.max(tl.load(a + at), axis=1, return_indices=True)
    tl.store(value + tl.arange(0, 8), v)
    tl.store(index + tl.arange(0, 8), i)
''')[(1,)](x, value, index)
    np.testing.assert_array_equal(value, x.max(axis=1))
    np.testing.assert_array_equal(index, x.argmax(axis=1))


def test_all_elements_and_keep_dims(backend):
    x = np.random.default_rng(4).standard_normal((8, 16)).astype(np.float32)
    out = np.zeros(1, np.float32)
    reduce_kernel("tl.sum(tl.sum(x, axis=1), axis=0) + tl.zeros((1,), tl.float32)",
                  (8, 16), 1)[(1,)](x, out)
    assert_close(out, [x.astype(np.float64).sum()], depth=128)
    out = np.zeros((8, 16), np.float32)
    reduce_kernel("x - tl.max(x, axis=1, keep_dims=True)", (8, 16), 128)[(1,)](x, out)
    np.testing.assert_array_equal(out, x - x.max(axis=1, keepdims=True))


@pytest.mark.parametrize("axis", [0, 1])
def test_reduce_with_a_function(backend, axis):
    x = np.random.default_rng(5).integers(-50, 50, (8, 16)).astype(np.int32)
    out = np.zeros((8, 16)[1 - axis], np.int32)
    reduce_kernel(f"tl.reduce(x, {axis}, combine)", (8, 16), out.size)[(1,)](x, out)
    np.testing.assert_array_equal(out, x.sum(axis=axis))


def test_reduce_of_a_tuple(backend):
    x = np.random.default_rng(6).integers(0, 9, (8, 16)).astype(np.int32)
    value, index = np.zeros(8, np.int32), np.zeros(8, np.int32)
    make('''@ty.jit
def larger(a, i, b, j):
    first = (a > b) | ((a == b) & (i < j))
    return tl.where(first, a, b), tl.where(first, i, j)

@ty.jit
def kernel(a, value, index):
    cols = tl.broadcast_to(tl.arange(0, 16)[None, :], (8, 16))
    at = tl.arange(0, 8)[:, None] * 16 + cols
    v, i = tl.reduce((tl.load(a + at), cols), 1, larger)
    tl.store(value + tl.arange(0, 8), v)
    tl.store(index + tl.arange(0, 8), i)
''')[(1,)](x, value, index)
    np.testing.assert_array_equal(value, x.max(axis=1))
    np.testing.assert_array_equal(index, x.argmax(axis=1))


def test_xor_sum(backend):
    x = np.random.default_rng(7).integers(0, 2**31, (8, 16)).astype(np.int32)
    out = np.zeros(8, np.int32)
    reduce_kernel("tl.xor_sum(x, axis=1)", (8, 16), 8)[(1,)](x, out)
    np.testing.assert_array_equal(out, np.bitwise_xor.reduce(x, axis=1))


@pytest.mark.parametrize("op", ["cumsum", "cumprod"])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dtype", ["fp32", "int32"])
def test_scans(backend, op, axis, reverse, dtype):
    x = np.random.default_rng(8).choice([1.0, -1.0, 2.0, 0.5] if dtype == "fp32" else [1, -1, 3],
                                        (8, 16)).astype(numpy_type(dtype))
    flipped = np.flip(x, axis) if reverse else x
    expected = getattr(np, op)(flipped.astype(np.float64), axis=axis)
    expected = np.flip(expected, axis) if reverse else expected
    out = np.zeros((8, 16), numpy_type(dtype))
    reduce_kernel(f"tl.{op}(x, axis={axis}, reverse={reverse})", (8, 16), 128)[(1,)](x, out)
    if dtype == "fp32":
        np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-5)
    else:
        np.testing.assert_array_equal(out, expected)


def test_associative_scan(backend):
    x = np.random.default_rng(9).integers(-9, 9, (8, 16)).astype(np.int32)
    out = np.zeros((8, 16), np.int32)
    reduce_kernel("tl.associative_scan(x, 1, combine)", (8, 16), 128)[(1,)](x, out)
    np.testing.assert_array_equal(out, np.cumsum(x, axis=1))


@pytest.mark.parametrize("descending", [False, True])
def test_sort(backend, descending):
    x = np.random.default_rng(10).standard_normal((4, 32)).astype(np.float32)
    out = np.zeros_like(x)
    reduce_kernel(f"tl.sort(x, descending={descending})", (4, 32), 128)[(1,)](x, out)
    expected = np.sort(x, axis=1)
    np.testing.assert_array_equal(out, expected[:, ::-1] if descending else expected)


def test_histogram(backend):
    x = np.random.default_rng(11).integers(0, 8, 64).astype(np.int32)
    out = np.zeros(8, np.int32)
    make('''@ty.jit
def kernel(a, out):
    tl.store(out + tl.arange(0, 8), tl.histogram(tl.load(a + tl.arange(0, 64)), 8))
''')[(1,)](x, out)
    np.testing.assert_array_equal(out, np.bincount(x, minlength=8))


def test_softmax(backend):
    x = np.random.default_rng(12).standard_normal(64).astype(np.float32)
    out = np.zeros_like(x)
    make('''@ty.jit
def kernel(a, out):
    at = tl.arange(0, 64)
    tl.store(out + at, tl.softmax(tl.load(a + at)))
''')[(1,)](x, out)
    weights = np.exp(x.astype(np.float64) - x.max())
    assert_close(out, weights / weights.sum())
