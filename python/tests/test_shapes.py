# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Creation and shape operations, choice, gather: against NumPy, for several types."""

import numpy as np
import pytest
from backends import numpy_type, random_array
from kernel_text import make

DTYPES = ["fp32", "bf16", "int8", "int64"]
LONG = {"fp16": "float16", "bf16": "bfloat16", "fp32": "float32"}

# expression of x [8, 16] -> reference
FROM_MATRIX = {
    "trans": ("tl.trans(x)", lambda x: x.T),
    "T": ("x.T", lambda x: x.T),
    "permute": ("tl.permute(x, (1, 0))", lambda x: x.T),
    "permute_method": ("x.permute(1, 0)", lambda x: x.T),
    "reshape": ("tl.reshape(x, (4, 32))", lambda x: x.reshape(4, 32)),
    "reshape_method": ("x.reshape(32, 4)", lambda x: x.reshape(32, 4)),
    "view": ("tl.view(x, (2, 64))", lambda x: x.reshape(2, 64)),
    "ravel": ("tl.ravel(x)", lambda x: x.reshape(-1)),
    "rank3": ("tl.permute(tl.reshape(x, (2, 4, 16)), (2, 0, 1))",
              lambda x: x.reshape(2, 4, 16).transpose(2, 0, 1)),
    "expand_dims": ("tl.expand_dims(x, 1)", lambda x: x[:, None, :]),
    "broadcast_to": ("tl.broadcast_to(tl.expand_dims(x, 0), (2, 8, 16))",
                     lambda x: np.broadcast_to(x, (2, 8, 16))),
    "join": ("tl.join(x, x + x)", lambda x: np.stack([x, x + x], axis=-1)),
    "interleave": ("tl.interleave(x, x + x)",
                   lambda x: np.stack([x, x + x], axis=-1).reshape(8, 32)),
    "flip": ("tl.flip(x, 1)", lambda x: x[:, ::-1]),
    "where": ("tl.where(x > 0, x, x - x)", lambda x: np.where(x > 0, x, 0).astype(x.dtype)),
    "zeros_like": ("tl.zeros_like(x) + x", lambda x: x),
}


def kernel_of(expression: str, elements: int):
    return make(f'''@ty.jit
def kernel(a, out):
    at = tl.arange(0, 8)[:, None] * 16 + tl.arange(0, 16)[None, :]
    x = tl.load(a + at)
    y = tl.reshape({expression}, ({elements},))
    tl.store(out + tl.arange(0, {elements}), y)
''')


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", FROM_MATRIX)
def test_from_matrix(backend, op, dtype):
    expression, reference = FROM_MATRIX[op]
    x = random_array(np.random.default_rng(1), (8, 16), dtype)
    expected = np.ascontiguousarray(reference(x))
    out = np.zeros(expected.size, numpy_type(dtype))
    kernel_of(expression, expected.size)[(1,)](x, out)
    np.testing.assert_array_equal(out, expected.reshape(-1))


def test_split_undoes_join(backend):
    x = np.arange(128, dtype=np.float32)
    out = np.zeros(128, np.float32)
    make('''@ty.jit
def kernel(a, out):
    at = tl.arange(0, 64)
    even, odd = tl.split(tl.join(tl.load(a + at), tl.load(a + 64 + at)))
    tl.store(out + at, odd)
    tl.store(out + 64 + at, even)
''')[(1,)](x, out)
    np.testing.assert_array_equal(out, np.roll(x, 64))


def test_cat(backend):
    x = np.arange(32, dtype=np.int32)
    out = np.zeros(32, np.int32)
    make('''@ty.jit
def kernel(a, out):
    at = tl.arange(0, 16)
    both = tl.cat(tl.load(a + 16 + at), tl.load(a + at), can_reorder=False)
    tl.store(out + tl.arange(0, 32), both)
''')[(1,)](x, out)
    np.testing.assert_array_equal(out, np.roll(x, 16))


def test_broadcast_pair(backend):
    out = np.zeros((4, 8), np.int32)
    make('''@ty.jit
def kernel(out):
    r, c = tl.broadcast(tl.arange(0, 4)[:, None], tl.arange(0, 8)[None, :])
    tl.store(out + r * 8 + c, r * 10 + c)
''')[(1,)](out)
    np.testing.assert_array_equal(out, np.arange(4)[:, None] * 10 + np.arange(8))


@pytest.mark.parametrize("axis", [0, 1])
def test_gather(backend, axis):
    rng = np.random.default_rng(2)
    x = rng.standard_normal((8, 16)).astype(np.float32)
    index = rng.integers(0, x.shape[axis], (8, 16)).astype(np.int32)
    out = np.zeros_like(x)
    make(f'''@ty.jit
def kernel(a, i, out):
    at = tl.arange(0, 8)[:, None] * 16 + tl.arange(0, 16)[None, :]
    tl.store(out + at, tl.gather(tl.load(a + at), tl.load(i + at), axis={axis}))
''')[(1,)](x, index, out)
    np.testing.assert_array_equal(out, np.take_along_axis(x, index, axis))


@pytest.mark.parametrize("dtype", DTYPES + ["fp16", "uint8", "int16"])
def test_full_and_arange(backend, dtype):
    out = np.zeros(32, numpy_type(dtype))
    name = LONG.get(dtype, dtype)
    make(f'''@ty.jit
def kernel(out):
    at = tl.arange(0, 32)
    tl.store(out + at, tl.full((32,), 3, tl.{name}) + tl.arange(32, 64).to(tl.{name}))
''')[(1,)](out)
    np.testing.assert_array_equal(out, (np.arange(32, 64) + 3).astype(numpy_type(dtype)))


def test_3d_grid(backend):
    """Case 69: program_id and num_programs on three axes."""
    out = np.zeros((4, 3, 2, 6), np.int32)
    make('''@ty.jit
def kernel(out):
    x, y, z = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    at = ((z * tl.num_programs(1) + y) * tl.num_programs(0) + x) * 6
    tl.store(out + at + 0, x)
    tl.store(out + at + 1, y)
    tl.store(out + at + 2, z)
    tl.store(out + at + 3, tl.num_programs(0))
    tl.store(out + at + 4, tl.num_programs(1))
    tl.store(out + at + 5, tl.num_programs(2))
''')[(2, 3, 4)](out)
    z, y, x = np.indices((4, 3, 2))
    for i, expected in enumerate((x, y, z, x * 0 + 2, x * 0 + 3, x * 0 + 4)):
        np.testing.assert_array_equal(out[..., i], expected)
