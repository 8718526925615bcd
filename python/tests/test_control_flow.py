# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Statements of the language: loops, branches, early return, nested functions, constants."""

import typing

import numpy as np
import pytest
from kernel_text import make

import tilery as ty
import tilery.language as tl


def run(source: str, *args, out=None, grid=(1,), **constants):
    out = np.zeros(8, np.int32) if out is None else out
    make(source)[grid](out, *args, **constants)
    return out


def test_for_and_while(backend):
    out = run('''@ty.jit
def kernel(out, n):
    total = 0
    for i in range(n):
        total += i
    tl.store(out, total)
    steps = 0
    while n > 1:
        n = tl.where(n % 2 == 0, n // 2, 3 * n + 1)
        steps += 1
    tl.store(out + 1, steps)
''', 27)
    np.testing.assert_array_equal(out[:2], [351, 111])


@pytest.mark.parametrize("n", [0, 1, 2, 7])
def test_loop_bounds_and_steps(backend, n):
    out = run('''@ty.jit
def kernel(out, n):
    total = 0
    for i in range(3, n, 2):
        total += i
    for j in tl.range(n, num_stages=3):
        total += 100
    for k in range(n, 0, -1):
        total += 1000 * k
    tl.store(out, total)
''', n)
    assert out[0] == sum(range(3, n, 2)) + 100 * n + 1000 * sum(range(n, 0, -1))


def test_static_range_and_constexpr_if(backend):
    source = '''@ty.jit
def kernel(out, N: tl.constexpr, KIND: tl.constexpr):
    for i in tl.static_range(N):
        if KIND == "square":
            tl.store(out + i, i * i)
        elif KIND == "none":
            pass
        else:
            tl.store(out + i, -i)
'''
    np.testing.assert_array_equal(run(source, N=4, KIND="square")[:4], [0, 1, 4, 9])
    np.testing.assert_array_equal(run(source, N=4, KIND="other")[:4], [0, -1, -2, -3])
    assert not run(source, N=4, KIND="none").any()


def test_branches_on_values_and_early_return(backend):
    out = run('''@ty.jit
def kernel(out, n):
    pid = tl.program_id(0)
    if pid >= n:
        return
    if pid == 0:
        value = 10
    elif pid == 1:
        value = 20
    else:
        value = pid
    tl.store(out + pid, value)
''', 4, grid=(8,))
    np.testing.assert_array_equal(out, [10, 20, 2, 3, 0, 0, 0, 0])


def test_conditions(backend):
    out = run('''@ty.jit
def kernel(out, a, b):
    tl.store(out, 1 if a < b else 2)
    if a < b and b < 100:
        tl.store(out + 1, 1)
    if a > b or not (b == 7):
        tl.store(out + 2, 1)
    if 0 < a < b:
        tl.store(out + 3, 1)
''', 3, 7)
    np.testing.assert_array_equal(out[:4], [1, 1, 0, 1])


def test_carried_tiles(backend):
    out = run('''@ty.jit
def kernel(out, n):
    at = tl.arange(0, 8)
    a, b = tl.zeros((8,), tl.int32), tl.full((8,), 1, tl.int32)
    for i in range(n):
        a, b = b, a + b
    tl.store(out + at, a + at)
''', 10)
    np.testing.assert_array_equal(out, 55 + np.arange(8))


def test_nested_functions_with_defaults_tuples_and_keywords(backend):
    out = run('''@ty.jit
def swap(a, b):
    return b, a

@ty.jit
def scaled(x, FACTOR: tl.constexpr = 3, shift=1):
    return x * FACTOR + shift

@ty.jit
def kernel(out, n):
    a, b = swap(n, 5)
    tl.store(out, a)
    tl.store(out + 1, scaled(b))
    tl.store(out + 2, scaled(b, FACTOR=10))
    tl.store(out + 3, scaled(b, 2, shift=7))
''', 4)
    np.testing.assert_array_equal(out[:4], [5, 13, 41, 15])


LIMIT = 17
FLAG = tl.constexpr(3)


@ty.jit
def uses_globals(out):
    tl.store(out, LIMIT + FLAG)


