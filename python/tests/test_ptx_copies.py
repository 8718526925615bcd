# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Products as PTX and assembled: before Hopper copies that threads start, operands by matrices, products of
fp8; on Hopper which rows bulk copies take."""

import re

import pytest
from test_ptx import ROOT, assemble, attention, gemm, machine_code, ptx_of, spilled_bytes


# Tiles as users choose them for large products, on GPUs before Hopper: copies of 16 bytes run ahead,
# operands come by matrices, and one barrier an iteration is all that threads wait for.
@pytest.mark.parametrize("rows,columns,depth,warps,stages", [(128, 128, 64, 8, 3), (128, 128, 32, 4, 4),
                                                             (128, 256, 32, 8, 4), (64, 64, 64, 4, 4)])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("gpu", ["sm_80", "sm_89"])
def test_products_before_hopper(rows, columns, depth, warps, stages, transposed, gpu, tmp_path):
    ptx = ptx_of(ROOT / "ops/matmul/matmul.py", "matmul",
                 gemm("bf16", rows, columns, depth, transposed=transposed), gpu, num_warps=warps,
                 num_stages=stages)
    copies = (rows + columns) * depth * 2 // (16 * 32 * warps)
    assert len(re.findall(r"cp\.async\.cg\.shared\.global \S+ \S+ 16", ptx)) == copies * stages
    assert f"cp.async.wait_group {stages - 2};" in ptx
    steps = ptx[ptx.index("cp.async.wait_group"):ptx.rindex("mma.sync")]
    assert steps.count("bar.sync") == 1 and "ldmatrix.sync.aligned.m8n8.x4.shared" in steps
    assert transposed != ("ldmatrix.sync.aligned.m8n8.x4.trans.shared" in steps)
    assert not re.search(r"(ld|st)\.shared|ld\.global", steps)
    remarks, _ = assemble(ptx, gpu, tmp_path)
    assert spilled_bytes(remarks) == 0, remarks


def test_tiles_of_which_one_fits(tmp_path):
    """Nothing is copied ahead, but tiles do not pass through registers, which they would overflow."""
    ptx = ptx_of(ROOT / "ops/matmul/matmul.py", "matmul", gemm("bf16", 128, 256, 128), "sm_80",
                 num_warps=8, num_stages=3)
    steps = ptx[ptx.index("cp.async.cg"):ptx.rindex("mma.sync")]
    assert steps.count("cp.async.wait_group 0;") == steps.count("cp.async.commit_group") == 1
    assert "bar.sync" in steps[steps.index("wait_group"):]
    remarks, _ = assemble(ptx, "sm_80", tmp_path)
    assert spilled_bytes(remarks) == 0, remarks


@pytest.mark.parametrize("kind,instruction", [("fp8e4nv", "e4m3"), ("fp8e5", "e5m2")])
def test_products_of_fp8_before_hopper(kind, instruction, tmp_path):
    ptx = ptx_of(ROOT / "ops/matmul/matmul.py", "matmul", gemm(kind, 128, 128, 64, transposed=True),
                 "sm_89", num_warps=8)
    assert f"mma.sync.aligned.m16n8k32.row.col.f32.{instruction}.{instruction}.f32" in ptx
    remarks, code = assemble(ptx, "sm_89", tmp_path)
    assert spilled_bytes(remarks) == 0, remarks
    assert "QMMA" in machine_code(code)


# Weights stay in the registers of the warps that computed them.
@pytest.mark.parametrize("head,rows,keys,warps", [(64, 128, 64, 8), (128, 128, 64, 8)])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("gpu", ["sm_80", "sm_89"])
def test_attention_before_hopper(head, rows, keys, warps, causal, gpu, tmp_path):
    ptx = ptx_of(ROOT / "ops/attention/attention.py", "attention",
                 attention("bf16", causal, "none", rows, keys, head), gpu, num_warps=warps, num_stages=2)
    steps = ptx[ptx.index("cp.async.wait_group"):]
    steps = steps[:steps.index("bra")]  # the loop over keys that every query sees
    assert steps.count("bar.sync") == 1 and not re.search(r"(ld|st)\.shared|ld\.global", steps)
    assert "mma.sync" in steps and "ldmatrix" in steps
    remarks, _ = assemble(ptx, gpu, tmp_path)
    assert spilled_bytes(remarks) == 0, remarks


def test_rows_of_eight_halves_come_by_bulk_copies(tmp_path):
    """16 bytes are what a tensor map wants, so extents that divide by 8 and not by 16 do."""
    signature = gemm("bf16", 128, 128, 64).replace("i32:16", "i32:8")
    ptx = ptx_of(ROOT / "ops/matmul/matmul.py", "matmul", signature, "sm_90a", num_warps=4)
    assert "cp.async.bulk.tensor.2d.shared::cluster" in ptx and "wgmma.mma_async" in ptx
    assert "cp.async.bulk.tensor.2d.global" in ptx and "st.global" not in ptx
    assemble(ptx, "sm_90a", tmp_path)
