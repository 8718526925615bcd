# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""all_reduce: both forms give the same bits on every rank, for any size and schedule."""

import direct
import numpy as np
import pytest
from backends import assert_close, numpy_type
from worlds import RANKS, data_of, run

import tilery as ty

FORMS = ["one_shot", "two_shot", "direct"]


def reduce(form, n, dtype="fp32", instances=2, calls=1, reuse=False):
    rank = ty.rank()
    ws = direct.Workspace(numpy_type(dtype), max(n, 1), instances, slots=instances)
    results, x = [], np.zeros(n, numpy_type(dtype))
    for call in range(calls):
        # Case 11: the same input array is overwritten right after the call.
        x[...] = data_of(rank, n, dtype, call)
        out = np.zeros(n, numpy_type(dtype))
        direct.all_reduce(ws, x, out, form)
        results.append(out)
    return results


def expected(n, world, dtype="fp32", call=0):
    return sum(data_of(r, n, dtype, call).astype(np.float64) for r in range(world))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("ranks", RANKS + [6])
@pytest.mark.parametrize("n", [1, 17, 128])
def test_sizes(backend, form, ranks, n):
    results = run(lambda: reduce(form, n), ranks)
    for result in results:
        assert_close(result[0], expected(n, ranks), depth=ranks)
        np.testing.assert_array_equal(result[0], results[0][0])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", ["fp16", "bf16", "int32", "int8"])
def test_types(backend, form, dtype):
    for result in run(lambda: reduce(form, 50, dtype), 8):
        assert_close(result[0], expected(50, 8, dtype), ulps=1)


def test_forms_and_sizes_agree_bitwise(backend):
    """Case 57: the bits of an element do not depend on the message's size or on the form."""
    def body():
        rank = ty.rank()
        ws = [direct.Workspace(numpy_type("fp32"), 256, 2, slots=2) for _ in FORMS]
        x = data_of(rank, 256)
        whole, short = np.zeros(256, np.float32), np.zeros(77, np.float32)
        direct.all_reduce(ws[0], x, whole, FORMS[0])
        direct.all_reduce(ws[1], x[:77].copy(), short, FORMS[1])
        return whole[:77], short
    for whole, short in run(body, 4):
        np.testing.assert_array_equal(whole, short)


@pytest.mark.parametrize("form", FORMS)
def test_200_seeds(backend, form):
    """Any schedule, with late remote writes and minimal residency, gives the same bits."""
    first = None
    for seed in range(200):
        results = run(lambda: reduce(form, 19, instances=1, calls=2), 3, seed=seed, delay=True,
                      residency=1)
        text = b"".join(r.tobytes() for result in results for r in result)
        first = first or text
        assert text == first, f"seed {seed} differs from seed 0"
    for call in range(2):
        assert_close(results[0][call], expected(19, 3, call=call), depth=3)


@pytest.mark.parametrize("form", FORMS)
def test_1000_reuses(backend, form):
    """Case 6: epochs advance on the device, nothing is reset."""
    def body():
        results = reduce(form, 5, instances=1, calls=1000 if backend == "cpu" else 200)
        return results[0], results[-1], len(results)
    for begin, end, calls in run(body, 2):
        assert_close(begin, expected(5, 2), depth=2)
        assert_close(end, expected(5, 2, call=calls - 1), depth=2)


@pytest.mark.parametrize("n", [50, 1000])
def test_direct_in_place(backend, n):
    """Whole blocks, those with a mask and the last elements; each rank's share is touched by it alone."""
    def body():
        ws = direct.Workspace(np.float32, n, 2, slots=2)
        x = data_of(ty.rank(), n)
        direct.all_reduce(ws, x, x, "direct")
        return x
    for result in run(body, 2, delay=True, seed=3):
        assert_close(result, expected(n, 2), depth=2)
