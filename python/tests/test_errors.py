# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Error texts: what is wrong, in the user's words, with both values and a hint."""

from pathlib import Path

import numpy as np
import pytest
from kernel_text import make

import tilery as ty
import tilery.language as tl

DOUBLE = '''@ty.jit
def double(x, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + at, 2 * tl.load(x + at, mask=at < n), mask=at < n)
'''


@pytest.fixture
def double():
    return make(DOUBLE, "double")


def fails(kind, *texts):
    """A context that expects an error of `kind` whose message has all `texts`."""
    return pytest.raises(kind, match="(?s)" + "".join(f"(?=.*(?:{text}))" for text in texts))


ARRAY = np.zeros(16, np.float32)


def test_unknown_keyword(backend, double):
    """Case 72: the nearest name is offered."""
    with fails(ty.ConfigError, "'BLOK'", r"did you mean 'BLOCK'\?"):
        double[(1,)](ARRAY, 16, BLOK=16)
    with fails(ty.ConfigError, "'num_warp'", r"did you mean 'num_warps'\?"):
        double[(1,)](ARRAY, 16, BLOCK=16, num_warp=4)


def test_missing_double_and_surplus_arguments(backend, double):
    with fails(ty.LaunchError, "'double' needs argument 'n'"):
        double[(1,)](ARRAY, BLOCK=16)
    with fails(ty.LaunchError, "'double' got argument 'x' twice"):
        double[(1,)](ARRAY, 16, 16, x=ARRAY)
    with fails(ty.LaunchError, "takes 3 arguments, got 4"):
        double[(1,)](ARRAY, 16, 16, 16)


def test_a_direct_call(backend, double):
    with fails(ty.LaunchError, r"launched with double\[grid\]"):
        double(ARRAY, 16, 16)


def test_wrong_kinds_of_arguments(backend, double):
    with fails(ty.LaunchError, "argument 'x' is a object"):
        double[(1,)](object(), 16, BLOCK=16)
    with fails(ty.LaunchError, "argument 'x' has element type complex64"):
        double[(1,)](np.zeros(4, np.complex64), 4, BLOCK=16)
    with fails(ty.LaunchError, "argument 'x' has the other byte order"):
        double[(1,)](np.zeros(4, ">f4"), 4, BLOCK=16)


def test_memory_that_cannot_be_used(backend, double):
    with fails(ty.LaunchError, "argument 'x' has negative strides", "pass a copy"):
        double[(1,)](ARRAY[::-1], 16, BLOCK=16)
    raw = np.zeros(70, np.uint8)
    shift = 1 if raw.ctypes.data % 4 == 0 else 0
    with fails(ty.LaunchError, "argument 'x' is misaligned", "element size 4"):
        double[(1,)](raw[shift + 0:shift + 64].view(np.float32), 16, BLOCK=16)
    frozen = np.zeros(16, np.float32)
    frozen.flags.writeable = False
    with fails(ty.LaunchError, "argument 'x'", "is read-only, but the kernel writes it"):
        double[(1,)](frozen, 16, BLOCK=16)


def test_grids(backend, double):
    with fails(ty.LaunchError, "1 to 3 extents, got 4"):
        double[(1, 1, 1, 1)](ARRAY, 16, BLOCK=16)
    with fails(ty.LaunchError, "grid", "out of range|must be 0 to 2147483647"):
        double[(2**31,)](ARRAY, 16, BLOCK=16)
    with fails(ty.LaunchError, "grid", "out of range|must be 0 to 2147483647"):
        double[(-1,)](ARRAY, 16, BLOCK=16)


def test_an_integer_beyond_64_bits(backend, double):
    with fails(ty.Error, "64 bits"):
        double[(1,)](ARRAY, 2**64, BLOCK=16)


