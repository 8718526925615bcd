# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Loops that say how many stages (tl.range(..., num_stages=n)): GPUs copy what they load ahead, whoever
uses it. Integers, so that all sums are exact."""

import re

import numpy as np
import pytest
from kernel_text import make
from test_ptx import ROOT, assemble, ptx_of, spilled_bytes

rows_kernel = make('''@ty.jit
def kernel(x, y, M, N, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    for row in tl.range(tl.program_id(0), M, tl.num_programs(0), num_stages=STAGES):
        v = tl.load(x + row * N + lanes, mask=lanes < N, other=7)
        scale = tl.load(x + row * N)
        tl.store(y + row * N + lanes, v * scale + tl.sum(v), mask=lanes < N)
''')

pairs_kernel = make('''@ty.jit
def kernel(x, y, out, M, N, ROWS: tl.constexpr, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    r = tl.arange(0, ROWS)[:, None]
    lanes = tl.arange(0, BLOCK)[None, :]
    x_tile = x + r * N + lanes
    total = tl.zeros((ROWS, BLOCK), tl.float32)
    for start in tl.range(0, M, ROWS, num_stages=STAGES):
        inside = (start + r < M) & (lanes < N)
        v = tl.load(x_tile, mask=inside, other=1.0)
        w = tl.load(y + (start + r) * N + lanes, mask=inside)
        total += tl.where(inside, v * w, v)
        x_tile += ROWS * N
    tl.store(out + r * BLOCK + lanes, total)
''')


@pytest.mark.parametrize("rows", [0, 1, 2, 3, 4, 7, 20])
@pytest.mark.parametrize("stages", [1, 2, 3, 4])
@pytest.mark.parametrize("n,block,kind", [(256, 256, "int32"), (250, 256, "int32"), (1000, 1024, "float32"),
                                          (77, 128, "float16")])
def test_rows_in_turn(backend, rows, stages, n, block, kind):
    x = np.random.default_rng(n).integers(-3, 4, (max(rows, 1), n)).astype(kind)
    y = np.full_like(x, 99)
    rows_kernel[(3,)](x, y, rows, n, BLOCK=block, STAGES=stages)
    filled = np.concatenate([x, np.full((len(x), block - n), 7, kind)], axis=1)
    expected = x * x[:, :1] + filled.sum(axis=1, keepdims=True)
    np.testing.assert_array_equal(y[:rows], expected[:rows])
    assert (y[rows:] == 99).all()


@pytest.mark.parametrize("rows", [0, 3, 8, 9, 33])
@pytest.mark.parametrize("stages", [2, 3])
@pytest.mark.parametrize("kind", ["float32", "float16"])
def test_tiles_that_are_added_up(backend, rows, stages, kind):
    rng, n = np.random.default_rng(rows), 120
    x, y = (rng.integers(-3, 4, (max(rows, 1), n)).astype(kind) for _ in range(2))
    out = np.zeros((8, 128), np.float32)
    pairs_kernel[(1,)](x, y, out, rows, n, ROWS=8, BLOCK=128, STAGES=stages)
    padded = -(-rows // 8) * 8
    terms = np.ones((padded, 128), np.float32)
    terms[:rows, :n] = x[:rows].astype(np.float32) * y[:rows]
    np.testing.assert_array_equal(out, terms.reshape(-1, 8, 128).sum(axis=0))


LONG = "*bf16:16, *bf16:16, i32:16, i32:16, i32:16, i32:16, 1, 32768, True, True, {stages}"


@pytest.mark.parametrize("gpu", ["sm_80", "sm_90a"])
def test_the_next_rows_come_while_one_is_computed(gpu, tmp_path):
    """Rows of 64 KiB: copies of 16 bytes, and each thread reads what it has copied itself."""
    stages = 2 if gpu == "sm_80" else 3
    ptx = ptx_of(ROOT / "ops/softmax/softmax.py", "softmax", LONG.format(stages=stages), gpu, num_warps=16)
    copies = 32768 * 2 // (16 * 32 * 16)
    assert len(re.findall(r"cp\.async\.cg\.shared\.global \S+ \S+ 16", ptx)) == copies * stages
    steps = ptx[ptx.index("cp.async.wait_group"):]
    assert "ld.global" not in steps
    assert len(re.findall(r"ld\.shared\.v4\.b32", steps[:steps.index("shfl")])) == copies
    remarks, _ = assemble(ptx, gpu, tmp_path)
    assert spilled_bytes(remarks) == 0, remarks


def test_only_loops_that_ask_for_it(tmp_path):
    ptx = ptx_of(ROOT / "ops/softmax/softmax.py", "softmax", LONG.format(stages=1), "sm_90a", num_warps=16)
    assert "cp.async" not in ptx
