# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Cases from the field, section D, as far as the language's own tests do not hold them.

Cases 54 and 60 are in test_memory.py, 63 in test_dot.py, 66 and 72 in test_errors.py, 70 in
test_control_flow.py.
"""

import numpy as np
from backends import numpy_type
from kernel_text import make
from test_cases_host import python
from test_errors import fails

import pytest
import tilery as ty


@pytest.mark.parametrize("block", [48, 80])
def test_63_extents_that_are_no_power_of_two(backend, block):
    with fails(ty.CompileError, str(block), "power"):
        make('''@ty.jit
def kernel(x, BLOCK: tl.constexpr):
    tl.store(x + tl.arange(0, BLOCK), tl.zeros((BLOCK,), tl.float32))
''')[(1,)](np.zeros(128, np.float32), BLOCK=block)


def test_67_a_descriptor_made_in_a_loop(backend):
    x = np.random.default_rng(1).standard_normal((3, 16, 16)).astype(np.float32)
    out = np.zeros((16, 16), np.float32)
    make('''@ty.jit
def kernel(x, out, n):
    acc = tl.zeros((16, 16), tl.float32)
    for i in range(n):
        d = tl.make_tensor_descriptor(x + i * 256, [16, 16], [16, 1], [16, 16])
        acc += d.load([0, 0])
    o = tl.make_tensor_descriptor(out, [16, 16], [16, 1], [16, 16])
    o.store([0, 0], acc)
''')[(1,)](x, out, 3)
    np.testing.assert_allclose(out, x.sum(axis=0), rtol=1e-5, atol=1e-6)


def test_67_a_descriptor_needs_a_last_stride_of_1(backend):
    with fails(ty.CompileError, "stride", "1", "2"):
        make('''@ty.jit
def kernel(x):
    d = tl.make_tensor_descriptor(x, [16, 8], [16, 2], [16, 8])
    tl.store(x, tl.sum(tl.sum(d.load([0, 0]), axis=1), axis=0))
''')[(1,)](np.zeros((16, 16), np.float32))


def test_69_nested_calls_and_bfloat16(backend):
    """The interpreter and the CPU are held to the same results."""
    x = np.linspace(-4, 4, 64).astype(numpy_type("bf16"))
    out = np.zeros_like(x)
    make('''@ty.jit
def square(v):
    return v * v

@ty.jit
def polynomial(v, TERMS: tl.constexpr):
    total = v
    for i in tl.static_range(TERMS):
        total = square(total) * 0.5
    return total

@ty.jit
def kernel(x, out):
    at = tl.arange(0, 64)
    v = tl.load(x + at)
    tl.static_assert(v.dtype == tl.bfloat16)
    tl.store(out + at, polynomial(v.to(tl.float32), 2))
''')[(1,)](x, out)
    wide = x.astype(np.float64)
    expected = ((wide**2 * 0.5)**2 * 0.5)
    np.testing.assert_allclose(out.astype(np.float64), expected, rtol=2**-7)


def test_70_a_changed_source_file(backend, tmp_path):
    """A kernel imported from another file is not taken from a warm cache once it has changed."""
    (tmp_path / "main.py").write_text("""
import numpy as np, tilery as ty, tilery.language as tl
from callee import value

@ty.jit
def kernel(out):
    tl.store(out, value())

out = np.zeros(1, np.int32)
kernel[(1,)](out)
print(out[0])
""")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); sys.dont_write_bytecode = True; " \
           "import main"
    for result in (3, 4, 3):
        (tmp_path / "callee.py").write_text(
            f"import tilery as ty\n\n@ty.jit\ndef value():\n    return {result}\n")
        done = python(code, interpret=backend == "interpret",
                      TILERY_CACHE_DIR=str(tmp_path / "cache"))
        assert done.stdout.strip() == str(result), done.stderr


def test_72_an_option_that_the_target_ignores_changes_nothing(backend):
    kernel = make('''@ty.jit
def kernel(x):
    tl.store(x, 2.0)
''')
    for options in ({"num_warps": 8}, {"num_stages": 2}, {}):
        x = np.zeros(1, np.float32)
        kernel[(1,)](x, **options)
        assert x[0] == 2
