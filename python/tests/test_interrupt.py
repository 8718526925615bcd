# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C while compiled kernels compute: the launch ends between two program instances."""

import os
import signal
import subprocess
import sys
import time

import pytest
from backends import require_library

SCRIPT = """
import sys, threading, time
import numpy as np
import tilery as ty
import tilery.language as tl
import tilery.language.device as dl

@ty.jit
def busy(x, n, WAITS: tl.constexpr):
    total = tl.load(x)
    if WAITS:
        if tl.program_id(0) < 0:
            dl.barrier_all()
    for i in range(n):
        total = total * 0.999 + tl.sin(total)
    tl.store(x + tl.program_id(0) % 4, total)

def run():
    x = np.ones(4, np.float32)
    busy[(1,)](x, 1, WAITS={waits})
    print("ready", flush=True)
    busy[(16000,)](x, 500000, WAITS={waits})  # minutes

begun = time.monotonic()
try:
    {call}
except KeyboardInterrupt:
    print(f"interrupted after {{time.monotonic() - begun:.1f}} s", flush=True)
    {after}
    sys.exit(3)
"""


def interrupted(folder, call: str, waits: bool, after: str = "pass") -> str:
    require_library()
    script = folder / "busy.py"
    script.write_text(SCRIPT.format(call=call, waits=waits, after=after))
    process = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True,
                               env=os.environ | {"TILERY_INTERPRET": "0"})
    try:
        assert process.stdout.readline() == "ready\n", process.stderr.read()
        time.sleep(0.5)
        sent = time.monotonic()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
    finally:
        process.kill()
    assert process.returncode == 3 and "interrupted after" in out, err
    assert time.monotonic() - sent < 5
    return out


@pytest.mark.parametrize("waits", [False, True], ids=["plain", "fibers"])
def test_a_launch_of_many_instances(tmp_path, waits):
    interrupted(tmp_path, "ty.init(); run()" if waits else "run()", waits, after="x = np.ones(4, np.float32); busy[(1,)](x, 1, WAITS=False); "
                "print('still works')" if not waits else "pass")


@pytest.mark.parametrize("waits", [False, True], ids=["plain", "fibers"])
def test_ranks_of_a_spawn(tmp_path, waits):
    """The main thread waits for the ranks; they find that the world was ended."""
    out = interrupted(tmp_path, "ty.spawn(run, ranks=1)", waits,
                      after="time.sleep(0.1); print(threading.active_count(), 'thread')")
    assert "1 thread" in out
