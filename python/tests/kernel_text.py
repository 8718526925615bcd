# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Kernels from source text, so that one test makes many; the text is found by inspect."""

from __future__ import annotations

import itertools
import linecache

import tilery as ty
import tilery.language as tl
import tilery.language.device as dl

_numbers = itertools.count()


def make(source: str, name: str = "kernel", **names):
    """The kernel `name` of `source`, in which ty, tl, dl and `names` are known."""
    file = f"/generated/kernel_{next(_numbers)}.py"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    scope = {"ty": ty, "tl": tl, "dl": dl, "__name__": "generated", **names}
    exec(compile(source, file, "exec"), scope)
    return scope[name]


ELEMENTWISE = '''@ty.jit
def kernel({inputs}, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
{loads}
    tl.store(out + at, {expression}, mask=mask)
'''


def elementwise(expression: str, names: str = "a"):
    """A kernel that stores `expression` of its inputs, which are named `names`."""
    loads = "\n".join(f"    {x} = tl.load(in_{x} + at, mask=mask, other=1)" for x in names)
    inputs = ", ".join(f"in_{x}" for x in names)
    return make(ELEMENTWISE.format(inputs=inputs, loads=loads, expression=expression))


def apply(kernel, arrays, out, block: int = 64):
    """Runs an elementwise kernel over all elements; returns `out`."""
    kernel[(ty.cdiv(out.size, block),)](*arrays, out, out.size, BLOCK=block)
    return out
