# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""all_gather: every form, rank count and ragged size; calls back to back; any schedule."""

import direct
import numpy as np
import pytest
from backends import numpy_type
from worlds import RANKS, data_of, run

import tilery as ty

FORMS = ["push", "pull", "direct"]


def gather(form, total, dtype="fp32", instances=2, calls=1, block=None):
    """The rank's part of a test: `calls` gathers of `total` elements; returns the results."""
    world, rank = ty.num_ranks(), ty.rank()
    n = ty.cdiv(total, world)
    own = max(0, min(n, total - rank * n))
    ws = direct.Workspace(numpy_type(dtype), max(n, 1), instances, slots=instances)
    results = []
    for call in range(calls):
        out = np.zeros(total, numpy_type(dtype))
        direct.all_gather(ws, data_of(rank, own, dtype, call), out, form)
        results.append(out)
    return results


def expected(total, world, dtype="fp32", call=0):
    n = ty.cdiv(total, world)
    sizes = [max(0, min(n, total - rank * n)) for rank in range(world)]
    return np.concatenate([data_of(r, size, dtype, call) for r, size in enumerate(sizes)])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("ranks", RANKS + [6])
@pytest.mark.parametrize("total", [1, 17, 128])
def test_sizes(backend, form, ranks, total):
    for results in run(lambda: gather(form, total), ranks):
        np.testing.assert_array_equal(results[0], expected(total, ranks))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", ["fp16", "bf16", "int8", "int64"])
def test_types(backend, form, dtype):
    for results in run(lambda: gather(form, 50, dtype), 3):
        np.testing.assert_array_equal(results[0], expected(50, 3, dtype))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("seed", range(5))
def test_back_to_back_calls_with_delay(backend, form, seed):
    """Cases 6, 11 and 20: no reset and no synchronisation by the host between calls."""
    for results in run(lambda: gather(form, 40, calls=5), 3, seed=seed, delay=True, residency=2):
        for call, result in enumerate(results):
            np.testing.assert_array_equal(result, expected(40, 3, call=call))