def test_a_changed_global_is_noticed(backend):
    """Case 70: no stale kernel after a global constant has changed."""
    global LIMIT
    out = np.zeros(1, np.int32)
    for LIMIT in (17, 40):
        uses_globals[(1,)](out)
        assert out[0] == LIMIT + 3


def test_closures(backend):
    def maker(constant):
        @ty.jit
        def kernel(out):
            tl.store(out, constant)
        return kernel
    out = np.zeros(1, np.int32)
    for constant in (3, 8):
        maker(constant)[(1,)](out)
        assert out[0] == constant


def test_defaults_and_functions_of_the_grid(backend):
    kernel = make('''@ty.jit
def kernel(out, n, BLOCK: tl.constexpr = 4):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, at + 1, mask=at < n)
''')
    for constants in ({}, {"BLOCK": 2}):
        out = np.zeros(8, np.int32)
        kernel[lambda meta: (ty.cdiv(meta["n"], meta["BLOCK"]),)](out, 7, **constants)
        np.testing.assert_array_equal(out, [1, 2, 3, 4, 5, 6, 7, 0])


def test_none_and_dtype_arguments(backend):
    kernel = make('''@ty.jit
def kernel(out, bias, TYPE: tl.constexpr):
    value = tl.full((8,), 2.5, TYPE)
    if bias is not None:
        value += tl.load(bias)
    tl.store(out + tl.arange(0, 8), value)
''')
    out = np.zeros(8, np.float32)
    kernel[(1,)](out, None, TYPE=tl.float32)
    np.testing.assert_array_equal(out, 2.5)
    kernel[(1,)](out, np.array([4], np.float32), TYPE=tl.int32)
    np.testing.assert_array_equal(out, 6)


def test_grid_of_zero_does_nothing(backend):
    source = '''@ty.jit
def kernel(out):
    tl.store(out, 1)
'''
    for grid in ((0,), (4, 0), (1, 1, 0)):
        assert not run(source, grid=grid).any()


def test_float_arguments(backend):
    out = np.zeros(2, np.float32)
    make('''@ty.jit
def kernel(out, scale, wide):
    tl.store(out, scale * 2)
    tl.store(out + 1, wide)
''')[(1,)](out, 0.1, np.float64(1e-3))
    np.testing.assert_array_equal(out, np.float32([np.float32(0.1) * 2, 1e-3]))


class Span(typing.NamedTuple):
    start: tl.tensor
    size: tl.constexpr
    step: int = 1


ORIGIN = Span(10, 4)


@ty.jit
def grown(span):
    return Span(span.start + 1, size=span.size, step=span.step * 2)


@ty.jit
def spans(out, n):
    span = Span(n, 8)
    tl.static_assert(span.size == 8 and ORIGIN.step == 1)
    for _ in range(2):
        span = Span(span.start + ORIGIN.start, span.size, span.step)
    if n > 2:
        span = Span(span.start + 100, span.size)
    span = grown(span)
    start, size, step = span
    tl.store(out, start)
    tl.store(out + 1, step + span.size)


def test_named_tuples(backend):
    out = np.zeros(2, np.int32)
    spans[(1,)](out, 3)
    assert out.tolist() == [3 + 20 + 100 + 1, 2 + 8]


COUNT = """@ty.jit
def kernel(out, a, b, c):
    n = 0
    for i in range(a, b, c):
        n += 1
        tl.store(out + n, i)
    tl.store(out, n)
"""


@pytest.mark.parametrize("bounds", [
    (10, 0, -3), (0, 10, 3), (2**31 - 3, 2**31 - 1, 16), (5, 5, 1), (0, -5, 2), (-5, 5, 3),
    (2**33, 2**33 + 5, 2), (3, -4, -2), (10, 0, 3)])
def test_ranges_with_run_time_steps_are_pythons(backend, bounds):
    """Steps of either sign, and bounds where the next index would not fit int32."""
    out = np.zeros(32, np.int64)
    make(COUNT)[(1,)](out, *bounds)
    assert out[1:1 + out[0]].tolist() == list(range(*bounds))


def test_a_run_time_step_of_zero_is_an_error(compiled):
    with pytest.raises(ty.LaunchError, match="the step of a range is 0"):
        make(COUNT)[(1,)](np.zeros(8, np.int64), 0, 5, 0)
