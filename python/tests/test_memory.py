# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Loads, stores, block pointers, descriptors, atomics, and their order in one instance."""

import numpy as np
import pytest
from backends import numpy_type
from kernel_text import make


def test_mask_and_other(backend):
    x = np.arange(64, dtype=np.float32)
    out = np.full(64, -1, np.float32)
    make('''@ty.jit
def kernel(a, out):
    at = tl.arange(0, 64)
    v = tl.load(a + at, mask=at % 2 == 0, other=100.5)
    tl.store(out + at, v, mask=at < 60)
''')[(1,)](x, out)
    expected = np.where(np.arange(64) % 2 == 0, x, 100.5)
    np.testing.assert_array_equal(out[:60], expected[:60])
    np.testing.assert_array_equal(out[60:], -1)


@pytest.mark.parametrize("source,target", [("int16", "int8"), ("int32", "int8"), ("int64", "int16"),
                                           ("fp32", "fp16"), ("fp32", "bf16"), ("int32", "int64")])
@pytest.mark.parametrize("n", [1, 2, 15, 16])
def test_a_narrowing_store_of_one_element(backend, source, target, n):
    """Found by a random program: nothing beyond the mask is written, for n = 1 too."""
    x, out = np.full(16, -1, numpy_type(source)), np.zeros(16, numpy_type(target))
    make(f'''@ty.jit
def kernel(a, out, n):
    at = tl.arange(0, 16)
    tl.store(out + at, tl.load(a + at, mask=at < n, other=0), mask=at < n)
''')[(1,)](x, out, n)
    np.testing.assert_array_equal(out.astype(np.float64), np.where(np.arange(16) < n, -1, 0))


@pytest.mark.parametrize("dtype", ["int1", "int8", "int16", "uint16", "int64", "fp16", "fp64"])
def test_copy_of_every_type(backend, dtype):
    x = (np.arange(40) % 2 if dtype == "int1" else np.arange(40)).astype(numpy_type(dtype))
    out = np.zeros_like(x)
    make('''@ty.jit
def kernel(a, out, n):
    at = tl.arange(0, 64)
    tl.store(out + at, tl.load(a + at, mask=at < n), mask=at < n)
''')[(1,)](x, out, 40)
    np.testing.assert_array_equal(out, x)


def test_scalar_pointers(backend):
    x, out = np.array([3.5, 4.5], np.float32), np.zeros(2, np.float32)
    make('''@ty.jit
def kernel(a, out):
    tl.store(out + 1, tl.load(a) * 2)
    tl.store(out, tl.load(a + 1), mask=tl.program_id(0) == 0)
''')[(1,)](x, out)
    np.testing.assert_array_equal(out, [4.5, 7])


def test_strided_gather_and_scatter(backend):
    rng = np.random.default_rng(1)
    x, index = rng.standard_normal(100).astype(np.float32), rng.permutation(100)[:64]
    out = np.zeros(200, np.float32)
    make('''@ty.jit
def kernel(a, index, out):
    at = tl.arange(0, 64)
    i = tl.load(index + at)
    tl.store(out + i * 2, tl.load(a + i))
''')[(1,)](x, index.astype(np.int64), out)
    expected = np.zeros(200, np.float32)
    expected[index * 2] = x[index]
    np.testing.assert_array_equal(out, expected)


def test_pointer_from_where(backend):
    x, y = np.zeros(16, np.float32), np.ones(16, np.float32)
    out = np.zeros(16, np.float32)
    make('''@ty.jit
def kernel(a, b, out):
    at = tl.arange(0, 16)
    tl.store(out + at, tl.load(tl.where(at < 8, a + at, b + at)))
''')[(1,)](x, y, out)
    np.testing.assert_array_equal(out, np.arange(16) >= 8)


@pytest.mark.parametrize("m,n", [(16, 32), (13, 20), (1, 1)])
def test_block_pointers(backend, m, n):
    x = np.random.default_rng(2).standard_normal((m, n)).astype(np.float32)
    out = np.full((m, n), -1, np.float32)
    make('''@ty.jit
def kernel(a, out, M, N):
    source = tl.make_block_ptr(a, (M, N), (N, 1), (0, 0), (16, 8), (1, 0))
    target = tl.make_block_ptr(out, (M, N), (N, 1), (0, 0), (16, 8), (1, 0))
    for start in range(0, N, 8):
        tl.store(target, tl.load(source, boundary_check=(0, 1)) + 1, boundary_check=(0, 1))
        source = tl.advance(source, (0, 8))
        target = tl.advance(target, (0, 8))
''')[(1,)](x, out, m, n)
    np.testing.assert_array_equal(out, x + 1)


