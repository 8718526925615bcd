# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Code of the forms that use the peers' own buffers (test_ptx.py), and which loops wait between iterations."""

import re

import pytest
from test_ptx import GPUS, ROOT, assemble, ptx_of, spilled_bytes

MET = "signal, symm *i64:16"
HOW = {"num_warps": 16, "maxnreg": 128}  # as ops/collective.cpp launches them


def everyones(kind: str) -> str:
    """A tensor of each of up to 8 ranks."""
    return ", ".join([f"*{kind}:16"] * 8)


FORMS = [
    ("all_reduce", f"{everyones('bf16')}, {everyones('bf16')}, {MET}, i32, fp32, 2, 16384, 1024"),
    ("all_reduce", f"{everyones('int8')}, {everyones('int8')}, {MET}, i32, int32, 8, 16384, 1024"),
    ("all_gather", f"{everyones('bf16')}, *bf16:16, {MET}, i32:16, i32:16, 8, 16384, 1024"),
    ("all_to_all", f"{everyones('fp32')}, *fp32:16, {MET}, i32, 4, 8192, 1024"),
    ("broadcast", f"{everyones('i8')}, *i8:16, {MET}, i32, i32, 2, 32768, 1024"),
    ("reduce_scatter", f"{everyones('fp16')}, *fp16:16, {MET}, i32:16, i32:16, fp32, 4, 16384, 1024"),
]


@pytest.mark.parametrize("gpu", GPUS)
@pytest.mark.parametrize("op,signature", FORMS)
def test_direct_forms_assemble(op, signature, gpu, tmp_path):
    ptx = ptx_of(ROOT / f"ops/{op}/{op}.py", f"{op}_direct", signature, gpu, **HOW)
    remarks, _ = assemble(ptx, gpu, tmp_path)
    assert spilled_bytes(remarks) == 0, remarks


@pytest.mark.parametrize("gpu", GPUS)
def test_pieces_of_direct_forms_assemble(gpu, tmp_path):
    signature = "*bf16:16, *bf16:16, signal, symm *i64:16, i32, i32, i32, 16384, 1024"
    assemble(ptx_of(ROOT / "ops/peers.py", "take_own", signature, gpu), gpu, tmp_path)


@pytest.mark.parametrize("op,signature", [
    ("all_reduce", f"{everyones('bf16')}, {everyones('bf16')}, {MET}, i32, fp32"),
    ("reduce_scatter", f"{everyones('bf16')}, *bf16:16, {MET}, i32:16, i32:16, fp32"),
    ("all_gather", f"{everyones('bf16')}, *bf16:16, {MET}, i32:16, i32:16"),
    ("all_to_all", f"{everyones('bf16')}, *bf16:16, {MET}, i32:16")])
def test_direct_forms_move_16_bytes_at_once_and_do_not_wait_between(op, signature, tmp_path):
    ptx = ptx_of(ROOT / f"ops/{op}/{op}.py", f"{op}_direct", f"{signature}, 2, 16384, 1024", "sm_90a",
                 **HOW)
    in_block = 16384 // (16 * 32 * 8)
    loops = [block for block in re.split(r"\n\$L\w+:", ptx)
             if len(re.findall(r"ld\.global\S*\.v4\.b32", block)) >= in_block]
    assert loops
    for loop in loops:
        assert len(re.findall(r"st\.global\S*\.v4\.b32", loop)) >= in_block
        assert "bar.sync" not in loop and "fence" not in loop
    remarks, _ = assemble(ptx, "sm_90a", tmp_path)
    assert spilled_bytes(remarks) == 0, remarks


LOOPS = """
import tilery as ty
import tilery.language as tl

@ty.jit
def loops(x, out, n, m, BLOCK: tl.constexpr):
    for begin in range(tl.program_id(0) * BLOCK, n, {step}):
        at = begin + tl.arange(0, BLOCK)
        {body}
"""
COPY = "tl.store(out + at, tl.load(x + at) + 1)"


@pytest.mark.parametrize("step,body,waits", [
    ("tl.num_programs(0) * BLOCK", COPY, False),
    ("BLOCK", COPY, False),
    ("BLOCK", "tl.store(x + at, tl.load(x + at) + 1)", False),
    ("BLOCK // 2", COPY, True),                                         # iterations overlap
    ("m", COPY, True),                                                  # perhaps
    ("BLOCK", "tl.store(out + at, tl.load(x + at + 1))", True),         # out may be x
    ("BLOCK", "tl.store(out + at, tl.load(x + BLOCK - at))", True)])
def test_loops_wait_where_an_iteration_may_touch_what_another_has_written(step, body, waits, tmp_path):
    file = tmp_path / "loops.py"
    file.write_text(LOOPS.format(step=step, body=body))
    ptx = ptx_of(file, "loops", "*fp32:16, *fp32:16, i32, i32, 1024", "sm_90a")
    loops = [block for block in re.split(r"\n\$L\w+:", ptx) if "ld.global" in block and "st.global" in block]
    assert loops and any("bar.sync" in loop for loop in loops) == waits
