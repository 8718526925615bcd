# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""gemm_ar against float64: any M and rank count, the same bits on every rank, any schedule."""

import direct
import numpy as np
import pytest
from backends import assert_close, numpy_type
from worlds import RANKS, data_of, run

import tilery as ty

N, K = 21, 19


def inputs(rank, m, dtype, call=0):
    return data_of(rank, (m, K), dtype, call), data_of(50 + rank, (K, N), dtype, call)


def output_type(dtype):
    return np.dtype(np.int32) if dtype == "int8" else numpy_type(dtype)


def multiply(m, dtype="fp32", schedule=None, calls=1):
    schedule = schedule or direct.Schedule()
    world, rank = ty.num_ranks(), ty.rank()
    rows = m if schedule.form == "one_shot" else max(1, ty.cdiv(m, world))
    ws = direct.Workspace(output_type(dtype), rows * N, schedule.compute,
                          slots=schedule.tiles(m, N))
    results = []
    for call in range(calls):
        out = np.zeros((m, N), output_type(dtype))
        direct.gemm_ar(ws, *inputs(rank, m, dtype, call), out, schedule)
        results.append(out)
    return results


def check(results, m, world, dtype="fp32"):
    for calls in results:
        for call, out in enumerate(calls):
            pairs = [inputs(rank, m, dtype, call) for rank in range(world)]
            parts = [a.astype(np.float64) @ b.astype(np.float64) for a, b in pairs]
            assert_close(out, sum(parts), depth=K * world, addends=parts)
            np.testing.assert_array_equal(out, results[0][call])


FORMS = ["one_shot", "two_shot", "direct"]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("ranks", RANKS + [6])
@pytest.mark.parametrize("m", [1, 17, 32, 100])
def test_sizes(backend, ranks, m, form):
    check(run(lambda: multiply(m, schedule=direct.Schedule(form=form)), ranks), m, ranks)


def test_997_rows_on_3_ranks(backend):
    schedule = direct.Schedule(tile=(64, 32, 32))
    check(run(lambda: multiply(997, schedule=schedule), 3), 997, 3)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", ["fp16", "bf16", "int8"])
def test_types(backend, dtype, form):
    check(run(lambda: multiply(33, dtype, direct.Schedule(form=form)), 4), 33, 4, dtype)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("compute,size", [(1, None), (3, None), (4, (12, 16)), (2, (16, 8))])
def test_schedules(backend, compute, size, form):
    schedule = direct.Schedule(compute, size=size, form=form)
    check(run(lambda: multiply(50, schedule=schedule), 3), 50, 3)


@pytest.mark.parametrize("form", FORMS)
def test_200_seeds(backend, form):
    schedule = direct.Schedule(compute=1, form=form)
    first = None
    for seed in range(200):
        results = run(lambda: multiply(7, schedule=schedule, calls=2), 2, seed=seed, delay=True,
                      residency=1)
        text = b"".join(c.tobytes() for calls in results for c in calls)
        first = first or text
        assert text == first, f"seed {seed} differs from seed 0"
    check(results, 7, 2)


@pytest.mark.parametrize("form", FORMS)
def test_many_calls(backend, form):
    check(run(lambda: multiply(5, calls=50, schedule=direct.Schedule(form=form)), 2), 5, 2)


@pytest.mark.parametrize("seed", range(20))
def test_nobody_writes_into_out_once_a_call_has_ended_there(backend, seed):
    """Each rank overwrites its `out` at once; writes that are under way would come later."""
    schedule = direct.Schedule(compute=2, tile=(16, 16, 16), form="direct")

    def body():
        m, rank = 50, ty.rank()
        ws = direct.Workspace(np.float32, ty.cdiv(m, 3) * N, schedule.compute, slots=schedule.tiles(m, N))
        out, results = np.zeros((m, N), np.float32), []
        for call in range(4):
            direct.gemm_ar(ws, *inputs(rank, m, "fp32", call), out, schedule)
            results.append(out.copy())
            out[...] = np.nan
        ty.barrier()
        assert np.isnan(out).all()
        return results
    check(run(body, 3, seed=seed, delay=True), 50, 3)


@pytest.mark.parametrize("kind", ["by column", "gaps"])
@pytest.mark.parametrize("form", FORMS)
def test_out_with_strides(backend, form, kind):
    schedule = direct.Schedule(form=form)

    def body():
        m, rank = 33, ty.rank()
        ws = direct.Workspace(np.float32, m * N, schedule.compute, slots=schedule.tiles(m, N))
        whole = np.full((N, m) if kind == "by column" else (m, 2 * N + 5), -1, np.float32)
        out = whole.T if kind == "by column" else whole[:, 3:3 + 2 * N:2]
        results = []
        for call in range(2):
            direct.gemm_ar(ws, *inputs(rank, m, "fp32", call), out, schedule)
            results.append(out.copy())
        assert kind == "by column" or ((whole[:, :3] == -1).all() and (whole[:, 4:3 + 2 * N:2] == -1).all())
        return results
    check(run(body, 3), 33, 3)


@pytest.mark.parametrize("form", FORMS)
def test_unrounded_partial_sums(backend, form):
    """What the ranks send is of another type than the result, which is rounded once."""
    def body():
        schedule, m = direct.Schedule(form=form), 40
        ws = direct.Workspace(np.float32, m * N, schedule.compute, slots=schedule.tiles(m, N))
        out = np.zeros((m, N), numpy_type("bf16"))
        direct.gemm_ar(ws, *inputs(ty.rank(), m, "bf16"), out, schedule)
        return out
    results = run(body, 3)
    pairs = [inputs(rank, 40, "bf16") for rank in range(3)]
    for out in results:
        assert_close(out, sum(a.astype(np.float64) @ b.astype(np.float64) for a, b in pairs), depth=K * 3)
        np.testing.assert_array_equal(out, results[0])
