# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""The host side in C++ through tilery.ops: values, any M and rank count, checks and their texts."""

import concurrent.futures

import numpy as np
import pytest
from backends import assert_close, numpy_type, random_array
from direct import rows_of
from test_errors import fails
from worlds import data_of, run

import tilery as ty

pytestmark = pytest.mark.usefixtures("compiled")


def f64(x):
    return x.astype(np.float64)


def test_the_list():
    table = {op["name"]: op for op in ty.ops.list()}
    assert len(table) == 16 and table["ag_gemm"]["tensors"] == ["a", "b", "c", "gathered?"]
    assert table["rms_norm"]["options"] == {"eps": 1e-6} and table["matmul"]["summary"]


@pytest.mark.parametrize("dtype", ["fp32", "bf16", "fp16", "int8"])
@pytest.mark.parametrize("m,n,k", [(1, 1, 1), (17, 100, 33), (0, 4, 4), (130, 64, 65)])
def test_matmul(dtype, m, n, k):
    rng = np.random.default_rng(1)
    a, b = random_array(rng, (m, k), dtype), random_array(rng, (n, k), dtype).T
    c = np.zeros((m, n), np.int32 if dtype == "int8" else np.float32)
    ty.ops.matmul(a, b, c)
    assert_close(c, f64(a) @ f64(b), depth=k)


@pytest.mark.parametrize("parts,activation", [(0, "none"), (3, "silu")])
def test_matmul_with_all_that_follows(parts, activation):
    rng = np.random.default_rng(1)
    a, b = random_array(rng, (2, 40, 90)), random_array(rng, (2, 90, 50))
    bias, residual = random_array(rng, 50), random_array(rng, (2, 40, 50))
    rows, columns = rng.random(40, np.float32), rng.random(50, np.float32)
    c = np.zeros((2, 40, 50), np.float32)
    for _ in range(2):  # counters of parts are 0 again
        ty.ops.matmul(a, b, c, bias, residual, rows, columns, activation=activation, parts=parts)
    expected = f64(a) @ f64(b) * f64(rows)[:, None] * f64(columns) + f64(bias)
    if activation == "silu":
        expected = expected / (1 + np.exp(-expected))
    assert_close(c, expected + f64(residual), depth=90)
    into = residual.copy()
    ty.ops.matmul(a, b, into, bias, into, rows, columns, activation=activation, parts=parts)
    assert (into == c).all()
    square = random_array(rng, (40, 40))
    with fails(ty.LaunchError, "'c' shares memory with 'residual'"):
        ty.ops.matmul(a[0, :, :40], b[0, :40, :40], square, None, square.T)


def test_parts_of_several_threads():
    rng = np.random.default_rng(11)
    a, b = random_array(rng, (8, 64, 200)), random_array(rng, (200, 48))
    c = np.zeros((8, 64, 48), np.float32)

    def multiply(i):
        for _ in range(20):
            ty.ops.matmul(a[i], b, c[i], parts=3)

    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        list(threads.map(multiply, range(8)))
    assert_close(c, f64(a) @ f64(b), depth=200)


def test_rows():
    x = random_array(np.random.default_rng(2), (5, 1000))
    y, weight, bias = np.zeros_like(x), x[0].copy(), x[1].copy()
    ty.ops.softmax(x, y)
    weights = np.exp(f64(x) - f64(x).max(axis=1, keepdims=True))
    assert_close(y, weights / weights.sum(axis=1, keepdims=True))
    ty.ops.rms_norm(x, weight, y, eps=0.5)
    assert_close(y, f64(x) / np.sqrt((f64(x)**2).mean(axis=1, keepdims=True) + 0.5) * f64(weight))
    normal = (f64(x) - f64(x).mean(axis=1, keepdims=True)) / \
        np.sqrt(f64(x).var(axis=1, keepdims=True) + 1e-5)
    for given, expected in (((weight, bias), normal * weight + bias), ((), normal),
                            ((None, bias), normal + bias), ((weight,), normal * weight)):
        ty.ops.layer_norm(x, y, *given)
        np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("causal", [False, True])
