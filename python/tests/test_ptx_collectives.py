# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Code for GPUs that are not there, of what collectives share: transfers' kernels, words with flags."""

import re

import pytest
from test_ptx import GPUS, OPERATORS, ROOT, assemble, ptx_of, spilled_bytes


@pytest.mark.parametrize("gpu", GPUS)
@pytest.mark.parametrize("function, signature", [
    ("open_call", "signal, symm *i64:16"),
    ("collect", "*bf16:16, *bf16:16, symm *bf16:16, signal, symm *i64:16, i32, i32, i32, i32, i32, 8192"),
    ("add_arrivals",
     "*bf16:16, *bf16:16, symm *bf16:16, signal, symm *i64:16, i32, i32, i32, i32, fp32, 8192"),
    ("store_rows", "symm *fp32:16, *bf16:16, i32, i32, i32, i32:1, 64, 64")])
def test_parts_of_operators_assemble(function, signature, gpu, tmp_path):
    remarks, _ = assemble(ptx_of(ROOT / "ops/parts.py", function, signature, gpu, num_warps=8), gpu, tmp_path)
    assert spilled_bytes(remarks) <= 16, remarks  # what only the loop over chunks needs


def test_words_with_flags_are_one_access():
    """8 bytes are stored and loaded at once, and a wait for them has a limit."""
    for op in ("all_reduce", "all_gather", "reduce_scatter", "all_to_all"):
        signature = next(entry[2] for entry in OPERATORS if entry[1] == f"{op}_flagged")
        ptx = ptx_of(ROOT / "ops" / op / f"{op}.py", f"{op}_flagged", signature, "sm_90a")
        assert re.search(r"ld\.volatile\.global\.b64", ptx) and "st.volatile.global.b64" in ptx
        assert "%globaltimer" in ptx and "nanosleep" in ptx


def test_waits_pause_and_read_the_time_once_in_many_tries():
    ptx = ptx_of(ROOT / "ops/parts.py", "open_call", "signal, symm *i64:16", "sm_90a")
    wait = ptx[ptx.index("ld.acquire.sys.global.b64"):]
    turn = re.search(r"add\.s32 \s*(%r\d+), %r\d+, 1;\n\s*and\.b32 \s*(%r\d+), \1, 63;\n"
                     r"\s*setp\.ne\.b32 \s*(%p\d+), \2, 0;[^@]*@\3 bra", wait)
    assert turn and turn.end() < wait.index("%globaltimer") < wait.index("nanosleep.u32"), wait[:3000]
