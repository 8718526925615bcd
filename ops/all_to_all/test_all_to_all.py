# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""all_to_all: both forms, any rank count and block size."""

import direct
import numpy as np
import pytest
from backends import numpy_type
from worlds import RANKS, data_of, run

import tilery as ty

FORMS = ["push", "pull", "direct"]


def exchange(form, n, dtype="fp32", instances=2, calls=1):
    world, rank = ty.num_ranks(), ty.rank()
    ws = direct.Workspace(numpy_type(dtype), max(n, 1), instances, slots=instances)
    results = []
    for call in range(calls):
        out = np.zeros((world, n), numpy_type(dtype))
        direct.all_to_all(ws, data_of(rank, (world, n), dtype, call), out, form)
        results.append(out)
    return results


def expected(rank, n, world, dtype="fp32", call=0):
    return np.stack([data_of(r, (world, n), dtype, call)[rank] for r in range(world)])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("ranks", RANKS + [6])
@pytest.mark.parametrize("n", [1, 17, 64])
def test_sizes(backend, form, ranks, n):
    for rank, results in enumerate(run(lambda: exchange(form, n), ranks)):
        np.testing.assert_array_equal(results[0], expected(rank, n, ranks))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("seed", range(5))
def test_back_to_back_calls_with_delay(backend, form, seed):
    options = dict(seed=seed, delay=True, residency=2)
    for rank, results in enumerate(run(lambda: exchange(form, 9, "bf16", calls=5), 3, **options)):
        for call, result in enumerate(results):
            np.testing.assert_array_equal(result, expected(rank, 9, 3, "bf16", call))
