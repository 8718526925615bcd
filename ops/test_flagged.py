# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Words with flags where ranks have nothing to wait for: none may run ahead of those that read its words."""

import direct
import numpy as np
import pytest
from backends import numpy_type
from worlds import data_of, run

import tilery as ty

RANKS, CALLS, INSTANCES = 3, 8, 2


class Words:
    """What a form with flags keeps between calls on this rank."""

    def __init__(self):
        self.capacity = 64
        self.stage = ty.zeros(2 * RANKS * self.capacity, np.int64, "stage")
        self.epochs = np.zeros(INSTANCES, np.int64)


def gathered(total, dtype):
    words, n = Words(), ty.cdiv(total, RANKS)
    own = direct.rows_of(total, ty.rank(), RANKS)
    results = []
    for call in range(CALLS):
        out = np.zeros(total, numpy_type(dtype))
        direct.kernels("all_gather").all_gather_flagged[(INSTANCES,)](
            data_of(0, total, dtype, call)[own].copy(), out, words.stage, words.epochs, n, total,
            words.capacity, SIZE=out.itemsize, BLOCK=16)
        results.append(out)
    return results


def scattered(total, dtype):
    words, n = Words(), ty.cdiv(total, RANKS)
    own = direct.rows_of(total, ty.rank(), RANKS)
    results = []
    for call in range(CALLS):
        out = np.zeros(own.stop - own.start, numpy_type(dtype))
        direct.kernels("reduce_scatter").reduce_scatter_flagged[(INSTANCES,)](
            data_of(ty.rank(), total, dtype, call), out, words.stage, words.epochs, n, total,
            words.capacity, SIZE=out.itemsize, ACC=direct.accumulator(out.dtype), BLOCK=16)
        results.append(out)
    return results


@pytest.mark.parametrize("dtype", ["fp16", "int32"])
@pytest.mark.parametrize("total", [1, 2, 7])
@pytest.mark.parametrize("seed", [None, 0, 1])
def test_ranks_without_a_part(backend, total, dtype, seed):
    options = {} if seed is None else {"seed": seed, "delay": True}
    for results in run(lambda: gathered(total, dtype), RANKS, **options):
        for call, out in enumerate(results):
            np.testing.assert_array_equal(out, data_of(0, total, dtype, call))
    for rank, results in enumerate(run(lambda: scattered(total, dtype), RANKS, **options)):
        for call, out in enumerate(results):
            parts = [data_of(r, total, dtype, call).astype(np.float64) for r in range(RANKS)]
            np.testing.assert_array_equal(out, sum(parts)[direct.rows_of(total, rank, RANKS)].astype(out.dtype))
