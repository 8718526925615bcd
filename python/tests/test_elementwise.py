# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Elementwise operations: op x type against float64 NumPy, ragged sizes."""

import numpy as np
import pytest
from backends import assert_close, numpy_type, random_array
from kernel_text import apply, elementwise

FLOATS = ["fp32", "fp16", "bf16"]
INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
erf = np.vectorize(__import__("math").erf)

# name: (expression, reference, range of the input)
UNARY = {
    "exp": ("tl.exp(a)", np.exp, (-5, 5)),
    "exp2": ("tl.exp2(a)", np.exp2, (-5, 5)),
    "log": ("tl.log(a)", np.log, (0.1, 20)),
    "log2": ("tl.log2(a)", np.log2, (0.1, 20)),
    "sin": ("tl.sin(a)", np.sin, (-4, 4)),
    "cos": ("tl.cos(a)", np.cos, (-4, 4)),
    "sqrt": ("tl.sqrt(a)", np.sqrt, (0, 20)),
    "sqrt_rn": ("tl.sqrt_rn(a)", np.sqrt, (0, 20)),
    "rsqrt": ("tl.rsqrt(a)", lambda v: 1 / np.sqrt(v), (0.1, 20)),
    "floor": ("tl.floor(a)", np.floor, (-9, 9)),
    "ceil": ("tl.ceil(a)", np.ceil, (-9, 9)),
    "abs": ("tl.abs(a)", np.abs, (-9, 9)),
    "erf": ("tl.erf(a)", erf, (-3, 3)),
    "sigmoid": ("tl.sigmoid(a)", lambda v: 1 / (1 + np.exp(-v)), (-6, 6)),
    "neg": ("-a", np.negative, (-9, 9)),
}
BINARY = {
    "add": ("a + b", np.add), "sub": ("a - b", np.subtract), "mul": ("a * b", np.multiply),
    "div": ("a / b", np.divide), "maximum": ("tl.maximum(a, b)", np.maximum),
    "minimum": ("tl.minimum(a, b)", np.minimum), "fdiv": ("tl.fdiv(a, b)", np.divide),
    "where": ("tl.where(a > b, a, b * 2)", lambda a, b: np.where(a > b, a, b * 2)),
}
INTEGER = {
    "add": ("a + b", np.add), "sub": ("a - b", np.subtract), "mul": ("a * b", np.multiply),
    "and": ("a & b", np.bitwise_and), "or": ("a | b", np.bitwise_or),
    "xor": ("a ^ b", np.bitwise_xor), "invert": ("~a + b - b", lambda a, b: ~a),
    "maximum": ("tl.maximum(a, b)", np.maximum), "minimum": ("tl.minimum(a, b)", np.minimum),
}
COMPARISONS = {"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal,
               "==": np.equal, "!=": np.not_equal}


def floats(name, low, high, n, seed=0):
    values = np.random.default_rng(seed).uniform(low, high, n)
    return values.astype(np.float32).astype(numpy_type(name))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("op", UNARY)
def test_unary(backend, op, dtype):
    expression, reference, (low, high) = UNARY[op]
    if dtype != "fp32" and "tl." in expression and op != "abs":
        expression = expression.replace("(a)", "(a.to(tl.float32))")  # as Triton asks for
    a = floats(dtype, low, high, 1000)
    out = apply(elementwise(expression), [a], np.zeros_like(a))
    expected = reference(a.astype(np.float64))
    if dtype == "fp32" and op in ("sin", "cos", "log", "log2", "erf"):  # zeros of the function
        np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-6)
    else:
        assert_close(out, expected)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("op", BINARY)
def test_binary(backend, op, dtype):
    expression, reference = BINARY[op]
    a, b = floats(dtype, -4, 4, 777), floats(dtype, 0.5, 4, 777, seed=1)
    if op == "fdiv" and dtype != "fp32":
        expression = "tl.fdiv(a.to(tl.float32), b.to(tl.float32))"
    out = apply(elementwise(expression, "ab"), [a, b], np.zeros_like(a))
    expected = reference(a.astype(np.float64), b.astype(np.float64))
    atol = 1e-6 if dtype == "fp32" else 0
    if atol:
        np.testing.assert_allclose(out, expected, rtol=1e-5, atol=atol)
    else:
        assert_close(out, expected)


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("op", INTEGER)
def test_integers_wrap(backend, op, dtype):
    expression, reference = INTEGER[op]
    info = np.iinfo(numpy_type(dtype))
    rng = np.random.default_rng(3)
    a, b = (rng.integers(info.min, info.max, 500, dtype=info.dtype, endpoint=True)
            for _ in range(2))
    with np.errstate(over="ignore"):
        expected = reference(a, b)
    out = apply(elementwise(expression, "ab"), [a, b], np.zeros_like(a))
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8", "uint32"])
def test_integer_division_truncates(backend, dtype):
    info = np.iinfo(numpy_type(dtype))
    rng = np.random.default_rng(4)
    low = -100 if info.min < 0 else 0
    a = rng.integers(low, 100, 500).astype(info.dtype)
    b = rng.integers(1, 12, 500).astype(info.dtype)
    if low < 0:
        b[::2] = -b[::2]
    exact = a.astype(np.int64), b.astype(np.int64)
    quotient = np.trunc(exact[0] / exact[1]).astype(np.int64)
    out = apply(elementwise("a // b", "ab"), [a, b], np.zeros_like(a))
    np.testing.assert_array_equal(out, quotient)
    out = apply(elementwise("a % b", "ab"), [a, b], np.zeros_like(a))
    np.testing.assert_array_equal(out, exact[0] - quotient * exact[1])


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint8", "uint32"])
def test_shifts(backend, dtype):
    info = np.iinfo(numpy_type(dtype))
    rng = np.random.default_rng(5)
    a = rng.integers(info.min, info.max, 300, dtype=info.dtype, endpoint=True)
    b = rng.integers(0, info.bits, 300).astype(info.dtype)
    for symbol, reference in (("<<", np.left_shift), (">>", np.right_shift)):
        out = apply(elementwise(f"a {symbol} b", "ab"), [a, b], np.zeros_like(a))
        np.testing.assert_array_equal(out, reference(a, b))


