# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Loops of products whose operands are copied ahead on GPUs: every layout and type, trip counts around
the number of stages, masks along the depth, arrays that the kernel writes. Small integers, so that all
sums are exact."""

import ml_dtypes
import numpy as np
import pytest
from kernel_text import make

import tilery.language as tl

TYPES = {"bf16": ml_dtypes.bfloat16, "fp16": np.float16, "tf32": np.float32, "int8": np.int8,
         "fp8e4nv": ml_dtypes.float8_e4m3fn, "fp8e5": ml_dtypes.float8_e5m2}
DEPTH = 64

product = make('''@ty.jit
def kernel(a, b, c, M, N, K, am, ak, bk, bn, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
            ACC: tl.constexpr, TRANS: tl.constexpr):
    m, n = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN)
    r = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), ACC)
    left = a + m[:, None] * am + r[None, :] * ak
    if TRANS:
        right = b + n[:, None] * bn + r[None, :] * bk
    else:
        right = b + r[:, None] * bk + n[None, :] * bn
    for k in range(0, K, BK):
        x = tl.load(left, mask=(m[:, None] < M) & (k + r[None, :] < K), other=0)
        if TRANS:
            y = tl.trans(tl.load(right, mask=(n[:, None] < N) & (k + r[None, :] < K), other=0))
        else:
            y = tl.load(right, mask=(k + r[:, None] < K) & (n[None, :] < N), other=0)
        acc = tl.dot(x, y, acc)
        left += BK * ak
        right += BK * bk
    tl.store(c + m[:, None] * N + n[None, :], acc, mask=(m[:, None] < M) & (n[None, :] < N))
''')


def small_integers(shape, kind):
    rng = np.random.default_rng(sum(shape))
    return rng.integers(-4, 5, shape).astype(np.float32).astype(TYPES[kind])


def check(kind, depth, *, order="KN", trans=False, rows=32, columns=64, m=80, n=112, **options):
    """`order`: the contiguous dimensions of a and b."""
    a, b = small_integers((m, depth), kind), small_integers((depth, n), kind)
    left = a if order[0] == "K" else np.ascontiguousarray(a.T)
    right = b if order[1] == "N" else np.ascontiguousarray(b.T)
    steps = [*((depth, 1) if order[0] == "K" else (1, m)), *((n, 1) if order[1] == "N" else (1, depth))]
    is_int = kind == "int8"
    c = np.full((m, n), -1, np.int32 if is_int else np.float32)
    if depth == 0:  # no array is without elements
        left = right = np.zeros((16, 16), TYPES[kind])
    product[(-(-m // rows), -(-n // columns))](
        left, right, c, m, n, depth, *steps, BM=rows, BN=columns, BK=DEPTH,
        ACC=tl.int32 if is_int else tl.float32, TRANS=trans, **options)
    np.testing.assert_array_equal(c, a.astype(np.float64) @ b.astype(np.float64))


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("order", ["KN", "KK", "MN", "MK"])
@pytest.mark.parametrize("trans", [False, True])
def test_layouts_and_types(backend, kind, order, trans):
    if backend == "cpu" and kind.startswith("fp8"):
        pytest.skip("fp8 values are not supported on the CPU target")
    check(kind, 3 * DEPTH, order=order, trans=trans)


@pytest.mark.parametrize("stages", [1, 2, 3, 4])
def test_trip_counts(backend, stages):
    for trips in range(stages + 2):
        check("bf16", trips * DEPTH, num_stages=stages)


@pytest.mark.parametrize("depth", [1, 8, 16, 48, 72, 80, 100, 176])
@pytest.mark.parametrize("order", ["KN", "MK"])
def test_masks_along_the_depth(backend, depth, order):
    check("fp16", depth, order=order)


@pytest.mark.parametrize("rows,columns", [(16, 16), (16, 128), (128, 16), (64, 64), (128, 128)])
@pytest.mark.parametrize("warps", [1, 2, 4, 8])
def test_tiles_and_warps(backend, rows, columns, warps):
    check("bf16", 2 * DEPTH, rows=rows, columns=columns, num_warps=warps)


def test_a_kernel_that_reads_what_it_has_written(backend):
    """Each product is the next one's left operand: nothing may be copied ahead."""
    chain = make('''@ty.jit
def kernel(a, b, STEPS: tl.constexpr, SIZE: tl.constexpr):
    row, column = tl.arange(0, SIZE)[:, None], tl.arange(0, SIZE)[None, :]
    at = row * SIZE + column
    for step in range(STEPS):
        x = tl.load(a + step * SIZE * SIZE + at)
        y = tl.load(b + step * SIZE * SIZE + at)
        tl.store(a + (step + 1) * SIZE * SIZE + at, tl.dot(x, y).to(tl.float16))
''')
    rng = np.random.default_rng(7)
    steps, size = 4, 32
    a = np.zeros((steps + 1, size, size), np.float16)
    a[0] = rng.integers(-4, 5, (size, size))
    b = np.stack([rng.permutation(np.eye(size)) for _ in range(steps)]).astype(np.float16)
    want = a[0].astype(np.float64)
    chain[(1,)](a, b, STEPS=steps, SIZE=size)
    for step in range(steps):
        want = want @ b[step].astype(np.float64)
        np.testing.assert_array_equal(a[step + 1], want)


def test_loops_one_after_the_other(backend):
    """Slots of one loop are the next one's, and an exchange between them uses the same memory."""
    two = make('''@ty.jit
def kernel(a, b, c, STEPS: tl.constexpr, SIZE: tl.constexpr):
    row, column = tl.arange(0, SIZE)[:, None], tl.arange(0, SIZE)[None, :]
    at = row * SIZE + column
    for round in range(3):
        acc = tl.zeros((SIZE, SIZE), tl.float32)
        for step in range(STEPS):
            acc = tl.dot(tl.load(a + step * SIZE * SIZE + at), tl.load(b + step * SIZE * SIZE + at), acc)
        turned = tl.trans(acc).to(tl.float16)
        acc = tl.zeros((SIZE, SIZE), tl.float32)
        for step in range(STEPS):
            acc = tl.dot(turned, tl.load(b + step * SIZE * SIZE + at), acc)
        tl.store(c + round * SIZE * SIZE + at, acc)
''')
    rng = np.random.default_rng(8)
    a, b = (rng.integers(-2, 3, (3, 32, 32)).astype(np.float16) for _ in range(2))
    c = np.zeros((3, 32, 32), np.float32)
    two[(1,)](a, b, c, STEPS=3, SIZE=32)
    wide = [x.astype(np.float64) for x in (a, b)]
    turned = sum(x @ y for x, y in zip(*wide)).T
    for found in c:
        np.testing.assert_array_equal(found, turned @ wide[1].sum(axis=0))