def test_attention(causal):
    rng = np.random.default_rng(3)
    q, k, v = (random_array(rng, (2, 4, 70, 24)) for _ in range(3))
    out = np.zeros_like(q)
    ty.ops.attention(q, k, v, out, causal=causal)
    scores = f64(q) @ f64(k).swapaxes(-1, -2) / np.sqrt(24)
    scores = np.where(np.tri(70, dtype=bool), scores, -np.inf) if causal else scores
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    expected = weights / weights.sum(axis=-1, keepdims=True) @ f64(v)
    np.testing.assert_allclose(out, expected, rtol=2e-5, atol=2e-5)


RANKS = [1, 2, 3, 6, 8]


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("form", ["push", "pull", "copies", "flagged", "direct", "direct_copies"])
def test_moving_collectives(ranks, form):
    cut = {"chunks": 3} if form == "copies" else {}

    def body():
        rank, world = ty.rank(), ty.num_ranks()
        own = rows_of(17, rank, world)
        gathered = np.zeros((17, 6), np.float32)
        ty.ops.all_gather(data_of(0, (17, 6))[own].copy(), gathered, form=form, **cut)
        x, exchanged = data_of(rank, (world, 9)), np.zeros((world, 9), np.float32)
        ty.ops.all_to_all(x, exchanged, form=form, instances=2, **cut)
        sent = np.zeros(21, np.float32)
        ty.ops.broadcast(data_of(rank, 21), sent, root=world - 1,
                         form="auto" if form in ("copies", "flagged") else form)
        scattered = np.zeros((own.stop - own.start, 6), np.float32)
        ty.ops.reduce_scatter(data_of(rank, (17, 6)), scattered, form=form.removesuffix("_copies"), **cut)
        return gathered, exchanged, sent, scattered
    total = sum(f64(data_of(r, (17, 6))) for r in range(ranks))
    for rank, (gathered, exchanged, sent, scattered) in enumerate(run(body, ranks)):
        np.testing.assert_array_equal(gathered, data_of(0, (17, 6)))
        expected = np.stack([data_of(r, (ranks, 9))[rank] for r in range(ranks)])
        np.testing.assert_array_equal(exchanged, expected)
        np.testing.assert_array_equal(sent, data_of(ranks - 1, 21))
        assert_close(scattered, total[rows_of(17, rank, ranks)], depth=ranks)


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_all_reduce(ranks, dtype):
    def body():
        results = []
        for form in ("auto", "one_shot", "two_shot", "copies", "flagged", "direct"):
            for n in (1, 1000, 40_001):
                x, out = data_of(ty.rank(), n, dtype), np.zeros(n, numpy_type(dtype))
                ty.ops.all_reduce(x, out, form=form, chunks=2)
                results.append(out)
                ty.ops.all_reduce(x, x, form=form, instances=3)
                np.testing.assert_array_equal(x, out)
        return results
    results = run(body, ranks)
    for i, n in enumerate([1, 1000, 40_001] * 6):
        expected = sum(f64(data_of(r, n, dtype)) for r in range(ranks))
        for rank in range(ranks):
            np.testing.assert_array_equal(results[rank][i], results[0][i % 3])
        assert_close(results[0][i], expected, ulps=1, depth=ranks)


@pytest.mark.parametrize("dtype", ["fp16", "int32", "bf16"])
@pytest.mark.parametrize("op", ["all_reduce", "all_gather", "reduce_scatter", "all_to_all"])
def test_words_with_flags_of_any_size(op, dtype):
    """An odd number of halves leaves half a word, a short shard whole words; sizes follow each other
    in one workspace."""
    def body():
        rank, world, results = ty.rank(), ty.num_ranks(), []
        for call, n in enumerate([1, 2, 3001, 5, 64, 2999, 7, 3000]):
            x = data_of(9 if op == "all_gather" else rank, n * world if op == "all_to_all" else n, dtype, call)
            own = rows_of(n, rank, world)
            out = np.zeros(own.stop - own.start if op == "reduce_scatter" else len(x), numpy_type(dtype))
            getattr(ty.ops, op)(x[own].copy() if op == "all_gather" else x, out, form="flagged",
                                instances=1 + call % 2)
            results.append((n, call, out))
        return results

    def expected(rank, n, call):
        if op == "all_gather":
            return f64(data_of(9, n, dtype, call))
        if op == "all_to_all":
            return np.concatenate([f64(data_of(r, n * 3, dtype, call))[rank * n:][:n] for r in range(3)])
        total = sum(f64(data_of(r, n, dtype, call)) for r in range(3))
        return total[rows_of(n, rank, 3)] if op == "reduce_scatter" else total
    for seed in (None, 0, 1):
        options = {} if seed is None else {"seed": seed, "delay": True, "residency": 2}
        for rank, result in enumerate(run(body, 3, **options)):
            for n, call, out in result:
                assert_close(out, expected(rank, n, call), ulps=1, depth=3)


