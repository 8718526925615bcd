# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Corners in which interpreter and compiled code once differed: NaN, booleans, `and` and `or`.

Each test runs on both backends and compares with a value from an independent source.
"""

import itertools

import numpy as np
import pytest
from backends import numpy_type
from kernel_text import apply, elementwise, make

NAN = np.nan
ROWS = [[1, NAN, 3, NAN], [NAN, NAN, NAN, NAN], [NAN, 2, 2, NAN], [-np.inf, NAN, -np.inf, NAN],
        [NAN, 5, -1, 4], [0, -0.0, 0, NAN], [7, 7, 7, 7], [NAN, NAN, NAN, -3]]


def expected_position(row, largest: bool, left: bool) -> int:
    """Numbers are better than NaN; among equal ones the first or the last."""
    numbers = [(v if largest else -v, -i if left else i) for i, v in enumerate(row) if v == v]
    if numbers:
        return abs(max(numbers)[1])
    return 0 if left else len(row) - 1


@pytest.mark.parametrize("columns", [4, 64])
@pytest.mark.parametrize("dtype", ["fp32", "fp64", "fp16", "bf16"])
@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_positions_among_nan(backend, name, left, dtype, columns):
    kernel = make(f"""@ty.jit
def kernel(x, out, values, R: tl.constexpr, C: tl.constexpr):
    at = tl.arange(0, R)[:, None] * C + tl.arange(0, C)[None, :]
    tile = tl.load(x + at)
    tl.store(out + tl.arange(0, R), tl.{name}(tile, 1, tie_break_left={left}))
    best, _ = tl.{name[3:]}(tile, 1, return_indices=True)
    tl.store(values + tl.arange(0, R), best)
""")
    rng = np.random.default_rng(3)
    rows = [[row[i] for i in rng.integers(0, 4, columns)] if columns > 4 else row for row in ROWS]
    x = np.array(rows).astype(numpy_type(dtype))
    out, values = np.zeros(8, np.int32), np.zeros(8, np.float64)
    kernel[(1,)](x, out, values, R=8, C=columns)
    assert list(out) == [expected_position(row, name == "argmax", left) for row in rows]
    fold = np.fmax if name == "argmax" else np.fmin
    np.testing.assert_array_equal(values, [fold.reduce(np.array(row)) for row in rows])


@pytest.mark.parametrize("axis", [0, 1])
def test_positions_along_either_axis(backend, axis):
    kernel = make("""@ty.jit
