# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""One process a rank, started with torchrun's variables: kernels, operators, a rank that dies."""

import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from backends import require_library

ROOT = Path(__file__).resolve().parents[2]

SCRIPT = '''
import sys, numpy as np, tilery as ty
sys.path[:0] = [{tests!r}, {ops!r}]
from kernel_text import make
ty.init({init})
{body}
ty.finalize()
'''

EXCHANGE = '''
kernel = make("""@ty.jit
def kernel(x, inbox, ready, n):
    peer = (dl.rank() + 1) % dl.num_ranks()
    dl.put_signal(inbox, x, n, peer, ready, 1)
    dl.wait(ready, waitValue=1)
""")
rank, world = ty.rank(), ty.num_ranks()
inbox, ready = ty.zeros(64, "fp32", "inbox"), ty.signals(1, "ready")
kernel[(1,)](np.full(64, rank + 1, np.float32), inbox, ready, 64)
assert (inbox.numpy() == (rank - 1) % world + 1).all()
a = np.random.default_rng(1).standard_normal((17, 24)).astype(np.float32)
b = np.random.default_rng(2 + rank).standard_normal((24, 32)).astype(np.float32)
rows = ty.cdiv(17, world)
c = np.zeros((17, 32), np.float32)
for _ in range(3):
    ty.ops.ag_gemm(a[rank * rows:(rank + 1) * rows].copy(), b, c)
assert np.abs(c - a.astype(np.float64) @ b).max() < 1e-4
total = np.zeros(1000, np.float32)
ty.ops.all_reduce(np.full(1000, rank + 1, np.float32), total)
assert (total == world * (world + 1) / 2).all()
print("right")
'''

TEAMS = '''
from test_teams import run_in
rank, world = ty.rank(), ty.num_ranks()
low, high = ty.team([*range(world - 1)], "low"), ty.team([*range(world - 1, 0, -1)], "high")
parity = ty.split(rank % 2, name="parity")
for team in (low, high, parity, ty.init()):
    if team.rank >= 0:
        run_in(team)
        total = np.zeros(1000, np.float32)
        for _ in range(3):
            ty.ops.all_reduce(np.full(1000, rank + 1, np.float32), total, team=team)
        assert (total == sum(r + 1 for r in team.ranks)).all()
    else:
        try:
            ty.barrier(team=team)
            raise SystemExit("a rank outside was let in")
        except ty.LaunchError as error:
            assert "does not belong to team" in str(error)
parity.finalize()
run_in(ty.team([1, 0], "again")) if rank < 2 else ty.team([1, 0], "again")
print("right")
'''

DISAGREE = '''
try:
    ty.team([0, ty.rank()], "tp")
except ty.LaunchError as error:
    print("refused:", error)
'''

DIES = '''
kernel = make("""@ty.jit
def kernel(ready):
    dl.wait(ready, waitValue=1)
""")
ready = ty.signals(1, "ready")
ty.barrier()
if ty.rank() == 1:
    import os, signal
    os.kill(os.getpid(), signal.SIGKILL)
try:
    kernel[(1,)](ready)
except ty.PeerError as error:
    print("PeerError", error)
'''


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start(tmp_path, body: str, ranks: int, init: str = "",
          environment=lambda rank: {}) -> list[subprocess.Popen]:
    script = tmp_path / "job.py"
    script.write_text(SCRIPT.format(body=body, init=init, tests=str(ROOT / "python/tests"),
                                    ops=str(ROOT / "ops")))
    shared = dict(os.environ, WORLD_SIZE=str(ranks), LOCAL_WORLD_SIZE=str(ranks),
                  MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()),
                  TILERY_JOB_TOKEN=secrets.token_hex(16), TILERY_TIMEOUT_S="20",
                  TILERY_INTERPRET="0", PYTHONPATH=str(ROOT / "python"))
    return [subprocess.Popen([sys.executable, str(script)], text=True, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE,
                             env=shared | {"RANK": str(rank), "LOCAL_RANK": str(rank)} | environment(rank))
            for rank in range(ranks)]


@pytest.mark.parametrize("ranks", [2, 3])
def test_kernels_and_operators(tmp_path, ranks):
    require_library()
    for rank, process in enumerate(start(tmp_path, EXCHANGE, ranks)):
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0 and out.strip() == "right", f"rank {rank}: {err}"


def test_a_rank_that_dies(tmp_path):
    require_library()
    begun = time.monotonic()
    processes = start(tmp_path, DIES, 3)
    outputs = [process.communicate(timeout=60) for process in processes]
    assert processes[1].returncode == -signal.SIGKILL
    for rank in (0, 2):
        assert "PeerError" in outputs[rank][0] and "1" in outputs[rank][0], outputs[rank]
    assert time.monotonic() - begun < 20


@pytest.mark.parametrize("ending", ["", "import os; os.chdir('/')"])
def test_a_program_that_does_not_finalize(tmp_path, ending):
    require_library()
    begun = time.monotonic()
    body = f"x = ty.zeros(4, 'fp32'); ty.barrier(); print('done'); ty.finalize = int; {ending}"
    for process in start(tmp_path, body, 3):
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0 and out == "done\n" and err == ""
    assert time.monotonic() - begun < 15


def test_an_exception_ends_the_other_ranks(tmp_path):
    require_library()
    body = """
if ty.rank() == 1:
    raise ValueError("rank 1 gives up")
try:
    ty.barrier()
except ty.PeerError as error:
    print("PeerError")
"""
    processes = start(tmp_path, body, 2)
    outputs = [process.communicate(timeout=60) for process in processes]
    assert outputs[0][0] == "PeerError\n", outputs
    assert "rank 1 gives up" in outputs[1][1]


def test_shapes_that_differ_between_ranks(tmp_path):
    require_library()
    body = '''
try:
    ty.zeros(10 + ty.rank(), "fp32", "shard")
except ty.LaunchError as error:
    print(error)
'''
    for process in start(tmp_path, body, 2):
        out, err = process.communicate(timeout=60)
        assert "40" in out and "44" in out and "shard" in out, err


@pytest.mark.parametrize("ranks", [2, 4])
def test_teams(tmp_path, ranks):
    require_library()
    for rank, process in enumerate(start(tmp_path, TEAMS, ranks)):
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0 and out.strip() == "right", f"rank {rank}: {err}"


def test_ranks_that_disagree_about_a_team(tmp_path):
    require_library()
    for process in start(tmp_path, DISAGREE, 2):
        out, err = process.communicate(timeout=30)
        assert "refused: the ranks disagree" in out and "[0, 0]" in out and "[0, 1]" in out, err


def test_the_last_activity_of_a_rank_that_dies(tmp_path):
    require_library()
    body = DIES[:DIES.index("ready = ty.signals")] + '''
import os, threading
ready = ty.signals(1, "ready")
ty.barrier()
if ty.rank() == 1:
    threading.Timer(0.5, os.kill, (os.getpid(), 9)).start()
try:
    kernel[(1,)](ready)
except ty.PeerError as error:
    print(error)
'''
    processes = start(tmp_path, body, 2)
    outputs = [process.communicate(timeout=60) for process in processes]
    assert "died; its last known activity: runs kernel 'kernel'" in outputs[0][0], outputs