@pytest.mark.parametrize("op", ["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast"])
def test_large_messages_go_to_the_peers_buffers(op):
    """By themselves, up to 8 ranks; calls follow each other, and what was read is overwritten at once."""
    def body():
        rank, world, n = ty.rank(), ty.num_ranks(), 300_000
        x = np.zeros(n * world, np.float32)
        out = np.zeros({"all_gather": n * world * world, "reduce_scatter": n}.get(op, n * world), np.float32)
        for call in range(3):
            x[...] = rank + call
            getattr(ty.ops, op)(x, out)
            total = sum(range(world)) + world * call
            everyones = np.arange(world, dtype=np.float32) + call
            expected = {"all_gather": np.repeat(everyones, n * world), "all_to_all": np.repeat(everyones, n),
                        "broadcast": np.full(n * world, call)}.get(op, np.full(len(out), total))
            np.testing.assert_array_equal(out, expected)
    for ranks in (2, 9):
        run(body, ranks)


def test_peers_buffers_of_more_ranks_than_kernels_take():
    with fails(ty.LaunchError, "form 'direct' uses the ranks' own buffers, but its kernels take those of up to 8 "
                               "ranks, not of 9; leave 'form' at auto"):
        run(lambda: ty.ops.all_reduce(np.zeros(2, "f4"), np.zeros(2, "f4"), form="direct"), 9)
    with fails(ty.LaunchError, "gemm_ar: form 'direct' uses the ranks' own buffers", "up to 8 ranks, not of 9"):
        run(lambda: ty.ops.gemm_ar(A, B, C, form="direct"), 9)


def test_sums_that_the_ranks_keep_otherwise():
    """Form direct takes one type and one way to lie; steps along a single row or column do not matter."""
    def body(m, n, kinds, gaps, **options):
        rank = ty.rank()
        out = np.zeros((m, n + gaps[rank]), kinds[rank])[:, :n]
        for _ in range(2):
            ty.ops.gemm_ar(data_of(rank, (m, 8)), data_of(10 + rank, (8, n)), out, form="direct", **options)
        return out
    with fails(ty.LaunchError, "gemm_ar: form 'direct' uses the ranks' own buffers, but 'out' of rank 1 is fp32 with "
                               r"strides \[9, 1\] and that of rank 0 fp32 with strides \[5, 1\]; leave 'form' at auto"):
        run(lambda: body(4, 5, ("f4", "f4"), (0, 4)), 2)
    with fails(ty.LaunchError, r"'out' of rank 1 is fp16 with strides \[5, 1\] and that of rank 0 fp32 with strides"):
        run(lambda: body(4, 5, ("f4", "f2"), (0, 0), partials="accumulator"), 2)
    for m, n in ((1, 5), (4, 5)):
        gaps = (0, 4) if m == 1 else (4, 4)
        expected = sum(f64(data_of(r, (m, 8))) @ f64(data_of(10 + r, (8, n))) for r in range(2))
        for out in run(lambda: body(m, n, ("f4", "f4"), gaps), 2):
            assert_close(out, expected, depth=16)


