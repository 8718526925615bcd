# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""The C++ API: the example compiles against the headers and runs with no Python in it."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tilery import _capi

ROOT = Path(__file__).resolve().parents[2]
COMPILER = shutil.which("g++") or shutil.which("clang++")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C++ compiler is installed")


@needs_compiler
@pytest.mark.parametrize("header", ["tilery.hpp", "error.hpp", "world.hpp", "spawn.hpp",
                                    "kernel.hpp"])
def test_each_header_stands_alone(tmp_path, header):
    source = tmp_path / "alone.cpp"
    source.write_text(f'#include "tilery/{header}"\n')
    subprocess.run([COMPILER, "-std=c++20", "-Wall", "-Wextra", "-Werror", "-fsyntax-only",
                    f"-I{ROOT / 'include'}", str(source)], check=True, timeout=120)


@needs_compiler
def test_the_c_header_is_c11(tmp_path):
    source = tmp_path / "alone.c"
    source.write_text('#include "tilery/tilery.h"\n#include "tilery/kernel_abi.h"\n')
    compiler = shutil.which("gcc") or shutil.which("clang")
    subprocess.run([compiler, "-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic",
                    "-fsyntax-only", f"-I{ROOT / 'include'}", str(source)], check=True)


@needs_compiler
def test_the_example(compiled, tmp_path):
    library = _capi.find().resolve()
    program = tmp_path / "ag_gemm"
    subprocess.run([COMPILER, "-std=c++20", "-O1", f"-I{ROOT / 'include'}",
                    str(ROOT / "examples/ag_gemm.cpp"), str(library), "-pthread",
                    f"-Wl,-rpath,{library.parent}", "-o", str(program)], check=True, timeout=240)
    done = subprocess.run([str(program), str(ROOT / "examples/scale.py")], capture_output=True,
                          text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "largest error on 4 ranks" in done.stdout and "kernel file: right" in done.stdout
