# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Overlapped products as PTX for Hopper, assembled where ptxas is."""

import pytest
from test_ptx import OPERATORS, ROOT, assemble, ptx_of, spilled_bytes

OVERLAPPED = [entry for entry in OPERATORS if entry[0] in ("ag_gemm", "gemm_rs", "gemm_ar")]


@pytest.mark.parametrize("op, function, signature", [entry[:3] for entry in OVERLAPPED])
def test_overlapped_products_on_hopper(op, function, signature, tmp_path):
    """Signals do not keep a product from bulk copies and matrix units."""
    signature = signature.replace("64, 64, 32, 64, 64, 8", "128, 256, 64, 128, 256, 8")
    ptx = ptx_of(ROOT / "ops" / op / f"{op}.py", function, signature, "sm_90a", num_warps=8,
                 num_stages=4)
    assert "wgmma.mma_async" in ptx and "cp.async.bulk.tensor" in ptx and "mma.sync" not in ptx
    remarks, _ = assemble(ptx, "sm_90a", tmp_path)
    # Parts of sums are loaded beside an accumulator that takes half of the registers; unrounded ones take
    # the other half.
    most = {"ag_gemm": 0, "gemm_rs": 512, "gemm_ar": 2048}[op]
    assert spilled_bytes(remarks) <= most or "symm *fp32" in signature, remarks
