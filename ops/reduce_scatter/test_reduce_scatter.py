# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""reduce_scatter: every form, rank count and ragged size; float32 accumulation (case 53)."""

import direct
import numpy as np
import pytest
from backends import assert_close, numpy_type
from worlds import RANKS, data_of, run

import tilery as ty

FORMS = ["push", "pull", "direct"]


def scatter(form, total, dtype="fp32", instances=2, calls=1):
    world, rank = ty.num_ranks(), ty.rank()
    n = ty.cdiv(total, world)
    own = max(0, min(n, total - rank * n))
    ws = direct.Workspace(numpy_type(dtype), max(n, 1), instances, slots=instances)
    results = []
    for call in range(calls):
        out = np.zeros(own, numpy_type(dtype))
        direct.reduce_scatter(ws, data_of(rank, total, dtype, call), out, form)
        results.append(out)
    return results


def expected(rank, total, world, dtype="fp32", call=0):
    n = ty.cdiv(total, world)
    whole = sum(data_of(r, total, dtype, call).astype(np.float64) for r in range(world))
    return whole[min(rank * n, total):min((rank + 1) * n, total)]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("ranks", RANKS + [6])
@pytest.mark.parametrize("total", [1, 17, 128])
def test_sizes(backend, form, ranks, total):
    for rank, results in enumerate(run(lambda: scatter(form, total), ranks)):
        assert_close(results[0], expected(rank, total, ranks), depth=ranks)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", ["fp16", "bf16", "int32"])
def test_types(backend, form, dtype):
    for rank, results in enumerate(run(lambda: scatter(form, 50, dtype), 8)):
        assert_close(results[0], expected(rank, 50, 8, dtype), ulps=1)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("seed", range(5))
def test_back_to_back_calls_with_delay(backend, form, seed):
    options = dict(seed=seed, delay=True, residency=2)
    for rank, results in enumerate(run(lambda: scatter(form, 40, calls=5), 3, **options)):
        for call, result in enumerate(results):
            assert_close(result, expected(rank, 40, 3, call=call), depth=3)
