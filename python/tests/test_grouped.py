# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Descriptors of what only the kernel knows: products of groups whose addresses, sizes and strides are read
from memory."""

import re

import numpy as np
import pytest
from backends import numpy_type
from kernel_text import make
from test_ptx import assemble, ptx_of

import tilery as ty

# One call multiplies A[M, K] B[N, K]^T = C[M, N] for each group; instances walk over the tiles of all of them.
WALK = '''
    tile = tl.program_id(0)
    end = 0
    for g in range(groups):
        M = tl.load(sizes + 3 * g)
        N = tl.load(sizes + 3 * g + 1)
        K = tl.load(sizes + 3 * g + 2)
        across = tl.cdiv(N, BN)
        tiles = tl.cdiv(M, BM) * across
        if tile < end + tiles:
            a = tl.make_tensor_descriptor({a}, [M, K], [tl.load(leads + 3 * g), 1], [BM, BK])
            b = tl.make_tensor_descriptor({b}, [N, K], [tl.load(leads + 3 * g + 1), 1], [BN, BK])
            c = tl.make_tensor_descriptor({c}, [M, N], [tl.load(leads + 3 * g + 2), 1], [BM, BN])
            while tile < end + tiles:
                row = (tile - end) // across * BM
                column = (tile - end) % across * BN
                acc = tl.zeros((BM, BN), tl.float32)
                for k in range(0, K, BK):
                    acc = tl.dot(a.load([row, k]), b.load([column, k]).T, acc)
                c.store([row, column], acc.to(tl.{dtype}))
                tile += tl.num_programs(0)
        end += tiles
'''
BY_OFFSET = '''@ty.jit
def kernel(x, y, out, x_at, y_at, out_at, sizes, leads, groups, BM: tl.constexpr, BN: tl.constexpr,
           BK: tl.constexpr):''' + WALK.format(
    a="x + tl.load(x_at + g)", b="y + tl.load(y_at + g)", c="out + tl.load(out_at + g)", dtype="{dtype}")
BY_ADDRESS = '''@ty.jit
def kernel(x, y, out, x_at, y_at, out_at, sizes, leads, groups, BM: tl.constexpr, BN: tl.constexpr,
           BK: tl.constexpr):''' + WALK.format(
    a="tl.load(x_at + g).to(tl.pointer_type(tl.{dtype}))",
    b="tl.load(y_at + g).to(tl.pointer_type(tl.{dtype}))",
    c="tl.load(out_at + g).to(tl.pointer_type(tl.{dtype}))", dtype="{dtype}")
SIGNATURE = ("*{0}:16, *{0}:16, *{0}:16, *i64:16, *i64:16, *i64:16, *i32:16, *i32:16, i32, 128, 256, 64")


class Groups:
    """Matrices of several products in three arrays, each row with room for 16 bytes more than it needs."""

    def __init__(self, shapes, dtype, seed=7):
        rng = np.random.default_rng(seed)
        self.dtype = numpy_type(dtype)
        per_row = 16 // np.dtype(self.dtype).itemsize
        self.sizes = np.array(shapes, np.int32)
        places = [[(m, k), (n, k), (m, n)] for m, n, k in shapes]
        self.leads = np.array([[-(-cols // per_row) * per_row + per_row for _, cols in row]
                               for row in places], np.int32)
        lengths = np.array([[rows * lead for (rows, _), lead in zip(row, leads)]
                            for row, leads in zip(places, self.leads)])
        self.offsets = np.concatenate([np.zeros((1, 3), np.int64), np.cumsum(lengths, axis=0)[:-1]])
        self.arrays = [rng.integers(-2, 3, total).astype(np.float32).astype(self.dtype)
                       for total in lengths.sum(axis=0)]
        self.arrays[2][:] = 77
        self.places = places

    def matrix(self, array, which, group):
        rows, cols = self.places[group][which]
        lead = self.leads[group][which]
        start = self.offsets[group][which]
        return array[start:start + rows * lead].reshape(rows, lead)[:, :cols]

    def expected(self):
        out = self.arrays[2].copy()
        for group in range(len(self.sizes)):
            a, b = (self.matrix(self.arrays[i], i, group).astype(np.float32) for i in (0, 1))
            self.matrix(out, 2, group)[:] = (a @ b.T).astype(self.dtype)
        return out

    def addresses(self):
        starts = np.array([array.ctypes.data for array in self.arrays])
        return (starts + self.offsets * np.dtype(self.dtype).itemsize).astype(np.int64)

    def launch(self, kernel, places, instances, **options):
        tables = [np.ascontiguousarray(column) for column in places.T]
        kernel[(instances,)](*self.arrays, *tables, self.sizes.reshape(-1), self.leads.reshape(-1),
                             len(self.sizes), **options)


SHAPES = [(40, 24, 72), (16, 16, 16), (1, 33, 5), (0, 16, 16), (50, 16, 0), (17, 64, 40)]


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_groups_by_offset(backend, dtype):
    groups = Groups(SHAPES, dtype)
    expected = groups.expected()
    groups.launch(make(BY_OFFSET.format(dtype=dtype)), groups.offsets, 3, BM=16, BN=16, BK=16)
    np.testing.assert_array_equal(groups.arrays[2], expected)


def test_large_tiles_of_groups(backend):
    """Tiles of which GPUs make roles and descriptors."""
    groups = Groups([(200, 300, 130), (128, 256, 64), (64, 40, 512), (0, 256, 64), (300, 8, 0)], "bfloat16")
    expected = groups.expected()
    groups.launch(make(BY_OFFSET.format(dtype="bfloat16")), groups.offsets, 2, BM=64, BN=64, BK=64)
    np.testing.assert_array_equal(groups.arrays[2], expected)


@pytest.mark.parametrize("interpret", [True, False])
def test_groups_by_address(interpret):
    """Arrays of a GPU have other addresses than those of the test."""
    groups = Groups(SHAPES, "float16")
    expected = groups.expected()
    with ty.interpret(interpret):
        groups.launch(make(BY_ADDRESS.format(dtype="float16")), groups.addresses(), 2, BM=16, BN=16, BK=16)
    np.testing.assert_array_equal(groups.arrays[2], expected)


@pytest.mark.parametrize("starts", [(-5, -3), (-16, 0), (0, -40), (9, 5), (60, 60)])
def test_stores_that_start_before_the_array(backend, starts):
    """A product's result, of which only what lies inside is stored."""
    rng = np.random.default_rng(3)
    x = rng.integers(-2, 3, (128, 64)).astype(np.float16)
    y = rng.integers(-2, 3, (64, 64)).astype(np.float16)
    out = np.full((70, 72), 9, np.float16)
    make('''@ty.jit
def kernel(x, y, out, M, N, row, column, steps):
    a = tl.make_tensor_descriptor(x, [128, 64], [64, 1], [128, 32])
    b = tl.make_tensor_descriptor(y, [64, 64], [64, 1], [32, 64])
    c = tl.make_tensor_descriptor(out, [M, N], [72, 1], [128, 64])
    acc = tl.zeros((128, 64), tl.float32)
    for k in range(0, steps):
        acc = tl.dot(a.load([0, 32 * k]), b.load([32 * k, 0]), acc)
    c.store([row, column], acc.to(tl.float16))
''')[(1,)](x, y, out, 70, 66, *starts, 2)
    expected = np.full((70, 72), 9, np.float16)
    product = x.astype(np.float32) @ y.astype(np.float32)
    for i in range(70):
        for j in range(66):
            if 0 <= i - starts[0] < 128 and 0 <= j - starts[1] < 64:
                expected[i, j] = product[i - starts[0], j - starts[1]]
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("source", [BY_OFFSET, BY_ADDRESS])
def test_groups_have_tensor_maps(tmp_path, source):
    """Two for the producer, one for each of the eight warps that store; no other loads of operands."""
    file = tmp_path / "grouped.py"
    file.write_text("import tilery as ty\nimport tilery.language as tl\n" + source.format(dtype="bfloat16"))
    ptx = ptx_of(file, "kernel", SIGNATURE.format("bf16"), "sm_90a", num_warps=8, num_stages=4)
    made = re.findall(r"tensormap\.cp_fenceproxy\.global\.shared::cta\.tensormap::generic\.release\.gpu"
                      r"\.sync\.aligned (\[%rd\d+\]), \[%r\d+\], 128;\n"
                      r"fence\.proxy\.tensormap::generic\.acquire\.gpu (\[%rd\d+\]), 128;", ptx)
    assert len(made) == 3 and all(place == acquired for place, acquired in made)
    assert ptx.count("wgmma.mma_async") and ptx.count("cp.async.bulk.tensor.2d.shared::cluster") == 2
    assert "cp.async.bulk.tensor.2d.global.shared::cta" in ptx
    report, _ = assemble(ptx, "sm_90a", tmp_path)
    assert "0 bytes spill stores" in report
    for older in ("sm_80", "sm_90"):  # the same kernel without the engine
        text = ptx_of(file, "kernel", SIGNATURE.format("bf16"), older, num_warps=8, num_stages=3)
        assert "tensormap" not in text and "mma.sync.aligned" in text
        assemble(text, older, tmp_path)


def test_descriptors_that_are_not_aligned(interpreted):
    x = np.zeros((8, 9), np.float32)
    kernel = make('''@ty.jit
def kernel(x, first, lead):
    d = tl.make_tensor_descriptor(x + first, [4, 8], [lead, 1], [4, 8])
    d.store([0, 0], d.load([0, 0]) + 1)
''')
    text = "a tensor descriptor needs a base and strides that are multiples of 16 bytes, got "
    with pytest.raises(ty.LaunchError, match=text + "base at"):
        kernel[(1,)](x, 1, 8)
    with pytest.raises(ty.LaunchError, match=text + "stride 0 at 36 bytes"):
        kernel[(1,)](x, 0, 9)
