# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Options of a launch that change the code: enable_fp_fusion, debug; and tl.assume."""

import numpy as np
import pytest
from kernel_text import make

import tilery as ty

FUSABLE = """@ty.jit
def kernel(x, y, out, N: tl.constexpr):
    at = tl.arange(0, N)
    a = tl.load(x + at)
    tl.store(out + at, a * a + tl.load(y + at))
"""


def test_fusion_of_products_and_sums(compiled):
    """(1 + 2^-12)^2 - (1 + 2^-11) is 2^-24 exactly, and 0 when the product is rounded first."""
    kernel = make(FUSABLE)
    x, y = np.full(8, 1 + 2**-12, np.float32), np.full(8, -1 - 2**-11, np.float32)
    out = np.full(8, 7, np.float32)
    kernel[(1,)](x, y, out, N=8, enable_fp_fusion=False)
    assert (out == 0).all()
    kernel[(1,)](x, y, out, N=8, enable_fp_fusion=True)
    assert (out == np.float32(2**-24)).all()
    kernel[(1,)](x, y, out, N=8)
    assert (out == np.float32(2**-24)).all()


def test_what_asks_for_a_fused_operation_gets_it(compiled):
    kernel = make(FUSABLE.replace("a * a + tl.load(y + at)", "tl.fma(a, a, tl.load(y + at))"))
    x, y = np.full(8, 1 + 2**-12, np.float32), np.full(8, -1 - 2**-11, np.float32)
    out = np.zeros(8, np.float32)
    kernel[(1,)](x, y, out, N=8, enable_fp_fusion=False)
    assert (out == np.float32(2**-24)).all()


@pytest.mark.parametrize("operation, name, dtype, a, b", [
    ("+", "add", "int32", 2**31 - 1, 1), ("-", "sub", "int32", -2**31, 1),
    ("*", "mul", "int32", 2**16, 2**15), ("+", "add", "uint32", 2**32 - 1, 1),
    ("-", "sub", "uint8", 3, 4), ("*", "mul", "uint32", 2**31, 2**31), ("*", "mul", "int16", 300, 300),
    ("+", "add", "int8", -100, -100),
])
def test_debug_finds_integer_overflow(backend, operation, name, dtype, a, b):
    """As Triton's debug mode; without it integers wrap."""
    kernel = make(f"""@ty.jit
def kernel(x, y, out, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out + at, tl.load(x + at) {operation} tl.load(y + at))
""")
    x, y, out = (np.ones(8, dtype) for _ in range(3))
    kernel[(1,)](x, y, out, N=8, debug=True)
    x[5], y[5] = a, b
    bits = np.dtype(dtype).itemsize * 8
    with pytest.raises(ty.LaunchError, match=f"int{bits} overflow detected for operation {name}"):
        kernel[(1,)](x, y, out, N=8, debug=True)
    kernel[(1,)](x, y, out, N=8)
    with np.errstate(over="ignore"):
        assert out[5] == {"+": x + y, "-": x - y, "*": x * y}[operation][5]


ASSERTING = """@ty.jit
def kernel(x, out):
    value = tl.load(x)
    tl.device_assert(value > 0, "not positive")
    assert value < 10, "too large"
    tl.store(out, value)
"""


def test_assertions_are_checked_unless_debug_is_false(compiled):
    kernel = make(ASSERTING)
    out = np.zeros(1, np.int32)
    for options in ({}, {"debug": True}):
        for value, message in ((-1, "not positive"), (11, "too large")):
            with pytest.raises(ty.LaunchError, match=message):
                kernel[(1,)](np.array([value], np.int32), out, **options)
    kernel[(1,)](np.array([11], np.int32), out, debug=False)
    assert out[0] == 11


ASSUMING = """@ty.jit
def kernel(x, out, n, N: tl.constexpr):
    tl.assume(n > 0)
    tl.assume(N > 1)
    at = tl.arange(0, N)
    found = n if n > 0 else 123456
    tl.store(out + at, tl.load(x + at) + found)
"""


def test_an_assumption_reaches_the_optimiser(compiled):
    kernel = make(ASSUMING)
    x, out = np.arange(8, dtype=np.int32), np.zeros(8, np.int32)
    kernel[(1,)](x, out, 5, N=8)
    np.testing.assert_array_equal(out, x + 5)
    assert "core.assume" in kernel.ir["core"]
    text = kernel.ir["llvm"]
    assert "llvm.assume" in text and "123456" not in text


def test_an_assumption_that_does_not_hold_is_found_in_debug_mode(backend):
    kernel = make(ASSUMING)
    x, out = np.arange(8, dtype=np.int32), np.zeros(8, np.int32)
    with pytest.raises(ty.LaunchError, match="a condition given to tl.assume is false"):
        kernel[(1,)](x, out, -5, N=8, debug=True)


def test_an_assumption_about_a_tile(compiled):
    kernel = make("""@ty.jit
def kernel(x, N: tl.constexpr):
    tl.assume(tl.load(x + tl.arange(0, N)) > 0)
""")
    with pytest.raises(ty.CompileError, match="tl.assume takes one condition, not int1"):
        kernel[(1,)](np.ones(8, np.int32), N=8)
