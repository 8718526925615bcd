# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Kernels that measure: operands, and a wait for copies."""

import tilery as ty
import tilery.language as tl
import tilery.language.device as dl


@ty.jit
def scramble(x):
    """The next of a walk through 32-bit numbers (George Marsaglia, Xorshift RNGs, 2003)."""
    x = x ^ (x << 13)
    x = x ^ ((x >> 17) & 0x7FFF)
    return x ^ (x << 5)


@ty.jit
def fill(out, n, BLOCK: tl.constexpr):
    """out[n] = numbers between -1 and 1 without a pattern, as products draw less power for zeros."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = scramble(scramble(at.to(tl.int32) * 2 + 1))
    tl.store(out + at, (x & 0xFFFF).to(tl.float32) / 32768 - 1, mask=at < n)


@ty.jit
def await_copies(ready, epochs, slots):
    """Until what copy engines bring in this call is there; grid (1,)."""
    epoch = tl.load(epochs)
    for source in range(0, slots):
        if source != dl.rank():
            dl.wait(ready + source, waitValue=epoch, cmp="ge")
