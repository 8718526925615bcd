# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Grids, launch options and options of ty.jit: what they may be, and the errors else."""

import numpy as np
import pytest
from kernel_text import make
from test_errors import fails

import tilery as ty

COUNT = """@ty.jit
def kernel(out, n=0):
    tl.atomic_add(out, 1)
"""


def launch(grid, **options):
    out = np.zeros(1, np.int32)
    make(COUNT)[grid](out, **options)
    return out[0]


@pytest.mark.parametrize("grid,count", [
    (3, 3), ([2, 2], 4), (np.int64(3), 3), ((np.int32(2), 3), 6), ((2, np.int64(2), 2), 8),
    (lambda meta: (2, 3), 6), (0, 0), ((2, 0, 2), 0), (True, 1)])
def test_grids(backend, grid, count):
    assert launch(grid) == count


@pytest.mark.parametrize("extent", [None, 1.5, 2.0, "2", np.float32(1), {}, np.zeros(2)])
@pytest.mark.parametrize("wrap", [lambda n: n, lambda n: (n,), lambda n: (1, 1, n),
                                  lambda n: lambda meta: (1, n)])
def test_extents_that_are_no_integers(backend, extent, wrap):
    with fails(ty.LaunchError, "a grid's extents are integers, got ", type(extent).__name__):
        launch(wrap(extent))


@pytest.mark.parametrize("extent", [-1, 2**31, 2**63, 2**100, -2**100])
@pytest.mark.parametrize("wrap", [lambda n: n, lambda n: (n, 1, 1), lambda n: [1, n]])
def test_extents_out_of_range(backend, extent, wrap):
    with fails(ty.LaunchError, str(extent), "2147483647"):
        launch(wrap(extent))


@pytest.mark.parametrize("value", [True, None, object(), {}])
def test_unknown_options(backend, value):
    with fails(ty.ConfigError, "'kernel' has no parameter or option 'sanitize_overflow'"):
        launch(1, sanitize_overflow=value)


def test_options_from_numpy(compiled):
    assert launch(1, num_warps=np.int64(4), debug=np.bool_(True)) == 1


@pytest.mark.parametrize("value,text", [
    (object(), "must be a number or a flag, not a object"), ([4], "not a list"),
    ("x", "must be an integer from 1 to 32"), (1.5, "must be an integer from 1 to 32")])
def test_values_of_options(compiled, value, text):
    with fails(ty.ConfigError, "launch option 'num_warps' ", text):
        launch(1, num_warps=value)


@pytest.mark.parametrize("name", ["timeout", "stream"])
def test_numbers_that_say_how_to_launch(backend, name):
    for value in ("x", [1], object()):
        with fails(ty.ConfigError, f"launch option '{name}' must be a number, got "):
            launch(1, **{name: value})


@pytest.mark.parametrize("given,text", [
    (["nosuch"], "'kernel' has no parameter 'nosuch'; known names: out, n"),
    (["ou"], r"has no parameter 'ou'; did you mean 'out'\?"),
    ([2], "no parameter number 2; it has 2"), ([-1], "no parameter number -1"),
    ("n", "is a list of parameters, got 'n'"),
    (1, "is a list of parameters, got 1")])
def test_do_not_specialize(given, text):
    with fails(ty.ConfigError, "do_not_specialize", text):
        make(COUNT.replace("jit", f"jit(do_not_specialize={given!r})"))


@pytest.mark.parametrize("value,text", [
    (dict, "the class 'dict'"), (len, "the builtin_function_or_method 'len'"), (3, "the int '3'")])
def test_what_a_kernel_is_made_of(value, text):
    with fails(ty.ConfigError, "ty.jit makes kernels of Python functions", text):
        ty.jit(value)


def test_num_warps_is_a_power_of_two(compiled):
    with pytest.raises(ty.ConfigError, match="'num_warps' must be a power of two, not 3"):
        launch(1, num_warps=3)
