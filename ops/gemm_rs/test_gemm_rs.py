# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""gemm_rs against float64: any M and rank count, both scatter dimensions, any schedule."""

import direct
import numpy as np
import pytest
from backends import assert_close, numpy_type
from worlds import RANKS, data_of, run

import tilery as ty
import tilery.language as tl
from ops.parts import place_among_owners

N, K = 21, 19


def inputs(rank, m, dtype, call=0):
    return data_of(rank, (m, K), dtype, call), data_of(50 + rank, (K, N), dtype, call)


def output_type(dtype):
    return np.dtype(np.int32) if dtype == "int8" else numpy_type(dtype)


def multiply(m, dtype="fp32", schedule=None, calls=1, partials=None):
    schedule = schedule or direct.Schedule()
    world, rank = ty.num_ranks(), ty.rank()
    rows = max(1, ty.cdiv(m, world))
    ws = direct.Workspace(output_type(partials or dtype), rows * N, schedule.compute,
                          slots=schedule.tiles(m, N))
    own, results = direct.rows_of(m, rank, world), []
    for call in range(calls):
        out = np.zeros((own.stop - own.start, N), output_type(dtype))
        direct.gemm_rs(ws, *inputs(rank, m, dtype, call), out, schedule)
        results.append(out)
    return results


def parts(m, world, dtype="fp32", call=0):
    pairs = [inputs(rank, m, dtype, call) for rank in range(world)]
    return [a.astype(np.float64) @ b.astype(np.float64) for a, b in pairs]


def check(results, m, world, dtype="fp32", partials=None):
    for rank, calls in enumerate(results):
        for call, out in enumerate(calls):
            own = [part[direct.rows_of(m, rank, world)] for part in parts(m, world, dtype, call)]
            assert_close(out, sum(own), depth=K * world, addends=() if partials else own)


@pytest.mark.parametrize("ranks", RANKS + [6])
@pytest.mark.parametrize("m", [1, 17, 32, 100])
def test_sizes(backend, ranks, m):
    check(run(lambda: multiply(m), ranks), m, ranks)


def test_997_rows_on_3_ranks(backend):
    schedule = direct.Schedule(tile=(64, 32, 32))
    check(run(lambda: multiply(997, schedule=schedule), 3), 997, 3)


@pytest.mark.parametrize("dtype", ["fp16", "bf16", "int8"])
def test_types(backend, dtype):
    """Case 42: every type; sums are made in float32 (case 53), whatever partial sums travel in."""
    check(run(lambda: multiply(33, dtype), 4), 33, 4, dtype)
    if dtype != "int8":
        check(run(lambda: multiply(33, dtype, partials="fp32"), 4), 33, 4, dtype, "fp32")


@ty.jit
def walk(seen, tiles, RANKS: tl.constexpr, MIXED: tl.constexpr):
    for item in range(tl.program_id(0), RANKS * tiles, tl.num_programs(0)):
        owner, tile, _, _ = place_among_owners(item, tiles, 1, RANKS, MIXED, 1, 8)
        tl.store(seen + 2 * item, owner)
        tl.store(seen + 2 * item + 1, tile)


@pytest.mark.parametrize("mixed", [True, False])
@pytest.mark.parametrize("tiles,instances,ranks", [(1, 1, 1), (5, 2, 1), (5, 2, 2), (3, 4, 2), (8, 4, 3), (9, 4, 4), (13, 3, 5)])
def test_the_walk_has_each_tile_once(backend, mixed, tiles, instances, ranks):
    """An own one comes when the others have had to send theirs of it, in the walk that is alike on all ranks."""
    def body():
        seen = np.full((ranks * tiles, 2), -1, np.int32)
        walk[(instances,)](seen, tiles, ranks, mixed)
        return seen.tolist()
    for rank, seen in enumerate(run(body, ranks)):
        assert sorted(seen) == [[owner, tile] for owner in range(ranks) for tile in range(tiles)]
        for at, (owner, tile) in enumerate(seen):
            others = [seen.index([other, tile]) for other in range(ranks) if other != rank]
            assert owner != rank or all(other < at for other in others)


@pytest.mark.parametrize("mixed", [True, False])
@pytest.mark.parametrize("compute,size", [(1, None), (3, None), (4, (12, 16)), (2, (16, 8))])
def test_schedules(backend, compute, size, mixed):
    schedule = direct.Schedule(compute, size=size, mixed=mixed)
    check(run(lambda: multiply(50, schedule=schedule), 3), 50, 3)


def test_scatter_of_columns(backend):
    """Case 43: the other dimension is the same kernel on the transposed operands."""
    def body():
        rank, world = ty.rank(), ty.num_ranks()
        schedule = direct.Schedule()
        columns = ty.cdiv(N, world)
        ws = direct.Workspace(np.float32, columns * 30, schedule.compute,
                              slots=schedule.tiles(N, 30))
        a, b = inputs(rank, 30, "fp32")
        own = direct.rows_of(N, rank, world)
        out = np.zeros((30, own.stop - own.start), np.float32)
        direct.gemm_rs(ws, b.T, a.T, out.T, schedule)
        return out
    for rank, out in enumerate(run(body, 4)):
        assert_close(out, sum(parts(30, 4))[:, direct.rows_of(N, rank, 4)], depth=4 * K)


def test_200_seeds(backend):
    schedule = direct.Schedule(compute=1)
    first = None
    for seed in range(200):
        results = run(lambda: multiply(7, schedule=schedule, calls=2), 2, seed=seed, delay=True,
                      residency=1)
        text = b"".join(c.tobytes() for calls in results for c in calls)
        first = first or text
        assert text == first, f"seed {seed} differs from seed 0"
    check(results, 7, 2)


def test_many_calls(backend):
    check(run(lambda: multiply(5, calls=50), 2), 5, 2)
