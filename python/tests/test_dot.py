# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""tl.dot: shapes down to 1, types, accumulators, against float64 with a K-dependent bound."""

import numpy as np
import pytest
from backends import assert_close, numpy_type, random_array
from kernel_text import make

import tilery as ty


def dot_kernel(m, n, k, extra="", acc=""):
    return make(f'''@ty.jit
def kernel(a, b, c, out):
    rm, rn, rk = tl.arange(0, {m}), tl.arange(0, {n}), tl.arange(0, {k})
    x = tl.load(a + rm[:, None] * {k} + rk[None, :])
    y = tl.load(b + rk[:, None] * {n} + rn[None, :])
    at = rm[:, None] * {n} + rn[None, :]
    z = tl.dot(x, y{", tl.load(c + at)" if acc else ""}, input_precision="ieee"{extra})
    tl.store(out + at, z)
''')


@pytest.mark.parametrize("m,n,k", [(1, 1, 1), (16, 16, 16), (1, 64, 32), (64, 1, 8), (2, 4, 128),
                                   (32, 64, 16), (128, 32, 64)])
@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16", "int8"])
def test_shapes_and_types(backend, m, n, k, dtype):
    """Case 63: extents below those of matrix units are padded, never wrong."""
    rng = np.random.default_rng(1)
    a, b = random_array(rng, (m, k), dtype), random_array(rng, (k, n), dtype)
    out = np.zeros((m, n), np.int32 if dtype == "int8" else np.float32)
    dot_kernel(m, n, k)[(1,)](a, b, out, out)
    assert_close(out, a.astype(np.float64) @ b.astype(np.float64), depth=k)


@pytest.mark.parametrize("dtype", ["fp32", "bf16", "int8"])
def test_accumulator(backend, dtype):
    rng = np.random.default_rng(2)
    a, b = random_array(rng, (16, 32), dtype), random_array(rng, (32, 16), dtype)
    kind = np.int32 if dtype == "int8" else np.float32
    c = (rng.standard_normal((16, 16)) * 9).astype(kind)
    out = np.zeros((16, 16), kind)
    dot_kernel(16, 16, 32, acc="c")[(1,)](a, b, c, out)
    assert_close(out, c + a.astype(np.float64) @ b.astype(np.float64), depth=32)


def test_out_dtype(backend):
    rng = np.random.default_rng(3)
    a, b = random_array(rng, (16, 16), "fp16"), random_array(rng, (16, 16), "fp16")
    out = np.zeros((16, 16), np.float16)
    dot_kernel(16, 16, 16, ", out_dtype=tl.float16")[(1,)](a, b, out, out)
    assert_close(out, a.astype(np.float64) @ b.astype(np.float64), depth=16)


@pytest.mark.parametrize("trips", [0, 1, 2, 3, 5])
def test_loop_of_dots(backend, trips):
    """Trip counts 0, 1, 2 and around the number of stages."""
    rng = np.random.default_rng(4)
    k = 16 * trips
    a, b = random_array(rng, (16, max(k, 1))), random_array(rng, (max(k, 1), 16))
    out = np.full((16, 16), np.nan, np.float32)
    make('''@ty.jit
def kernel(a, b, out, K):
    r, rk = tl.arange(0, 16), tl.arange(0, 16)
    acc = tl.zeros((16, 16), tl.float32)
    for k in range(0, K, 16):
        x = tl.load(a + r[:, None] * K + k + rk[None, :])
        y = tl.load(b + (k + rk[:, None]) * 16 + r[None, :])
        acc = tl.dot(x, y, acc, input_precision="ieee")
    tl.store(out + r[:, None] * 16 + r[None, :], acc)
''')[(1,)](a, b, out, k, num_stages=3)
    assert_close(out, a[:, :k].astype(np.float64) @ b[:k].astype(np.float64), depth=max(k, 1))


def test_same_result_for_any_launch_option(backend):
    rng = np.random.default_rng(5)
    a, b = random_array(rng, (32, 32), "bf16"), random_array(rng, (32, 32), "bf16")
    kernel, results = dot_kernel(32, 32, 32), []
    for options in ({}, {"num_warps": 1}, {"num_warps": 8, "num_stages": 1}, {"num_stages": 5}):
        out = np.zeros((32, 32), np.float32)
        kernel[(1,)](a, b, out, out, **options)
        results.append(out)
    for out in results[1:]:
        np.testing.assert_array_equal(out, results[0])


