# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""What of a kernel's source reaches the compiler: decorators, annotations, defaults, layout."""

import linecache

import numpy as np
import pytest
from kernel_text import make
from test_errors import fails

import tilery as ty

FILL = '''
def kernel(out, M, BM: tl.constexpr):
    at = tl.arange(0, BM)
    tl.store(out + at, M, mask=at < M)
'''


def value_of(kernel, **names):
    """What a kernel of one array stores."""
    out = np.zeros(1, np.float64)
    kernel[(1,)](out, **names)
    return out[0]


@pytest.mark.parametrize("decorators", [
    "@ty.autotune(configs=[ty.Config({'BM': 32})], key=['M'])\n@ty.jit",
    "@ty.heuristics({\n    'BM': lambda args: 32,\n})\n@ty.jit",
    "@ty.jit(do_not_specialize=['M'])", "@ty.jit(do_not_specialize=[1])"])
def test_decorators_stay_in_python(backend, decorators):
    kernel = make(decorators + FILL)
    out = np.zeros(32, np.int32)
    kernel[(1,)](out, 7, **({"BM": 32} if "do_not" in decorators else {}))
    assert out.sum() == 49


def test_do_not_specialize_reaches_the_compiler(compiled):
    both = [make(f"@ty.jit{given}{FILL}").warmup(np.zeros(32), 16, 32)["core"]
            for given in ("", "(do_not_specialize=['M'])")]
    assert both[0] != both[1]


def test_annotations_stay_in_python(backend):
    kernel = make('''@ty.jit
def kernel(out: {"any": dict}, a: (int) = 3, *, B: "tl.constexpr" = 4, C: Const = (
        5)) -> ({"of": None}):
    tl.static_assert(B == 4)
    tl.static_assert(C == 5)
    tl.store(out, a + B + C)
''', Const=ty.language.constexpr)
    assert value_of(kernel) == 12


@pytest.mark.parametrize("header", [
    "@ty.autotune([ty.Config({})], key=[])\n@ty.jit\ndef kernel(out):",
    "@ty.jit\n# why\ndef kernel(\n    out: {},\n    a={1: 2}[1],\n):"])
def test_places_in_the_body(compiled, header):
    with fails(ty.CompileError, rf"\.py:{header.count(chr(10)) + 2}:27: error", "unknown_name"):
        value_of(make(f"{header}\n    tl.store(out, 1 + 2 * unknown_name)\n"))


def test_defaults_are_those_of_the_definition(backend):
    scope = make('''G, H = 2, 3

@ty.jit
def helper(x, s=G, *, t=H * 10, u=-1):
    return x * s + t + u

@ty.jit
def kernel(out, v=G + 0.5):
    tl.store(out, helper(v))

G, H = 100, 100
''').fn.__globals__
    assert value_of(scope["kernel"]) == 2.5 * 2 + 30 - 1


def test_source_is_taken_at_the_definition(compiled):
    kernel = make("@ty.jit\ndef kernel(out):\n    tl.store(out, 1)\n")
    file = kernel.fn.__code__.co_filename
    changed = "@ty.jit\ndef kernel(out):\n    tl.store(out, 2)\n"
    linecache.cache[file] = (len(changed), None, changed.splitlines(keepends=True), file)
    assert value_of(kernel) == 1


def test_lines_indented_less_than_the_kernel(backend):
    factory = make('''class Kernels:
    def all():
        @ty.jit
        def kernel(out):
            """A docstring
    whose lines start further left
"""
# and a comment
            tl.store(out, (1 +
    2))
        return kernel
''', "Kernels").all
    assert value_of(factory()) == 3


def test_characters_of_several_bytes(backend):
    kernel = make("""@ty.jit
def kernel(out, s: 'é' = len('é'), größe: tl.constexpr = len('ééé')):
    tl.store(out, größe + s)
""")
    assert value_of(kernel) == 4


def test_a_lambda_is_no_kernel(compiled):
    with fails(ty.CompileError, "is not written as a def"):
        value_of(make("kernel = ty.jit(lambda out: tl.store(out, 1))\n"))


def test_a_kernel_on_the_first_line(compiled):
    with fails(ty.CompileError, r"\.py:1:25: error", "unknown_name"):
        value_of(make("def kernel(out): return unknown_name\nkernel = ty.jit(kernel)\n"))
