# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""The command line: run, compile, doctor, cache, ops."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from backends import require_library

ROOT = Path(__file__).resolve().parents[2]
SOFTMAX = str(ROOT / "ops/softmax/softmax.py")
SIGNATURE = "*fp32, *fp32, i32, i32, i32, i32, 1, 64, True, False, 1"


@pytest.fixture(scope="module")
def tilery():
    require_library()
    program = shutil.which("tilery") or str(ROOT / "build/dev/bin/tilery")
    if not os.path.exists(program):
        pytest.skip("the command line is not built")

    def call(*arguments, status=0):
        result = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=60)
        assert result.returncode == status, result.stdout + result.stderr
        return result.stdout if status == 0 else result.stderr + result.stdout

    return call


@pytest.mark.parametrize("stage,text", [
    ("core", "core.load"), ("vector", "llvm.intr.masked.load"), ("llvm", "define void @softmax"),
    ("asm", "softmax:"), ("metadata", '"scratch_bytes"')])
def test_compile_emits_each_stage(tilery, stage, text):
    assert text in tilery("compile", SOFTMAX, "-s", SIGNATURE, "-e", stage)


def test_wrong_command_lines(tilery, tmp_path):
    assert "did you mean 'doctor'?" in tilery("docter", status=2)
    assert "no command 'foo'" in tilery("foo", status=2)
    assert "is a directory; give a Python file" in tilery("compile", str(tmp_path), status=1)
    assert "--grace" in tilery("run", "-n", "1", "--grace", "-1", "true", status=105)


def test_run_takes_a_separator(tilery):
    assert tilery("run", "-n", "2", "--", "echo", "--flag", "--") == "--flag --\n" * 2
    assert tilery("run", "-n", "1", "echo", "--flag") == "--flag\n"


MAIN = """
#include <stdint.h>
#include <stdio.h>
#include "tilery/kernel_abi.h"

void softmax(tilery_instance *, const uint64_t *);

int main(void) {
  static _Alignas(64) char scratch[1 << 16];
  float x[3] = {0, 0, 0}, y[3] = {9, 9, 9};
  tilery_instance instance = {0};
  instance.num_programs[0] = instance.num_programs[1] = instance.num_programs[2] = 1;
  instance.scratch = scratch;
  uint64_t slots[] = {(uintptr_t)x, (uintptr_t)y, 1, 3, 3, 3};
  softmax(&instance, slots);
  printf("%.4f %.4f %.4f\\n", y[0], y[1], y[2]);
  return 0;
}
"""


def test_an_object_file_links_into_a_c_program(tilery, tmp_path):
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang-22")
    if not compiler:
        pytest.skip("no C compiler")
    target = str(tmp_path / "softmax.o")
    tilery("compile", SOFTMAX, "-s", SIGNATURE, "-e", "object", "-o", target)
    metadata = json.loads(Path(target + ".json").read_text())
    assert metadata["name"] == "softmax" and metadata["scratch_bytes"] <= 1 << 16
    source = tmp_path / "main.c"
    source.write_text(MAIN)
    program = str(tmp_path / "main")
    subprocess.run([compiler, "-std=c11", f"-I{ROOT}/include", str(source), target, "-lm", "-o", program],
                   check=True)
    result = subprocess.run([program], capture_output=True, text=True, check=True)
    assert result.stdout == "0.3333 0.3333 0.3333\n"


@pytest.mark.parametrize("arguments,text", [
    (["compile", SOFTMAX, "-s", "*fp32"], "'softmax' has 11 parameters, but the signature has 1 entries"),
    (["compile", "/no/such.py"], "cannot read the kernel file '/no/such.py'"),
    (["compile", SOFTMAX, "-f", "softmx"], "hint: did you mean 'softmax'?"),
    (["compile", SOFTMAX, "-s", SIGNATURE.replace("64", "48")], "needs a power of two"),
    (["compile", SOFTMAX, "-s", SIGNATURE.replace("*fp32", "*fp33")], "'*fp33' is not a type or constant"),
    (["compile", SOFTMAX, "-s", SIGNATURE, "-e", "ptx"], "not 'ptx'"),
    (["compile", SOFTMAX, "-s", SIGNATURE.replace("i32,", "i32:,", 1)], "'i32:' is not a type or constant"),
    (["compile", SOFTMAX, "-s", SIGNATURE.replace("i32,", "fp32:16,", 1)], "'fp32:16' is not a type"),
])
def test_mistakes_are_named(tilery, arguments, text):
    assert text in tilery(*arguments, status=1)


def test_run_gives_the_status_of_the_failing_rank(tilery):
    script = "import os, sys; sys.exit(7 if os.environ['RANK'] == '1' else 0)"
    tilery("run", "-n", "3", "python3", "-c", script, status=7)
    assert "ranks" in tilery("run", "-n", "0", "true", status=105)


def test_doctor_runs_its_self_test(tilery):
    report = json.loads(tilery("doctor", "--json"))
    assert report["self_test"]["passed"] is True
    assert {target["name"] for target in report["targets"]} >= {"cpu", "nvidia", "amd"}
    assert all("note" in target for target in report["targets"] if not target["found"])


def test_ops_and_cache(tilery):
    names = [op["name"] for op in json.loads(tilery("ops", "--json"))]
    assert {"matmul", "ag_gemm", "gemm_rs", "gemm_ar", "all_reduce"} <= set(names)
    assert "kernels" in tilery("cache")