def kernel(x, out, A: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    last = tl.argmax(tl.load(x + at), A, tie_break_left=False)
    tl.store(out + tl.arange(0, N), last)
""")
    x = np.random.default_rng(0).integers(0, 3, (32, 32)).astype(np.int8)
    out = np.zeros(32, np.int32)
    kernel[(1,)](x, out, A=axis, N=32)
    np.testing.assert_array_equal(out, 31 - np.argmax(np.flip(x, axis), axis))


def total_order(bits: int, width: int) -> int:
    """IEEE 754's order of all values, NaN included, from the bits of a float."""
    return bits if bits < 1 << (width - 1) else (1 << (width - 1)) - 1 - bits


@pytest.mark.parametrize("dtype", ["fp32", "fp64", "fp16", "bf16"])
@pytest.mark.parametrize("name", ["max", "min"])
def test_atomic_extremes_order_floats_by_their_bits(backend, name, dtype):
    """As Triton does on GPUs: positive NaN above everything, negative NaN below."""
    kernel = elementwise(f"tl.atomic_{name}(in_a + at, b, mask=mask)", "ab")
    element = numpy_type(dtype)
    width = 8 * element.itemsize
    integer = np.dtype(f"u{element.itemsize}")
    special = np.array([NAN, -NAN, np.inf, -np.inf, 0.0, -0.0, 1.5, -1.5]).astype(element)
    special[1] = np.copysign(special[0], special[3])
    memory, given = (np.ascontiguousarray(side) for side in
                     zip(*itertools.product(special, special)))
    memory, given = np.array(memory, element), np.array(given, element)
    before, out = memory.copy(), np.zeros(memory.size, element)
    apply(kernel, [memory, given], out)
    order = max if name == "max" else min
    best = [order(int(a), int(b), key=lambda bits: total_order(bits, width))
            for a, b in zip(before.view(integer), given.view(integer))]
    assert [int(bits) for bits in memory.view(integer)] == best
    np.testing.assert_array_equal(out.view(integer), before.view(integer))  # the values before


@pytest.mark.parametrize("expression, expected", [
    ("a + b", lambda a, b: a ^ b), ("a - b", lambda a, b: a ^ b), ("a * b", lambda a, b: a & b),
    ("a // b", lambda a, b: a & b), ("a % b", lambda a, b: a & ~b), ("a << b", lambda a, b: a & ~b),
    ("a >> b", lambda a, b: a & ~b), ("a & b", lambda a, b: a & b), ("a | b", lambda a, b: a | b),
    ("a ^ b", lambda a, b: a ^ b), ("-a", lambda a, b: a), ("~a", lambda a, b: ~a),
    ("abs(a)", lambda a, b: a), ("tl.fma(a, b, a)", lambda a, b: (a & b) ^ a),
    ("tl.maximum(a, b)", lambda a, b: a | b), ("tl.minimum(a, b)", lambda a, b: a & b),
    ("a < b", lambda a, b: ~a & b), ("a >= b", lambda a, b: a | ~b),
    ("a + True", lambda a, b: ~a), ("tl.where(a, b, a)", lambda a, b: a & b),
])
def test_arithmetic_on_booleans(backend, expression, expected):
    """int1 wraps like every integer: True + True is False."""
    a, b = np.array([0, 0, 1, 1], bool), np.array([0, 1, 0, 1], bool)
    kernel = make(f"""@ty.jit
def kernel(in_a, in_b, out, N: tl.constexpr):
    at = tl.arange(0, N)
    a, b = tl.load(in_a + at), tl.load(in_b + at)
    result = {expression}
    tl.static_assert(result.dtype == tl.int1)
    tl.store(out + at, result)
""")
    out = np.zeros(4, bool)
    kernel[(1,)](a, b, out, N=4)
    np.testing.assert_array_equal(out, expected(a, b))


@pytest.mark.parametrize("expression, dtype, expected", [
    ("a + 1", "int32", lambda a: a + 1), ("a * 2.5", "float32", lambda a: a * 2.5),
    ("a / a", "float32", lambda a: np.where(a, 1, NAN)), ("-a + 3", "int32", lambda a: a + 3),
    ("tl.sum(a, 0)", "uint32", lambda a: a.sum()), ("tl.cumsum(a, 0)", "uint32", np.cumsum),
    ("tl.cumprod(a, 0)", "int1", np.cumprod), ("tl.max(a, 0)", "int32", np.max),
    ("tl.xor_sum(a, 0)", "int1", lambda a: a.sum() % 2),
])
def test_booleans_with_numbers_and_reduced(backend, expression, dtype, expected):
    a = np.array([1, 1, 0, 1], bool)
    kernel = make(f"""@ty.jit
def kernel(x, out, N: tl.constexpr):
    at = tl.arange(0, N)
    a = tl.load(x + at)
    result = {expression}
    tl.static_assert(result.dtype == tl.{dtype})
    tl.store(out + at, result)
""")
    out = np.zeros(4, np.float64)
    kernel[(1,)](a, out, N=4)
    np.testing.assert_array_equal(out, np.broadcast_to(expected(a), 4))


def exactly(values, function, element) -> np.ndarray:
    """Running fold in float32 from left to right, rounded once."""
    result, total = [], None
    for value in values.astype(np.float32):
        total = value if total is None else np.float32(function(total, value))
        result.append(total)
    return np.array(result, np.float32).astype(element)


def assert_folded(backend, out, values, function) -> None:
    """`out` is the running fold of `values`: exactly that from left to right where instances run on
    one thread. The threads of an accelerator fold parts and then the parts, so that there the
    rounding differs: a fold of n values in any order is within n units of float32 of the exact one,
    in units of the fold of absolute values (Higham, Accuracy and Stability, section 4.2)."""
    if backend != "cuda":
        np.testing.assert_array_equal(out, exactly(values, function, out.dtype))
        return
    wide = values.astype(np.float64)
    exact, scale = function.accumulate(wide), function.accumulate(np.abs(wide))
    stored = np.finfo(out.dtype).eps if out.dtype.kind == "f" else 2.0**-7  # bf16
    bound = len(values) * 2.0**-24 * scale + stored / 2 * np.abs(exact)
    assert (np.abs(out.astype(np.float64) - exact) <= bound).all(), (out, exact)


@pytest.mark.parametrize("dtype, result", [("fp16", "fp16"), ("bf16", "fp32"), ("int8", "int32"),
                                           ("uint8", "uint32"), ("fp32", "fp32")])
@pytest.mark.parametrize("reverse", [False, True])
def test_running_sums(backend, dtype, result, reverse):
    """Triton's types: bf16 gives fp32, small integers 32 bits."""
    x = (np.random.default_rng(5).standard_normal(64) * 4).astype(numpy_type(dtype))
    kernel = make(f"""@ty.jit
def kernel(x, out, N: tl.constexpr):
    at = tl.arange(0, N)
    total = tl.cumsum(tl.load(x + at), 0, reverse={reverse})
    tl.static_assert(total.dtype == tl.{_long(result)})
    tl.store(out + at, total)
""")
    out = np.zeros(64, numpy_type(result))
    kernel[(1,)](x, out, N=64)
    ordered = x[::-1] if reverse else x
    folded = out[::-1] if reverse else out
    if "f" in dtype:
        assert_folded(backend, folded, ordered, np.add)
    else:
        np.testing.assert_array_equal(folded, np.cumsum(ordered.astype(np.int64)).astype(out.dtype))


@pytest.mark.parametrize("dtype, result", [("fp16", "fp16"), ("bf16", "fp32"), ("int8", "int8"),
                                           ("uint16", "uint16"), ("fp64", "fp64")])
def test_running_products(backend, dtype, result):
    """Triton widens no integers here."""
    rng = np.random.default_rng(6)
    x = (rng.integers(1, 4, 32) if "i" in dtype else rng.uniform(0.8, 1.25, 32)).astype(
        numpy_type(dtype))
    kernel = make(f"""@ty.jit
def kernel(x, out, N: tl.constexpr):
    at = tl.arange(0, N)
    product = tl.cumprod(tl.load(x + at), 0)
    tl.static_assert(product.dtype == tl.{_long(result)})
    tl.store(out + at, product)
""")
    out = np.zeros(32, numpy_type(result))
    kernel[(1,)](x, out, N=32)
    if dtype == "fp64":
        np.testing.assert_allclose(out, np.cumprod(x), rtol=1e-14)
    elif "f" in dtype:
        assert_folded(backend, out, x, np.multiply)
    else:
        product = list(itertools.accumulate((int(v) for v in x), lambda a, b: a * b))
        np.testing.assert_array_equal(out, np.array([p % 2**16 for p in product], np.uint16)
                                      .astype(out.dtype))


def _long(name: str) -> str:
    return {"fp16": "float16", "fp32": "float32", "fp64": "float64"}.get(name, name)


# (expression, its type, what Triton gives for n and m)
LOGIC = [
    ("n or 7", None, lambda n, m: 7), ("n or 0", "int32", lambda n, m: n),
    ("n and 7", "int32", lambda n, m: n), ("n and 0", None, lambda n, m: 0),
    ("0 or n", "int32", lambda n, m: n), ("7 or n", None, lambda n, m: 7),
    ("7 and n", "int32", lambda n, m: n), ("0 and n", None, lambda n, m: 0),
    ("n or m", "int1", lambda n, m: bool(n or m)), ("n and m", "int1", lambda n, m: bool(n and m)),
    ("n and 3 and m", "int1", lambda n, m: bool(n and m)),
    ("n or m or 5", None, lambda n, m: 5), ("n and m or 0", "int1", lambda n, m: bool(n and m)),
    ("not n", "int1", lambda n, m: not n), ("not (n and m)", "int1", lambda n, m: not (n and m)),
    ("0 < n < m", "int1", lambda n, m: 0 < n < m), ("n < 5 > 3", "int1", lambda n, m: n < 5),
    ("n or tl.abs(m)", "int1", lambda n, m: bool(n or m)),
    ("n and tl.cdiv(8, 2)", "int1", lambda n, m: bool(n)),
    ("m if n or m else 9", None, lambda n, m: m if n or m else 9),
]


@pytest.mark.parametrize("expression, kind, expected", LOGIC, ids=[row[0] for row in LOGIC])
def test_logic_of_run_time_values(backend, expression, kind, expected):
    check = f"    tl.static_assert(result.dtype == tl.{kind})\n" if kind else ""
    kernel = make(f"""@ty.jit
def kernel(out, n, m):
    result = {expression}
{check}    tl.store(out, result)
""")
    for n, m in itertools.product([0, 3, 32], [0, 2, 48]):
        out = np.full(1, -1, np.int64)
        kernel[(1,)](out, n, m)
        assert out[0] == expected(n, m), (n, m)


@pytest.mark.parametrize("expression, expected", [
    ("(a > 0) and (b > 0)", lambda a, b: (a > 0) & (b > 0)), ("a or b", lambda a, b: (a | b) != 0),
    ("not a", lambda a, b: a == 0), ("0 <= a < b", lambda a, b: (0 <= a) & (a < b)),
    ("a and 3", lambda a, b: a), ("a or tl.abs(b)", lambda a, b: (a | b) != 0),
])
def test_logic_of_tiles(backend, expression, expected):
    a, b = (np.array(v, np.int32) for v in zip(*itertools.product([-2, 0, 1], [-1, 0, 5])))
    out = apply(elementwise(expression, "ab"), [a, b], np.zeros(9, np.int32))
    np.testing.assert_array_equal(out, expected(a, b))


def test_a_false_condition_keeps_calls_from_running(backend):
    """Also in loops, nested functions and around closures."""
    limit = 4
    kernel = make("""@ty.jit
def pick(x, i, n):
    return 1 if i < n and tl.load(x + i) > 0 else 0

@ty.jit
def kernel(x, out, n):
    found = 0
    i = 0
    while i < LIMIT * 4 and not (i >= n or tl.load(x + i) < 0):
        found += pick(x, i, n) + pick(x, i + 1000000, n)
        i += 1
    tl.store(out, found)
""", LIMIT=limit)
    x, out = np.array([1, 0, 2, 5, -1, 3], np.int32), np.zeros(1, np.int32)
    kernel[(1,)](x, out, x.size)
    assert out[0] == 3