@pytest.mark.parametrize("kind", ["fp16", "int8"])
def test_sums_in_the_peers_memory(kind):
    """Calls follow each other, with other shapes between, and what they left is overwritten at once."""
    def body():
        rank, results = ty.rank(), []
        whole = np.zeros((997, 40), np.int32 if kind == "int8" else numpy_type(kind))
        for call, (m, n) in enumerate([(997, 40), (1, 24), (17, 33), (40, 40), (997, 40)]):
            a, b = data_of(rank, (m, 24), kind, call), data_of(10 + rank, (24, n), kind, call)
            ty.ops.gemm_ar(a, b, whole[:m, :n], form="direct", partials=("out", "accumulator")[call % 2])
            results.append(whole[:m, :n].copy())
            whole[...] = -1
        return results
    for options in ({}, {"seed": 0, "delay": True}, {"seed": 1, "delay": True, "residency": 8}):
        for result in run(body, 4, **options):
            for call, out in enumerate(result):
                (m, n), every = out.shape, range(4)
                parts = [f64(data_of(r, (m, 24), kind, call)) @ f64(data_of(10 + r, (24, n), kind, call)) for r in every]
                assert_close(out, sum(parts), depth=96, addends=parts)


def test_transfers_arrive_late():
    """In worlds with a seed and delay, copies and their signals are in flight beside the kernel."""
    def body():
        rank, world = ty.rank(), ty.num_ranks()
        a, b = data_of(5, (41, 8))[rows_of(41, rank, world)].copy(), data_of(6, (8, 12))
        c, all_x, sums = np.zeros((41, 12), "f4"), np.zeros(70, "f4"), np.zeros(100, "f4")
        for call in range(2):
            x = data_of(rank, 100, call=call)
            ty.ops.ag_gemm(a, b, c, form="copies", chunks=2)
            ty.ops.all_gather(data_of(7, 70, call=call)[rows_of(70, rank, world)].copy(), all_x,
                              form="copies", chunks=3)
            ty.ops.all_reduce(x, sums, form="copies", chunks=2)
            np.testing.assert_array_equal(all_x, data_of(7, 70, call=call))
            assert_close(sums, sum(f64(data_of(r, 100, call=call)) for r in range(world)), depth=world)
        assert_close(c, f64(data_of(5, (41, 8))) @ f64(b), depth=8)
    for seed in range(40):
        run(body, 3, seed=seed, delay=True)


@pytest.mark.parametrize("m,ranks,chunks", [
    (100, 3, 1), (100, 3, 3), (100, 3, 5), (96, 3, 2), (90, 4, 8), (33, 8, 2), (130, 5, 7), (17, 2, 20)])
