# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""The wheel in an empty virtual environment: two ranks run a kernel without a compiler or LLVM."""

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WHEELS = sorted((ROOT / "dist").glob("tilery-*.whl"))

KERNEL = '''
import numpy as np
import tilery as ty
import tilery.language as tl
import tilery.language.device as dl


@ty.jit
def exchange(x, y, ready, N: tl.constexpr):
    at = tl.arange(0, N)
    peer = 1 - dl.rank()
    tl.store(dl.symm_at(y, peer) + at, tl.load(x + at) * 2)
    dl.notify(ready, peer, signal=1)
    dl.wait(ready, waitValue=1)


def rank_main():
    x, y = ty.zeros(64, "fp32"), ty.zeros(64, "fp32")
    x.numpy()[:] = np.arange(64) + 100 * ty.rank()
    ready = ty.signals(1)
    exchange[(1,)](x, y, ready, N=64)
    expected = (np.arange(64) + 100 * (1 - ty.rank())) * 2
    np.testing.assert_array_equal(y.numpy(), expected)


ty.spawn(rank_main, ranks=2)
mapped = open("/proc/self/maps").read()
assert "libtilery.so" in mapped
for foreign in ("libLLVM", "libMLIR", "libfmt", "libspdlog"):
    assert foreign not in mapped, foreign
print("two ranks agree")
'''


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """A virtual environment that holds only the wheel and NumPy."""
    if not WHEELS:
        pytest.skip("no wheel in dist/; run `make wheel`")
    place = tmp_path_factory.mktemp("wheel")
    venv.create(place / "env", with_pip=True)
    python = place / "env" / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", WHEELS[-1]],
                   check=True)
    return place


def run(environment, *command):
    """Runs with an empty PATH and nothing of this checkout in the environment."""
    clean = {"HOME": str(environment), "PATH": str(environment / "env" / "bin")}
    return subprocess.run(command, env=clean, cwd=environment, capture_output=True, text=True,
                          timeout=120)


def test_two_ranks_run_a_kernel(environment):
    script = environment / "exchange.py"
    script.write_text(KERNEL)
    result = run(environment, environment / "env" / "bin" / "python", "-I", script)
    assert result.returncode == 0, result.stderr
    assert "two ranks agree" in result.stdout


def test_the_command_line_finds_its_library(environment):
    result = run(environment, environment / "env" / "bin" / "tilery", "doctor")
    assert result.returncode == 0, result.stderr + result.stdout
    assert "self-test  all_reduce over 2 ranks: right" in result.stdout


def test_the_command_line_finds_what_it_measures_with(environment):
    result = run(environment, environment / "env" / "bin" / "tilery", "bench", "overlap")
    assert result.returncode == 1
    assert "gpu_overlap: No module named 'torch' for " in result.stderr, result.stderr


def test_size_and_tag():
    if not WHEELS:
        pytest.skip("no wheel in dist/; run `make wheel`")
    assert WHEELS[-1].name.endswith("-cp311-abi3-manylinux_2_36_x86_64.whl")
    assert os.path.getsize(WHEELS[-1]) < 40 << 20
    assert sys.version_info >= (3, 11)