# Errors of the kernel's own code: (body, texts)
WRONG = [
    ("tl.store(x + tl.arange(0, 3), 0.0)", ["power"]),
    ("tl.store(x + tl.arange(0, n), 0.0)", ["const"]),
    ("y = tl.arange(0, 4) + tl.arange(0, 8)", ["4", "8"]),
    ("y = tl.dot(tl.zeros((4, 8), tl.float32), tl.zeros((4, 8), tl.float32))", ["8", "4"]),
    ("y = tl.load(n)", ["pointer"]),
    ("y = x + 1.5", ["integer|int|pointer"]),
    ("tl.static_assert(BLOCK == 3, 'BLOCK must be 3')", ["BLOCK must be 3"]),
    ("y = tl.reshape(tl.arange(0, 8), (4, 4))", ["8", "16"]),
    ("y = tl.sum(tl.arange(0, 8), axis=1)", ["axis"]),
    ("y = tl.zeros((4,), tl.float32) & 1", ["int|float|fp32"]),
    ("y = tl.full((4,), 1, tl.int8) + 300", ["300", "int8"]),
]


@pytest.mark.parametrize("body,texts", WRONG)
def test_errors_in_a_kernel_are_located(backend, body, texts):
    """Case 66: plain text with the place, never an internal failure."""
    source = f"@ty.jit\ndef kernel(x, n, BLOCK: tl.constexpr):\n    {body}\n    tl.store(x, 1.0)\n"
    with fails(ty.CompileError, r"kernel_\d+\.py:3:\d+: error: ", "~|\\^", *texts):
        make(source)[(1,)](ARRAY, 16, BLOCK=16)


def test_device_assert(backend):
    kernel = make('''@ty.jit
def kernel(x, n):
    tl.device_assert(n < 10, "n is too large")
    tl.store(x, 1.0)
''')
    kernel[(1,)](ARRAY, 9, debug=True)
    with fails(ty.LaunchError, "n is too large"):
        kernel[(1,)](ARRAY, 10, debug=True)


def test_out_of_bounds_names_the_argument(interpreted, double):
    with fails(ty.LaunchError, "argument 'x' out of bounds: element 16 of 16", "hint: mask",
               r":4:\d+: error"):
        double[(1,)](ARRAY, 17, BLOCK=32)


def test_negative_literal_with_unsigned(backend):
    with fails(ty.CompileError, "-1", "uint8"):
        make('''@ty.jit
def kernel(x):
    y = tl.full((4,), 1, tl.uint8) + (-1)
    tl.store(x, 1.0)
''')[(1,)](ARRAY)


def test_functions_outside_of_a_kernel():
    with fails(ty.CompileError, "only inside a kernel"):
        tl.program_id(0)


def test_options_of_the_decorators():
    with fails(ty.ConfigError, "ty.jit has no option 'do_not_specialise'", "do_not_specialize"):
        ty.jit(do_not_specialise=[0])(lambda x: None)
    with fails(ty.ConfigError, "Config has no option 'num_warp'", "num_warps"):
        ty.Config({}, num_warp=4)


def test_columns_of_an_indented_kernel(backend):
    """A kernel inside of a function: line, column and the underlined text are those of the file."""
    @ty.jit
    def kernel(x):
        tl.store(x + tl.arange(0, 3), 1)  # three elements

    with pytest.raises(ty.CompileError) as caught:
        kernel[(1,)](np.zeros(4, np.float32))
    lines = Path(__file__).read_text().splitlines()
    number = next(i for i, line in enumerate(lines, 1) if line.endswith("# three elements"))
    column = lines[number - 1].index("tl.arange") + 1
    text = str(caught.value).splitlines()
    assert text[0].startswith(f"{__file__}:{number}:{column}: error:")
    assert text[1] == lines[number - 1]
    assert text[2].rstrip() == " " * (column - 1) + "~" * len("tl.arange(0, 3)")


def test_columns_of_a_failure_at_run_time(compiled):
    if True:
        @ty.jit
        def kernel(x):
            tl.device_assert(tl.load(x) > 0, "not positive")

        with pytest.raises(ty.LaunchError) as caught:
            kernel[(1,)](np.zeros(1, np.float32))
    place, shown = str(caught.value).splitlines()[:2]
    assert place.split(":")[2] == "13" and shown.strip().startswith("tl.device_assert(tl.load(x)")
