# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""ag_gemm against float64: any M and rank count, any schedule, repeated calls."""

import direct
import numpy as np
import pytest
from backends import assert_close, numpy_type
from worlds import RANKS, data_of, run

import tilery as ty

N, K = 21, 19


def inputs(rank, m, world, dtype, call=0):
    rows = direct.rows_of(m, rank, world)
    a = data_of(100, (m, K), dtype, call)[rows].copy()
    return a, data_of(rank, (K, N), dtype, call)


def multiply(m, dtype="fp32", schedule=None, calls=1, with_gathered=False):
    schedule = schedule or direct.Schedule()
    world, rank = ty.num_ranks(), ty.rank()
    rows = max(1, ty.cdiv(m, world))
    ws = direct.Workspace(numpy_type(dtype), rows * K, schedule.comm + schedule.compute,
                          slots=schedule.chunks)
    results = []
    for call in range(calls):
        a, b = inputs(rank, m, world, dtype, call)
        c = np.full((m, N), np.nan, np.float32) if dtype != "int8" else np.zeros((m, N), np.int32)
        gathered = np.zeros((m, K), numpy_type(dtype)) if with_gathered else None
        direct.ag_gemm(ws, a, b, c, schedule, gathered)
        results.append((c, gathered))
    return results


def check(results, m, world, dtype="fp32"):
    for rank, calls in enumerate(results):
        for call, (c, gathered) in enumerate(calls):
            a, b = data_of(100, (m, K), dtype, call), inputs(rank, m, world, dtype, call)[1]
            assert_close(c, a.astype(np.float64) @ b.astype(np.float64), depth=K)
            if gathered is not None:
                np.testing.assert_array_equal(gathered, a)


@pytest.mark.parametrize("ranks", RANKS + [6])
@pytest.mark.parametrize("m", [1, 17, 32, 100])
def test_sizes(backend, ranks, m):
    """Case 41: the product and the gathered matrix, for a sweep of M and ranks."""
    check(run(lambda: multiply(m, with_gathered=True), ranks), m, ranks)


def test_997_rows_on_3_ranks(backend):
    schedule = direct.Schedule(chunks=4, tile=(64, 32, 32))
    check(run(lambda: multiply(997, schedule=schedule), 3), 997, 3)


@pytest.mark.parametrize("dtype", ["fp16", "bf16", "int8"])
def test_types(backend, dtype):
    check(run(lambda: multiply(33, dtype), 4), 33, 4, dtype)


@pytest.mark.parametrize("in_place", [True, False])
@pytest.mark.parametrize("compute,chunks,comm,size", [
    (1, 1, 1, None), (3, 3, 2, None), (4, 5, 3, None), (2, 2, 1, (12, 16)), (2, 2, 1, (16, 8))])
def test_schedules(backend, compute, chunks, comm, size, in_place):
    schedule = direct.Schedule(compute, chunks, comm, size=size, in_place=in_place)
    check(run(lambda: multiply(50, schedule=schedule, with_gathered=True), 3), 50, 3)


def test_200_seeds(backend):
    """Any schedule with late remote writes and minimal residency gives the same bits."""
    schedule = direct.Schedule(compute=1)
    first = None
    for seed in range(200):
        results = run(lambda: multiply(7, schedule=schedule, calls=2), 2, seed=seed, delay=True,
                      residency=2)
        text = b"".join(c.tobytes() for calls in results for c, _ in calls)
        first = first or text
        assert text == first, f"seed {seed} differs from seed 0"
    check(results, 7, 2)


def test_many_calls(backend):
    check(run(lambda: multiply(5, calls=50), 2), 5, 2)
