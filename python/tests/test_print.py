# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""device_print of compiled kernels: the same lines on every device."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import numpy as np, tilery as ty, tilery.language as tl, tilery.language.device as dl
from kernel_text import make
device = {device!r}
if device:
    import staging
    from pytest import MonkeyPatch
    staging.install(MonkeyPatch(), device)
{body}
"""


def printed(backend, body: str) -> list[str]:
    """Lines in any order: instances and threads run as they like."""
    if backend == "interpret":
        pytest.skip("the interpreter prints a tile in one line")
    code = PROGRAM.format(device="cuda" if backend == "cuda" else "", body=body)
    environment = os.environ | {"TILERY_INTERPRET": "0",
                                "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True,
                          timeout=120)
    assert done.returncode == 0, done.stderr
    return sorted(done.stdout.splitlines())


def test_a_line_for_each_element(backend):
    assert printed(backend, """
make('''@ty.jit
def kernel(x, n):
    pid = tl.program_id(0)
    at = tl.arange(0, 2)[:, None] * 2 + tl.arange(0, 2)[None, :]
    tl.device_print("100% x: ", tl.load(x + at))
    tl.device_print("n ", n + pid)
    tl.device_print("hex ", n + pid, hex=True)
    tl.device_print("here")
''')[(2,)](np.array([0.5, -1, 2, 0.1], np.float32), -7)
""") == sorted(line for pid, n, bits in [(0, -7, 2**64 - 7), (1, -6, 2**64 - 6)] for line in [
        *(f"pid ({pid}, 0, 0) idx ({i}, {j}) 100% x: {value}" for (i, j), value in
          zip([(0, 0), (0, 1), (1, 0), (1, 1)],
              ["0.5", "-1", "2", "0.100000001" if backend == "cuda" else "0.10000000149011612"])),
        f"pid ({pid}, 0, 0) n {n}", f"pid ({pid}, 0, 0) hex {bits:#x}", f"pid ({pid}, 0, 0) here"])


def test_ranks(backend):
    lines = printed(backend, """
def body():
    make('''@ty.jit
def kernel(x):
    tl.device_print("sees ", dl.rank() * 10)
''')[(1,)](ty.zeros(1, ty.int32))
ty.spawn(body, ranks=2)
""")
    assert lines == ["rank 0 pid (0, 0, 0) sees 0", "rank 1 pid (0, 0, 0) sees 10"]