def test_tensor_descriptors(backend):
    x = np.random.default_rng(3).standard_normal((20, 24)).astype(np.float32)
    out = np.full((20, 24), -1, np.float32)
    make('''@ty.jit
def kernel(a, out, M, N):
    source = tl.make_tensor_descriptor(a, [M, N], [N, 1], [16, 16])
    target = tl.make_tensor_descriptor(out, [M, N], [N, 1], [16, 16])
    for m in range(0, M, 16):
        for n in range(0, N, 16):
            target.store([m, n], source.load([m, n]) * source.shape[0].to(tl.float32) / source.strides[0])
''')[(1,)](x, out, 20, 24)
    np.testing.assert_allclose(out, x * np.float32(20 / 24), rtol=1e-6)


ATOMICS = {"add": (lambda v: v.sum(axis=0), 0), "max": (lambda v: v.max(axis=0), -1000),
           "min": (lambda v: v.min(axis=0), 1000), "or": (np.bitwise_or.reduce, 0),
           "and": (np.bitwise_and.reduce, -1), "xor": (np.bitwise_xor.reduce, 0)}


@pytest.mark.parametrize("op", ATOMICS)
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_atomics(backend, op, dtype):
    reference, start = ATOMICS[op]
    x = np.random.default_rng(4).integers(-99, 99, (6, 32)).astype(numpy_type(dtype))
    out = np.full(32, start, numpy_type(dtype))
    make(f'''@ty.jit
def kernel(a, out):
    at = tl.arange(0, 32)
    tl.atomic_{op}(out + at, tl.load(a + tl.program_id(0) * 32 + at), mask=at < 31)
''')[(6,)](x, out)
    np.testing.assert_array_equal(out[:31], reference(x)[:31])
    assert out[31] == start


def test_atomic_add_of_floats_and_old_values(backend):
    out, old = np.zeros(1, np.float32), np.zeros(8, np.float32)
    make('''@ty.jit
def kernel(out, old):
    tl.store(old + tl.program_id(0), tl.atomic_add(out, 1.0))
''')[(8,)](out, old)
    assert out[0] == 8
    assert sorted(old) == list(range(8))


def test_atomic_cas_and_xchg(backend):
    word, seen = np.array([5], np.int32), np.zeros(3, np.int32)
    make('''@ty.jit
def kernel(word, seen):
    tl.store(seen, tl.atomic_cas(word, 4, 9))
    tl.store(seen + 1, tl.atomic_cas(word, 5, 7))
    tl.store(seen + 2, tl.atomic_xchg(word, 11))
''')[(1,)](word, seen)
    np.testing.assert_array_equal(seen, [5, 5, 7])
    assert word[0] == 11


@pytest.mark.parametrize("transposed", [False, True])
def test_a_load_sees_the_store_before_it(backend, transposed):
    """Case 17: program order within an instance, also when the layout differs."""
    x = np.random.default_rng(5).standard_normal((16, 16)).astype(np.float32)
    scratch, out = np.zeros((16, 16), np.float32), np.zeros((16, 16), np.float32)
    order = "c * 16 + r" if transposed else "r * 16 + c"
    make(f'''@ty.jit
def kernel(a, scratch, out):
    r, c = tl.arange(0, 16)[:, None], tl.arange(0, 16)[None, :]
    tl.store(scratch + r * 16 + c, tl.load(a + r * 16 + c) + 1)
    y = tl.load(scratch + {order})
    tl.store(scratch + r * 16 + c, y)
    tl.store(out + r * 16 + c, tl.load(scratch + r * 16 + c))
''')[(1,)](x, scratch, out)
    np.testing.assert_array_equal(out, (x + 1).T if transposed else x + 1)


@pytest.mark.parametrize("trips", [1, 2, 5])
def test_a_buffer_is_read_then_overwritten_in_a_loop(backend, trips):
    """Case 60: the next trip's write does not overtake this trip's read."""
    buffer, out = np.arange(32, dtype=np.int32), np.zeros((trips, 32), np.int32)
    make('''@ty.jit
def kernel(buffer, out, trips):
    at = tl.arange(0, 32)
    for i in range(trips):
        v = tl.load(buffer + (at + 1) % 32)
        tl.store(out + i * 32 + at, v)
        tl.store(buffer + at, v + 100)
''')[(1,)](buffer, out, trips)
    state = np.arange(32)
    for i in range(trips):
        state = np.roll(state, -1)
        np.testing.assert_array_equal(out[i], state)
        state = state + 100


def test_offsets_beyond_32_bits(backend):
    """Case 54: row * columns above 2^31 (of untouched, so unallocated, memory)."""
    rows, columns = 600_000, 4096
    x = np.zeros((rows, columns), np.int8)
    out = np.zeros(16, np.int8)
    x[rows - 1, :16] = np.arange(16)
    make('''@ty.jit
def kernel(a, out, row, columns):
    at = tl.arange(0, 16)
    tl.store(out + at, tl.load(a + row.to(tl.int64) * columns + at))
''')[(1,)](x, out, rows - 1, columns)
    np.testing.assert_array_equal(out, np.arange(16))
