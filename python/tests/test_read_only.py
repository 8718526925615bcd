# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Read-only and overlapping memory: refused where it would be written, by kernels and operators."""

import numpy as np
import pytest
from backends import require_library

import tilery as ty
import tilery.language as tl
from tilery import ops


@ty.jit
def write(p):
    tl.store(p, 5.0)


@ty.jit
def write_in_callee(x):
    write(x)


@ty.jit
def write_moved(x, n):
    p = x
    for _ in range(n):
        tl.store(p, 1.0)
        p += 1


@ty.jit
def write_chosen(x, y, n):
    p = x if n > 1 else y
    tl.atomic_add(p, 1.0)


@ty.jit
def write_descriptor(x):
    block = tl.make_tensor_descriptor(x, [8], [1], [8])
    block.store([0], tl.zeros((8,), tl.float32))


@ty.jit
def read(x, y):
    tl.store(y, tl.load(x))


@pytest.fixture
def frozen():
    require_library()
    return np.frombuffer(b"\0" * 32, np.float32)


@pytest.mark.parametrize("kernel,arguments", [
    (write, 0), (write_in_callee, 0), (write_moved, 1), (write_chosen, 2), (write_descriptor, 0)])
def test_a_kernel_that_writes_read_only_memory_is_refused(frozen, kernel, arguments):
    rest = {0: (), 1: (3,), 2: (np.zeros(8, np.float32), 2)}[arguments]
    with pytest.raises(ty.LaunchError, match="argument 'p|x' of '.*' is read-only, but the kernel writes it"):
        kernel[(1,)](frozen, *rest)
    assert bytes(frozen) == b"\0" * 32


def test_reading_is_allowed(frozen):
    out = np.ones(4, np.float32)
    read[(1,)](frozen, out)
    assert out.tolist() == [0, 1, 1, 1]


def test_operators_refuse_outputs_that_cannot_be_written(frozen):
    a = np.ones((4, 4), np.float32)
    with pytest.raises(ty.LaunchError, match="matmul: 'c' is read-only, but the operator writes it"):
        ops.matmul(a, a, np.broadcast_to(np.float32(0), (4, 4)))
    shared = np.lib.stride_tricks.as_strided(np.zeros(4, np.float32), (4, 4), (0, 4))
    with pytest.raises(ty.LaunchError, match="'c' has a stride of 0: its elements share memory"):
        ops.matmul(a, a, shared)
    with pytest.raises(ty.LaunchError, match="'c' shares memory with 'a', which the operator still reads"):
        ops.matmul(a, np.ones((4, 4), np.float32), a)


def test_row_operators_work_in_place(frozen):
    x = np.random.default_rng(3).standard_normal((5, 37)).astype(np.float32)
    expected = np.exp(x) / np.exp(x).sum(axis=1, keepdims=True)
    ops.softmax(x, x)
    np.testing.assert_allclose(x, expected, rtol=1e-5)