@pytest.mark.parametrize("stages", [1, 2, 3, 4])
@pytest.mark.parametrize("warps", [1, 2, 4, 8])
def test_trip_counts_of_large_tiles(backend, stages, warps):
    """Tiles that pipelines of copies take, at depths around none, one and all of their stages."""
    if backend != "cuda" and (stages, warps) != (3, 4):
        pytest.skip("stages and warps are a GPU's")
    rng = np.random.default_rng(6)
    rows, columns, depth, pitch = 200, 144, 64, 512
    a = random_array(rng, (rows, pitch), "bf16")
    b = random_array(rng, (pitch, columns), "bf16")
    kernel = make('''@ty.jit
def kernel(a, b, out, M, N, K, sa, sb, sc, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        rk = k + tl.arange(0, BK)
        x = tl.load(a + m[:, None] * sa + rk[None, :], mask=(m[:, None] < M) & (rk[None, :] < K),
                    other=0.0)
        y = tl.load(b + rk[:, None] * sb + n[None, :], mask=(rk[:, None] < K) & (n[None, :] < N),
                    other=0.0)
        acc = tl.dot(x, y, acc)
    tl.store(out + m[:, None] * sc + n[None, :], acc, mask=(m[:, None] < M) & (n[None, :] < N))
''')
    trips = sorted({0, 1, 2, stages - 1, stages, stages + 1})
    for k in sorted({0, 1, depth - 1, depth + 1, *(count * depth for count in trips)}):
        out = np.full((rows, columns), np.nan, np.float32)
        kernel[(2, 2)](a, b, out, rows, columns, k, pitch, columns, columns, BM=128, BN=128, BK=depth,
                       num_stages=stages, num_warps=warps)
        assert_close(out, a[:, :k].astype(np.float64) @ b[:k].astype(np.float64), depth=max(k, 1))
    if backend == "cuda" and warps >= 4 and ".target sm_90a" in kernel.asm["ptx"]:
        assert "wgmma.mma_async" in kernel.asm["ptx"] and "cp.async.bulk.tensor" in kernel.asm["ptx"]


@pytest.mark.parametrize("rows, columns", [(128, 64), (200, 80), (1, 8), (129, 136)])
@pytest.mark.parametrize("hinted", [False, True])
def test_indices_that_wrap_around(backend, rows, columns, hinted):
    """Triton's way of loading whole tiles at the ends: what wraps around is not stored."""
    rng = np.random.default_rng(7)
    depth = 80
    a, b = random_array(rng, (rows, depth), "fp16"), random_array(rng, (depth, columns), "fp16")
    out = np.full((rows, columns), np.nan, np.float32)
    kernel = make('''@ty.jit
def kernel(a, b, out, M, N, K, sa, sb, sc, HINTED: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
           BK: tl.constexpr):
    pid = tl.program_id(0)
    along = tl.cdiv(N, BN)
    m = (pid // along) * BM + tl.arange(0, BM)
    n = (pid % along) * BN + tl.arange(0, BN)
    rows, columns, k = m % M, n % N, tl.arange(0, BK)
    if HINTED:
        rows = tl.max_contiguous(tl.multiple_of(rows, BM), BM)
    x = a + (rows[:, None] * sa + k[None, :])
    y = b + (k[:, None] * sb + columns[None, :])
    acc = tl.zeros((BM, BN), tl.float32)
    for i in range(0, tl.cdiv(K, BK)):
        acc = tl.dot(tl.load(x, mask=k[None, :] < K - i * BK, other=0.0),
                     tl.load(y, mask=k[:, None] < K - i * BK, other=0.0), acc)
        x += BK
        y += BK * sb
    tl.store(out + m[:, None] * sc + n[None, :], acc, mask=(m[:, None] < M) & (n[None, :] < N))
''')
    grid = (ty.cdiv(rows, 128) * ty.cdiv(columns, 64),)
    kernel[grid](a, b, out, rows, columns, depth, depth, columns, columns, HINTED=hinted, BM=128, BN=64,
                 BK=32, num_warps=4)
    assert_close(out, a.astype(np.float64) @ b.astype(np.float64), depth=depth)
    if backend == "cuda" and ".target sm_90a" in kernel.asm["ptx"] and columns % 16 == 0:
        assert "cp.async.bulk.tensor" in kernel.asm["ptx"]


def test_what_wraps_around_and_is_seen(backend):
    """Only elements that no store uses may be left out of a load."""
    x = np.arange(10, dtype=np.float32)
    out = np.zeros(32, np.float32)
    make('''@ty.jit
def kernel(x, out, n):
    i = tl.arange(0, 32)
    tl.store(out + i, tl.load(x + i % n))
''')[(1,)](x, out, 10)
    np.testing.assert_array_equal(out, np.arange(32) % 10)


@pytest.mark.parametrize("limit", [0, 1, 64, 100, 128])
def test_a_mask_that_hides_all_of_an_operand(backend, limit):
    """The loop runs although `limit` may be 0: what the mask hides counts as 0."""
    rng = np.random.default_rng(3)
    a, b = (random_array(rng, (128, 128), "bf16") for _ in range(2))
    out = np.full((128, 128), np.nan, np.float32)
    make("""@ty.jit
def kernel(a, b, out, limit, BLOCK: tl.constexpr):
    rows, depth = tl.arange(0, 128), tl.arange(0, BLOCK)
    acc = tl.zeros((128, 128), tl.float32)
    for k in range(0, 128, BLOCK):
        at = k + depth
        left = tl.load(a + rows[:, None] * 128 + at[None, :], mask=at[None, :] < limit, other=0.0)
        right = tl.load(b + at[:, None] * 128 + rows[None, :])
        acc = tl.dot(left, right, acc)
    tl.store(out + rows[:, None] * 128 + rows[None, :], acc)
""")[(1,)](a, b, out, limit, BLOCK=64)
    expected = a[:, :limit].astype(np.float64) @ b[:limit].astype(np.float64)
    np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-3)