@pytest.mark.parametrize("dtype", ["fp32", "bf16", "int8", "int64", "uint32"])
@pytest.mark.parametrize("symbol", COMPARISONS)
def test_comparisons(backend, symbol, dtype):
    rng = np.random.default_rng(6)
    a, b = random_array(rng, 400, dtype), random_array(rng, 400, dtype)
    b[::3] = a[::3]
    out = apply(elementwise(f"(a {symbol} b).to(tl.int8)", "ab"), [a, b], np.zeros(400, np.int8))
    np.testing.assert_array_equal(out, COMPARISONS[symbol](a, b))


def test_comparisons_with_nan(backend):
    a = np.array([1, np.nan, np.nan, 2], np.float32)
    b = np.array([np.nan, 1, np.nan, 2], np.float32)
    for symbol, reference in COMPARISONS.items():
        out = apply(elementwise(f"(a {symbol} b).to(tl.int32)", "ab"), [a, b],
                    np.zeros(4, np.int32), block=4)
        np.testing.assert_array_equal(out, reference(a, b))
    for op, reference in (("maximum", np.fmax), ("minimum", np.fmin)):
        out = apply(elementwise(f"tl.{op}(a, b)", "ab"), [a, b], np.zeros(4, np.float32), block=4)
        np.testing.assert_array_equal(out, reference(a, b))


CASTS = [(s, d) for s in ["fp32", "fp16", "bf16", "int8", "int32", "int64", "uint8"]
         for d in ["fp32", "fp16", "bf16", "int8", "int32", "int64", "uint8"] if s != d]


@pytest.mark.parametrize("source,target", CASTS)
def test_casts(backend, source, target):
    rng = np.random.default_rng(7)
    if source[0] in "iu":
        info = np.iinfo(numpy_type(source))
        a = rng.integers(max(info.min, -2**20), min(info.max, 2**20), 300).astype(info.dtype)
        if target == "fp16":
            a = (a.astype(np.int64) % 100).astype(info.dtype)
    else:
        limits = {"int8": (-120, 120), "uint8": (0, 250)}.get(target, (-1000, 1000))
        a = floats(source, *limits, 300)
    out = apply(elementwise("a"), [a], np.zeros(300, numpy_type(target)))
    through = a.astype(np.float32) if source == "bf16" else a
    np.testing.assert_array_equal(out, through.astype(numpy_type(target)))


@pytest.mark.parametrize("target", ["int8", "int32", "int64", "uint8", "uint32"])
def test_floats_beyond_an_integer_type_saturate(backend, target):
    a = np.array([0.0, -1.9, 1.9, 1e30, -1e30, np.inf, -np.inf, np.nan], np.float32)
    info = np.iinfo(numpy_type(target))
    wide = np.trunc(np.nan_to_num(a.astype(np.float64), nan=0.0, posinf=1e30, neginf=-1e30))
    expected = [min(max(int(v), info.min), info.max) for v in wide]
    out = apply(elementwise("a"), [a], np.zeros(8, numpy_type(target)), block=8)
    np.testing.assert_array_equal(out, np.array(expected, info.dtype))


@pytest.mark.parametrize("target", ["fp16", "bf16"])
def test_downcast_rounds_to_nearest_even(backend, target):
    bits = np.random.default_rng(8).integers(0x30000000, 0x47000000, 4000, dtype=np.uint32)
    bits[::4] &= 0xFFFF8000  # exact halves of bf16
    bits[1::4] &= 0xFFFFF000
    a = bits.view(np.float32)
    out = apply(elementwise("a"), [a], np.zeros(4000, numpy_type(target)))
    np.testing.assert_array_equal(out, a.astype(numpy_type(target)))


def test_bitcast(backend):
    a = np.random.default_rng(9).standard_normal(100).astype(np.float32)
    out = apply(elementwise("a.to(tl.int32, bitcast=True)"), [a], np.zeros(100, np.int32))
    np.testing.assert_array_equal(out, a.view(np.int32))


