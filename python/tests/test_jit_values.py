# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Outside values of a kernel: which ones it can use, and that a change of them is seen."""

import copy
import enum
import math
import types

import numpy as np
import pytest
from kernel_text import make
from test_errors import fails
from test_jit_source import value_of

import tilery as ty
import tilery.language as tl


def storing(expression: str, **names):
    return make(f"@ty.jit\ndef kernel(out):\n    tl.store(out, {expression})\n", **names)


def test_a_name_that_is_defined_later(backend):
    kernel = storing("LATER")
    scope = kernel.fn.__globals__
    with pytest.raises((ty.CompileError, NameError), match="LATER"):
        value_of(kernel)
    for value in (1, 2):
        scope["LATER"] = value
        assert value_of(kernel) == value
        del scope["LATER"]
        with pytest.raises((ty.CompileError, NameError), match="LATER"):
            value_of(kernel)


def test_a_closure(backend):
    outer = make("""def outer(value):
    @ty.jit
    def kernel(out):
        tl.store(out, value)
    def change(new):
        nonlocal value
        value = new
    return kernel, change
""", "outer")
    kernel, change = outer(1)
    assert value_of(kernel) == 1
    change(2)
    assert value_of(kernel) == 2


@pytest.mark.parametrize("values,place", [([1, 2], "[0]"), (([1, 2], 3), "[0][0]"),
                                          ([(3, [1])], "[0][1][0]")])
def test_a_list_changed_in_place(backend, values, place):
    kernel = storing(f"VALUES{place}", VALUES=copy.deepcopy(values))
    scope = kernel.fn.__globals__
    assert value_of(kernel) == 1
    exec(f"VALUES{place} = 5", scope)
    assert value_of(kernel) == 5
    exec(f"VALUES{place} = 5.5", scope)
    assert value_of(kernel) == 5.5


@pytest.mark.parametrize("wrap", [lambda c: c, lambda c: (c,), lambda c: [c]])
def test_a_constexpr_whose_value_changed(compiled, wrap):
    constant = tl.constexpr(3)
    kernel = storing("C" if wrap(constant) is constant else "C[0]", C=wrap(constant))
    assert value_of(kernel) == 3
    constant.value = 4
    assert value_of(kernel) == 4


def test_a_function_in_a_tuple(backend):
    helper = make("@ty.jit\ndef helper(x):\n    return x + G\n", "helper", G=1)
    kernel = storing("FUNCTIONS[0](10.0)", FUNCTIONS=(helper,))
    assert value_of(kernel) == 11
    helper.fn.__globals__["G"] = 2
    assert value_of(kernel) == 12


def test_a_builtin_that_is_shadowed_later(backend):
    kernel = storing("max(3, 4)")
    assert value_of(kernel) == 4
    kernel.fn.__globals__["max"] = make("@ty.jit\ndef first(a, b):\n    return a\n", "first")
    if backend == "cpu":
        assert value_of(kernel) == 3


def test_equal_values_keep_the_compiled_kernel(compiled):
    kernel = storing("G", G=1000)
    for value in (1000, 2000, 1000, 2000):
        kernel.fn.__globals__["G"] = int(str(value))
        assert value_of(kernel) == value
    assert len(kernel._handles) == 2


@pytest.mark.parametrize("value", [np.int64(-3), np.uint8(200), np.float32(0.5), np.float64(0.25),
                                   np.bool_(True), 2**63 - 1])
def test_numpy_scalars(backend, value):
    kernel = storing("G", G=value)
    assert value_of(kernel) == float(value)


def test_constants_of_other_modules(compiled):
    settings = types.ModuleType("settings")
    settings.inner, settings.WIDTH = types.ModuleType("inner"), 4
    settings.inner.helper = make("@ty.jit\ndef helper(x):\n    return x + 1\n", "helper")
    names = {"math": math, "np": np, "settings": settings, "math_pi": 1}
    kernel = storing("math.pi + np.e + settings.inner.helper(settings.WIDTH) + math_pi", **names)
    assert value_of(kernel) == pytest.approx(math.pi + np.e + 5 + 1)
    settings.WIDTH = 8
    assert value_of(kernel) == pytest.approx(math.pi + np.e + 9 + 1)


class Plain(enum.Enum):
    ONE = 1


class Numbers(enum.IntEnum):
    THREE = 3


def test_members_of_an_integer_enumeration(compiled):
    assert value_of(storing("G", G=Numbers.THREE)) == 3


def plain(x):
    return x


class Thing:
    VALUE = 1


@pytest.mark.parametrize("expression,value,texts", [
    ("G(1)", plain, ["'G' is a Python function", "hint: add @ty.jit to 'plain'"]),
    ("G['a']", {"a": 1}, ["'G' is a dictionary", "hint: pass its values as tl.constexpr"]),
    ("G.VALUE", Thing(), ["'G' is a Thing, which a kernel", "hint: kernels use numbers"]),
    ("G.VALUE", Thing, ["'G' is the class Thing"]),
    ("G", 2**64, ["'G' is 18446744073709551616, which does not fit in 64 bits"]),
    ("G", tl.constexpr(-2**63 - 1), ["'G' is -9223372036854775809, which does not fit"]),
    ("G[1]", (1, (2, {})), [r"'G\[1\]\[1\]' is a dictionary"]),
    ("G.floor(1.5)", math, ["'G.floor' is a builtin_function_or_method"]),
    ("G.float32", np, ["'G.float32' is an element type of NumPy", "hint: use tl.float32"]),
    ("G", Plain.ONE, ["'G' is a Plain, which a kernel cannot use"]),
    ("G.pie", math, ["module 'math' has no 'pie'"])])
def test_values_that_a_kernel_cannot_use(compiled, expression, value, texts):
    with fails(ty.CompileError, r"\.py:3:19: error: ", *texts):
        value_of(storing(expression, G=value))


def test_a_value_that_is_not_used(backend):
    kernel = make("""@ty.jit
def kernel(out, FANCY: tl.constexpr = False):
    if FANCY:
        tl.store(out, G["a"] + np.nosuch + plain(1))
    else:
        tl.store(out, 1)
""", G={"a": 1}, np=np, plain=plain)
    assert value_of(kernel) == 1


def test_the_text_of_a_kernel_with_such_a_value(compiled):
    with fails(ty.CompileError, "'G' is a dictionary"):
        storing("G", G={}).warmup(np.zeros(1))
    helper = make("@ty.jit\ndef helper(x):\n    return x + 1 + G\n", "helper", G={})
    with fails(ty.CompileError, r":3:20: error: 'G' is a dictionary"):
        value_of(storing("helper(1)", helper=helper))


def test_a_default_that_a_kernel_cannot_use(compiled):
    with fails(ty.CompileError, r"\.py:2:17: error: 's' is a dictionary"):
        value_of(make("@ty.jit\ndef kernel(out, s={}):\n    tl.store(out, 1)\n"), s=1)


def test_locals_with_the_name_of_something_outside(backend):
    kernel = make("""@ty.jit
def kernel(out, plain=1):
    Thing = 2
    tl.store(out, plain + Thing)
""", plain=plain, Thing=Thing)
    assert value_of(kernel) == 3
