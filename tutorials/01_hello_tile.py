# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Lesson 1: a kernel works on tiles.

Run it compiled (`python tutorials/01_hello_tile.py`) or, with TILERY_INTERPRET=1, as plain
Python, where a print or a breakpoint inside the kernel works.
"""

import numpy as np

import tilery as ty
import tilery.language as tl


# A kernel is a function under @ty.jit. It runs many times at once, as *program instances*; each
# finds out with tl.program_id which part of the work is its own. tl.arange makes a *tile*, a
# small array whose size is a constant (tl.constexpr) and a power of two. x is a pointer: x + at
# is a tile of pointers, and tl.load reads all of them together. The mask leaves out what lies
# beyond the end.
@ty.jit
def scale_and_add(x, y, out, factor, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    result = factor * tl.load(x + at, mask=inside) + tl.load(y + at, mask=inside)
    tl.store(out + at, result, mask=inside)


def main():
    n = 1000
    x = np.linspace(0, 1, n, dtype=np.float32)
    y = np.ones(n, dtype=np.float32)
    out = np.empty(n, dtype=np.float32)

    # The grid says how many instances there are: enough for n elements in tiles of 256.
    scale_and_add[(ty.cdiv(n, 256),)](x, y, out, 3.0, n, BLOCK=256)

    np.testing.assert_allclose(out, 3 * x + y, rtol=1e-6)
    print(f"3 * x + y is right for all {n} elements, the last tile of which is not full")


if __name__ == "__main__":
    main()
