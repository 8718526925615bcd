# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""PTX of the overlapped products for Hopper: matrix units and bulk copies beside signals."""

import re

import pytest
from test_ptx import OPERATORS, ROOT, assemble, gemm_ar_direct, machine_code, ptx_of, spilled_bytes

OVERLAPPED = [entry for entry in OPERATORS if entry[0] in ("ag_gemm", "gemm_rs", "gemm_ar")]


@pytest.mark.parametrize("op, function, signature", [entry[:3] for entry in OVERLAPPED])
def test_overlapped_products_on_hopper(op, function, signature, tmp_path):
    """Signals do not keep a product from bulk copies and matrix units."""
    signature = signature.replace("64, 64, 32, 64, 64, 8", "128, 256, 64, 128, 256, 8")
    ptx = ptx_of(ROOT / "ops" / op / f"{op}.py", function, signature, "sm_90a", num_warps=8,
                 num_stages=4 if op == "ag_gemm" else 3)
    assert "wgmma.mma_async" in ptx and "cp.async.bulk.tensor" in ptx and "mma.sync" not in ptx
    remarks, _ = assemble(ptx, "sm_90a", tmp_path)
    # Parts of sums are loaded beside an accumulator that takes half of the registers; unrounded ones take
    # the other half.
    most = {"ag_gemm": 0, "gemm_rs": 512, "gemm_ar": 2048, "gemm_ar_direct": 0}
    assert spilled_bytes(remarks) <= most.get(function, most[op]) or "symm *fp32" in signature, remarks


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_sums_for_all_ranks_leave_by_bulk_copies_on_hopper(ranks, tmp_path):
    """Into the own `out` and the others'; who is told of a tile is told when its copies are complete."""
    tiles = "128, 256, 64, 128, 256, 8"
    fitting, stepped = (gemm_ar_direct(ranks, "bf16", stride).replace("64, 64, 32, 64, 64, 8", tiles)
                        for stride in (16, 1))
    file, options = ROOT / "ops/gemm_ar/gemm_ar.py", {"num_warps": 8, "num_stages": 3}
    ptx = ptx_of(file, "gemm_ar_direct", fitting, "sm_90a", **options)
    boxes, store = 256 // 64, "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group"
    stores = re.findall(rf"{re.escape(store)} \[(%rd\d+),", ptx)
    assert len(stores) == ranks * boxes and len(set(stores)) == ranks
    # Each signal to another rank, after the copies of warps that compute have been waited for.
    signals = [match.start() for match in re.finditer(r"st\.relaxed\.sys\.global\.b64", ptx)]
    assert signals
    for at in signals:
        before = ptx[:at]
        steps = [before.rindex(text) for text in ("cp.async.bulk.wait_group 0;", "bar.sync 1, 256;", "fence.acq_rel.sys;")]
        assert steps == sorted(steps) and store not in ptx[steps[0]:at]
    remarks, _ = assemble(ptx, "sm_90a", tmp_path)
    assert spilled_bytes(remarks) == 0, remarks
    assert store not in ptx_of(file, "gemm_ar_direct", stepped, "sm_90a", **options)


@pytest.mark.parametrize("gathered", ["None", "*bf16:16"])
@pytest.mark.parametrize("strides", ["i32:16, i32:1", "i32:1, i32:16"])
def test_own_rows_in_place_on_hopper(strides, gathered, tmp_path):
    """Products with own rows and with staged ones need no stack, and share a ring: two would not have
    three slots of 48 KiB."""
    signature = (f"*bf16:16, *bf16:16, *bf16:16, {gathered}, symm *bf16:16, symm *bf16:16, signal, "
                 f"signal, *i64:16, i32, i32, i32:16, i32:16, i32, i32, i32:16, {strides}, i32:16, i32:1, "
                 "True, 8, 0, 128, 256, 64, 128, 256, 8, fp32")
    three, four = (ptx_of(ROOT / "ops/ag_gemm/ag_gemm.py", "ag_gemm", signature, "sm_90a", num_warps=8,
                          num_stages=stages) for stages in (3, 4))
    assert three.count("mbarrier.init") == 2 * 3
    remarks, code = assemble(four, "sm_90a", tmp_path)
    assert spilled_bytes(remarks) == 0, remarks
    text = machine_code(code)
    assert text.count("HGMMA.64x256x16") == 2 * 4 and "UTMALDG.2D" in text