def test_tiles_of_copied_rows(m, ranks, chunks):
    """Own tiles come from a, those at borders of ranks, and all of a misaligned a, from staging; what
    the call before has left there is not taken for the rows of this one."""
    def body():
        rank, b, results = ty.rank(), data_of(6, (8, 12)), []
        for call in range(3):
            rows = data_of(5, (m, 8), call=call)[rows_of(m, rank, ranks)]
            memory = np.empty(rows.size + 8, "f4")
            first = -(memory.ctypes.data // 4) % 4 + (rank == 1)
            a = memory[first:first + rows.size].reshape(rows.shape)
            a[:] = rows
            c, gathered = np.zeros((m, 12), "f4"), np.zeros((m, 8), "f4")
            ty.ops.ag_gemm(a, b, c, gathered, form="copies", chunks=chunks, block_m=16)
            results.append((c, gathered))
        return results
    for seed in range(10):
        for calls in run(body, ranks, seed=seed, delay=True):
            for call, (c, gathered) in enumerate(calls):
                a = data_of(5, (m, 8), call=call)
                np.testing.assert_array_equal(gathered, a)
                assert_close(c, f64(a) @ f64(data_of(6, (8, 12))), depth=8)


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("m", [0, 1, 17, 150])
@pytest.mark.parametrize("forms", [("instances", "overlapped", "two_shot"),
                                   ("copies", "auto", "one_shot"), ("auto", "auto", "scattered"),
                                   ("auto", "auto", "direct"), ("unfused",) * 3])
def test_overlapped_products(ranks, m, forms):
    n, k = 70, 40

    def body():
        rank, world = ty.rank(), ty.num_ranks()
        own = rows_of(m, rank, world)
        a, b = data_of(99, (m, k)), data_of(rank, (k, n))
        c, gathered = np.zeros((m, n), np.float32), np.zeros((m, k), np.float32)
        results = []
        for _ in range(2):
            ty.ops.ag_gemm(a[own].copy(), b, c, gathered, form=forms[0])
            scattered = np.zeros((own.stop - own.start, n), np.float32)
            x = data_of(rank, (m, k), call=1)
            ty.ops.gemm_rs(x, b, scattered, form=forms[1])
            everywhere = np.zeros((m, n), np.float32)
            ty.ops.gemm_ar(x, b, everywhere, form=forms[2])
            columns = rows_of(n, rank, world)
            by_column = np.zeros((m, columns.stop - columns.start), np.float32)
            ty.ops.gemm_rs(x, b, by_column, scatter_dim=1, form=forms[1])
            results = [c, gathered, scattered, everywhere, by_column]
        return results
    total = sum(f64(data_of(r, (m, k), call=1)) @ f64(data_of(r, (k, n))) for r in range(ranks))
    for rank, (c, gathered, scattered, everywhere, by_column) in enumerate(run(body, ranks)):
        assert_close(c, f64(data_of(99, (m, k))) @ f64(data_of(rank, (k, n))), depth=k)
        np.testing.assert_array_equal(gathered, data_of(99, (m, k)))
        assert_close(scattered, total[rows_of(m, rank, ranks)], depth=k * ranks)
        assert_close(everywhere, total, depth=k * ranks)
        assert_close(by_column, total[:, rows_of(n, rank, ranks)], depth=k * ranks)


@pytest.mark.parametrize("forms", [("overlapped", "one_shot"), ("overlapped", "two_shot"),
                                   ("overlapped", "direct"), ("unfused", "unfused")])
@pytest.mark.parametrize("kind,m,n", [("fp32", 5, 7), ("fp32", 70, 33), ("bf16", 40, 64)])
def test_ranks_have_parts_of_k_of_their_own(forms, kind, m, n):
    """Of any length, one of them none, transposed and with gaps."""
    depths = (64, 9, 0, 33)

    def operands(rank):
        return data_of(rank, (m, depths[rank]), kind), data_of(10 + rank, (depths[rank], n), kind)

    def body():
        rank, world = ty.rank(), ty.num_ranks()
        a, b = operands(rank)
        if rank == 1:
            a, b = np.asfortranarray(a), np.repeat(b, 2, axis=1)[:, ::2]
        own = rows_of(m, rank, world)
        part, whole = np.zeros((own.stop - own.start, n), a.dtype), np.zeros((m, n), a.dtype)
        for _ in range(2):
            ty.ops.gemm_rs(a, b, part, form=forms[0])
            ty.ops.gemm_ar(a, b, whole, form=forms[1])
        return part, whole
    products = [f64(a) @ f64(b) for a, b in map(operands, range(4))]
    for rank, (part, whole) in enumerate(run(body, 4)):
        addends = products if kind == "bf16" else ()
        own = rows_of(m, rank, 4)
        assert_close(part, sum(products)[own], depth=sum(depths), addends=[p[own] for p in addends])
        assert_close(whole, sum(products), depth=sum(depths), addends=addends)


@pytest.mark.parametrize("partials", ["out", "accumulator"])
def test_unfused_products_into_any_memory(partials):
    """Types other than that of the partial sums, and results with strides."""
    half = numpy_type("bf16")

    def body():
        rank, world = ty.rank(), ty.num_ranks()
        a, b = data_of(rank, (20, 12), "bf16"), data_of(rank, (12, 9), "bf16")
        own = rows_of(20, rank, world)
        wide, all_rows = np.zeros((own.stop - own.start, 30), half), np.zeros((9, 20), half).T
        for _ in range(2):
            ty.ops.gemm_rs(a, b, wide[:, 3:21:2], form="unfused", partials=partials)
            ty.ops.gemm_ar(a, b, all_rows, form="unfused", partials=partials)
        return wide, all_rows
    total = sum(f64(data_of(r, (20, 12), "bf16")) @ f64(data_of(r, (12, 9), "bf16")) for r in range(3))
    for rank, (wide, all_rows) in enumerate(run(body, 3)):
        np.testing.assert_allclose(f64(wide[:, 3:21:2]), total[rows_of(20, rank, 3)], atol=0.4)
        np.testing.assert_allclose(f64(all_rows), total, atol=0.4)
        assert not f64(wide[:, :3]).any() and not f64(wide[:, 4:21:2]).any()


A, B, C = np.zeros((4, 8), np.float32), np.zeros((8, 5), np.float32), np.zeros((4, 5), np.float32)


def test_checks_of_one_rank():
    with fails(ty.LaunchError, "matmul: 'b' has shape", "dimension 0 must be 8", "K of 'a'"):
        ty.ops.matmul(A, A, C)
    with fails(ty.LaunchError, "matmul: 'c' has 1 dimensions, needs 2"):
        ty.ops.matmul(A, B, C[0])
    with fails(ty.LaunchError, "'a' is fp32 and 'b' is bf16"):
        ty.ops.matmul(A, B.astype(numpy_type("bf16")), C)
    with fails(ty.LaunchError, "'a' is uint8, needs one of fp32"):
        ty.ops.matmul(A.astype(np.uint8), B.astype(np.uint8), C)
    with fails(ty.LaunchError, "'c' is int32, but the product of fp32 is fp32"):
        ty.ops.matmul(A, B, C.astype(np.int32))
    with fails(ty.LaunchError, "matmul takes", "got 2"):
        ty.ops.matmul(A, B)
    small = np.ones((4, 4), np.int8), np.ones((4, 4), np.int8), np.ones((4, 4), np.int32)
    with fails(ty.LaunchError, "an activation needs floats, but the product of int8 is int32"):
        ty.ops.matmul(*small, activation="silu")
    with fails(ty.LaunchError, "'bias' is fp32, but the product of int8 is int32"):
        ty.ops.matmul(*small, np.ones(4, np.float32))
    with fails(ty.LaunchError, "matmul: 'scale_a' and 'scale_b' come together"):
        ty.ops.matmul(A, B, C, None, None, A[0, :1].copy())
    with fails(ty.LaunchError, "matmul: 'residual' has shape", "dimension 0 must be 4"):
        ty.ops.matmul(A, B, C, None, C.T.copy())
    with fails(ty.LaunchError, "'scale_b' has shape", "must be 5", "1 or N of 'b'"):
        ty.ops.matmul(A, B, C, None, None, A[0, :1].copy(), C[:, 0].copy())
    with fails(ty.LaunchError, "matmul: 'c' is missing"):
        ty.ops.matmul(A, B, None)
    with fails(ty.LaunchError, "last dimension of 'x' has stride 5"):
        ty.ops.softmax(C.T, np.zeros((5, 4), np.float32))
    with fails(ty.LaunchError, "attention: 3 heads of 'q' are no multiple of the 2 heads"):
        q, k = np.zeros((1, 3, 4, 8), np.float32), np.zeros((1, 2, 4, 8), np.float32)
        ty.ops.attention(q, k, k, np.zeros_like(q))


def test_options():
    def without_computing():
        ty.ops.ag_gemm(A, B, C, comm=4, instances=4)
    with fails(ty.LaunchError, "option 'comm' is 4 of 4 instances, which leaves none to compute"):
        ty.spawn(without_computing, ranks=1)
    with fails(ty.ConfigError, "no option 'blok_m'; did you mean 'block_m'"):
        ty.ops.matmul(A, B, C, blok_m=3)
    with fails(ty.ConfigError, "softmax has no option 'eps'; it takes none"):
        ty.ops.softmax(A, A, eps=1)
    with fails(ty.ConfigError, "option 'eps' is 'small', needs a number"):
        ty.ops.rms_norm(A, A[0].copy(), A, eps="small")
    with fails(ty.ConfigError, "no operator 'matmull'; did you mean 'matmul'"):
        from tilery.ops import call
        call("matmull", A, B, C)
    with pytest.raises(AttributeError, match="no operator 'matmull'"):
        ty.ops.matmull
    with fails(ty.LaunchError, "option 'block_m' is -1, needs a power of two"):
        ty.ops.matmul(A, B, C, block_m=-1)
    with fails(ty.LaunchError, "option 'parts' is 4097, needs 1 or more, at most 4096"):
        ty.ops.matmul(A, B, C, parts=4097)
    with fails(ty.LaunchError, "option 'columns' is 40, more than 'block_n', 32"):
        ty.ops.matmul(A, B, C, block_n=32, columns=40)
    with fails(ty.LaunchError, "option 'columns' is 4000, more than 'block_n', 16"):
        ty.ops.matmul(A, B, C, columns=4000)
    many = np.zeros((300, 300), np.float32)
    with fails(ty.LaunchError, "option 'parts' is 2 for 90000 tiles, possible for 65536 at most"):
        ty.ops.matmul(many, many, many.copy(), block_m=1, block_n=1, parts=2)
    with fails(ty.ConfigError, "option 'form' is 'pusch', needs one of auto, push, pull"):
        run(lambda: ty.ops.all_gather(np.zeros(2, "f4"), np.zeros(4, "f4"), form="pusch"), 2)
    with fails(ty.ConfigError, "option 'chunks' is -1, needs 1 or more"):
        run(lambda: ty.ops.all_gather(np.zeros(2, "f4"), np.zeros(4, "f4"), form="copies", chunks=-1), 2)
    with fails(ty.LaunchError, "form 'flagged' takes elements of 2 or 4 bytes, not int8"):
        run(lambda: ty.ops.all_gather(np.zeros(2, "i1"), np.zeros(4, "i1"), form="flagged"), 2)
    with fails(ty.LaunchError, "option 'scatter_dim' is 2, needs 0 or 1"):
        run(lambda: ty.ops.gemm_rs(A, B, C, scatter_dim=2), 1)


def test_checks_of_several_ranks():
    with fails(ty.LaunchError, "all_gather: 'x' has shape", "this rank's part"):
        run(lambda: ty.ops.all_gather(np.zeros(3, "f4"), np.zeros(4, "f4")), 2)
    with fails(ty.LaunchError, "M differs between ranks: 4 on rank 0, 5 on rank 1"):
        run(lambda: ty.ops.gemm_ar(np.zeros((4 + ty.rank(), 8), "f4"), B,
                                   np.zeros((4 + ty.rank(), 5), "f4")), 2)
    with fails(ty.LaunchError, "option 'form' differs between rank 0 and rank 1; pass the same on all ranks"):
        run(lambda: ty.ops.ag_gemm(A[:2].copy(), B, C, form=("copies", "unfused")[ty.rank()]), 2)
    with fails(ty.LaunchError, "rank 0: operator 'all_to_all'\n  rank 1: operator 'all_reduce'"):
        def body():
            if ty.rank():
                ty.ops.all_reduce(np.zeros(8, "f4"), np.zeros(8, "f4"))
            else:
                ty.ops.all_to_all(np.zeros(8, "f4"), np.zeros(8, "f4"))
        run(body, 2)
    with fails(ty.LaunchError, "first dimension must be a multiple of 3"):
        run(lambda: ty.ops.all_to_all(np.zeros(8, "f4"), np.zeros(8, "f4")), 3)
    with fails(ty.LaunchError, "option 'root' is 2; there are ranks 0 to 1"):
        run(lambda: ty.ops.broadcast(np.zeros(8, "f4"), np.zeros(8, "f4"), root=2), 2)
    with fails(ty.LaunchError, "'a' is not contiguous"):
        run(lambda: ty.ops.ag_gemm(np.zeros((8, 4), "f4").T, B, C), 1)


def test_a_communicating_operator_without_a_world():
    from tilery import world
    assert world.current(required=False) is None
    with fails(ty.LaunchError, "all_reduce communicates and needs a world"):
        ty.ops.all_reduce(np.zeros(8, "f4"), np.zeros(8, "f4"))


def test_workspaces_of_one_world_after_another():
    """A workspace of a world that is gone is never taken for one of the next."""
    for ranks in (2, 3, 2, 2):
        def body():
            guard, out = ty.zeros(100_000, "fp32"), np.zeros(50, np.float32)
            for n in (10, 50):
                ty.ops.all_reduce(np.ones(n, np.float32), out[:n])
            return out, guard.numpy().any()
        for out, touched in run(body, ranks):
            assert (out == ranks).all() and not touched


def test_interpreting_is_refused():
    with ty.interpret(), fails(ty.LaunchError, "ops.matmul runs compiled kernels only"):
        ty.ops.matmul(A, B, C)