def test_umulhi_and_fma_and_clamp(backend):
    rng = np.random.default_rng(10)
    a, b = (rng.integers(0, 2**32, 200, dtype=np.uint32) for _ in range(2))
    out = apply(elementwise("tl.umulhi(a, b)", "ab"), [a, b], np.zeros(200, np.uint32))
    np.testing.assert_array_equal(out, (a.astype(np.uint64) * b >> np.uint64(32)))
    x, y = floats("fp32", -3, 3, 200), floats("fp32", -3, 3, 200, seed=2)
    out = apply(elementwise("tl.fma(a, b, a)", "ab"), [x, y], np.zeros(200, np.float32))
    wide = x.astype(np.float64)
    np.testing.assert_allclose(out, wide * y + wide, rtol=1e-5, atol=1e-6)
    out = apply(elementwise("tl.clamp(a, -1.0, 1.5)"), [x], np.zeros(200, np.float32))
    np.testing.assert_array_equal(out, np.clip(x, -1, 1.5))


@pytest.mark.parametrize("n", [1, 2, 63, 64, 65, 1000])
@pytest.mark.parametrize("block", [1, 16, 64])
def test_sizes(backend, n, block):
    a = np.arange(n, dtype=np.float32)
    guard = np.full(n + 8, -7, np.float32)
    apply(elementwise("a + 1"), [a], guard[4:4 + n], block)
    np.testing.assert_array_equal(guard[4:4 + n], a + 1)
    assert (guard[:4] == -7).all() and (guard[4 + n:] == -7).all()


@pytest.mark.parametrize("op", ["exp", "exp2", "log", "log2", "sin", "cos", "sqrt", "rsqrt", "erf", "tanh"])
def test_fp64_functions(backend, op):
    _, reference, (low, high) = UNARY.get(op, ("", np.tanh, (-9, 9)))
    a = np.random.default_rng(3).uniform(low, high, 1000)
    out = apply(elementwise(f"tl.{op}(a)"), [a], np.zeros_like(a))
    expected = reference(a)
    # Near zeros of the reference its own rounding counts.
    assert np.all(np.abs(out - expected) <= 1e-13 * np.maximum(np.abs(expected), 2.0**-10))


@pytest.mark.parametrize("dtype", ["fp32", "fp64"])
@pytest.mark.parametrize("op", ["sin", "cos"])
def test_large_angles(backend, op, dtype):
    """No argument is too large to be reduced."""
    with np.errstate(invalid="ignore"):
        a = (2.0 ** np.arange(-20, 127) * 1.2345678).astype(numpy_type(dtype))
        a = np.concatenate([a, -a, np.array([0.0, np.inf, -np.inf, np.nan], a.dtype)])
        out = apply(elementwise(f"tl.{op}(a)"), [a], np.zeros_like(a))
        expected = getattr(np, op)(a.astype(np.float64))
    np.testing.assert_allclose(out, expected, rtol=1e-6 if dtype == "fp32" else 1e-13)


@pytest.mark.parametrize("dtype", ["fp32", "fp64"])
def test_remainders_are_exact(backend, dtype):
    rng = np.random.default_rng(4)
    a = (rng.standard_normal(2000) * 2.0 ** rng.integers(-60, 60, 2000)).astype(numpy_type(dtype))
    b = (rng.standard_normal(2000) * 2.0 ** rng.integers(-60, 60, 2000)).astype(numpy_type(dtype))
    out = apply(elementwise("a % b", "ab"), [a, b], np.zeros_like(a))
    np.testing.assert_array_equal(out, np.fmod(a, b))


@pytest.mark.parametrize("name", ["fp8e4nv", "fp8e5"])
def test_fp8(backend, name):
    """Every code as fp32, and fp32 to the nearest code, ties to even, saturating."""
    if backend == "cpu":
        pytest.skip("fp8 values are not supported on the CPU target")
    kind = numpy_type(name)
    long = {"fp8e4nv": "float8e4nv", "fp8e5": "float8e5"}[name]
    codes = np.arange(256, dtype=np.uint8).view(kind)
    wide = apply(elementwise("a.to(tl.float32)"), [codes], np.zeros(256, np.float32))
    np.testing.assert_array_equal(wide, codes.astype(np.float32))
    ordered = np.sort(wide[np.isfinite(wide)])
    middles = (ordered[1:] + ordered[:-1]) / 2
    values = np.concatenate([wide, middles, np.nextafter(middles, np.float32(np.inf)),
                             np.nextafter(middles, np.float32(-np.inf)),
                             np.array([1e9, -1e9, np.inf, -np.inf, np.nan, 1e-30, -1e-30], np.float32)])
    out = apply(elementwise(f"a.to(tl.{long})"), [values.astype(np.float32)], np.zeros(values.size, kind))
    largest = ordered[-1]
    expected = np.clip(values, -largest, largest).astype(kind).astype(np.float32)
    np.testing.assert_array_equal(out.astype(np.float32), expected)
    sums = apply(elementwise(f"(a + a * 2.0)"), [codes], np.zeros(256, kind))
    assert sums.dtype == kind
