# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""broadcast: both forms, any root, roots that change from call to call."""

import direct
import numpy as np
import pytest
from backends import numpy_type
from worlds import RANKS, data_of, run

import tilery as ty

FORMS = ["push", "pull", "direct"]


def send(form, n, roots, dtype="fp32", instances=2):
    rank = ty.rank()
    ws = direct.Workspace(numpy_type(dtype), max(n, 1), instances, slots=instances)
    results = []
    for call, root in enumerate(roots):
        out = np.zeros(n, numpy_type(dtype))
        x = data_of(rank, n, dtype, call) if rank == root else np.zeros(0, numpy_type(dtype))
        direct.broadcast(ws, x, out, root, form)
        results.append(out)
    return results


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("ranks", RANKS + [6])
@pytest.mark.parametrize("n", [1, 17, 64])
def test_sizes(backend, form, ranks, n):
    root = ranks - 1
    for results in run(lambda: send(form, n, [root]), ranks):
        np.testing.assert_array_equal(results[0], data_of(root, n))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("seed", range(8))
def test_changing_roots_with_delay(backend, form, seed):
    roots = [0, 1, 2, 2, 0, 1]
    for results in run(lambda: send(form, 11, roots), 3, seed=seed, delay=True, residency=2):
        for call, (root, result) in enumerate(zip(roots, results)):
            np.testing.assert_array_equal(result, data_of(root, 11, call=call))
