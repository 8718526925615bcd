# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""The process world under launchers that are not ours."""

import importlib.util
import os
import shutil
import subprocess
import sys

import pytest
from backends import require_library

SCRIPT = """
import tilery as ty
from tilery import ops

ty.init()
x, total = ty.zeros(100, "fp32"), ty.zeros(100, "fp32")
x.numpy()[:] = ty.rank() + 1
ops.all_reduce(x, total)
n = ty.num_ranks()
assert (total.numpy() == n * (n + 1) / 2).all()
print(f"rank {ty.rank()} of {n}", flush=True)
ty.finalize()
"""


@pytest.mark.skipif(not shutil.which("mpirun"), reason="mpirun is not installed")
def test_mpirun(tmp_path):
    require_library()
    script = tmp_path / "all_reduce.py"
    script.write_text(SCRIPT)
    command = ["mpirun", "--bind-to", "none", "--oversubscribe", "-n", "3", sys.executable, str(script)]
    if os.geteuid() == 0:
        command.insert(1, "--allow-run-as-root")
    result = subprocess.run(command, capture_output=True, text=True, timeout=60,
                            env=os.environ | {"OMPI_MCA_rmaps_base_oversubscribe": "1"})
    assert result.returncode == 0, result.stderr
    assert all(f"rank {rank} of 3" in result.stdout for rank in range(3)), result.stdout


TORCH_SCRIPT = """
import torch
import tilery as ty
import tilery.language as tl
import tilery.language.device as dl
from tilery import ops

@ty.jit
def swap(out, inbox, ready, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    peer = dl.num_ranks() - 1 - dl.rank()
    own = tl.load(out + at, mask=at < n)
    tl.store(dl.symm_at(inbox, peer) + at, own, mask=at < n)
    dl.notify(ready, peer)
    dl.wait(ready)
    tl.store(out + at, tl.load(inbox + at, mask=at < n), mask=at < n)

if {initialise}:
    torch.distributed.init_process_group("gloo")
ty.init()
rank, n = ty.rank(), ty.num_ranks()
assert n == 2
values = torch.full((100,), float(rank + 1))
total = torch.empty(100)
ops.all_reduce(values, total)
assert (total == 3).all()
inbox, ready = ty.zeros(100, ty.float32), ty.signals(1)
swap[(1,)](values, inbox, ready, 100, BLOCK=128)
assert (values == 2 - rank).all()
if {initialise}:
    torch.distributed.all_reduce(total)
    assert (total == 6).all()
    torch.distributed.destroy_process_group()
ty.finalize()
print(f"rank {{rank}} of {{n}}", flush=True)
"""


@pytest.mark.skipif(not importlib.util.find_spec("torch"),
                    reason="torch is not installed (pip install torch)")
@pytest.mark.parametrize("initialise", [False, True], ids=["launcher", "torch.distributed"])
def test_torchrun(tmp_path, initialise):
    """The ranks come from torchrun's variables, and from an initialised torch.distributed."""
    require_library()
    script = tmp_path / "swap.py"
    script.write_text(TORCH_SCRIPT.format(initialise=initialise))
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2",
               "--standalone", str(script)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    assert all(f"rank {rank} of 2" in result.stdout for rank in range(2)), result.stdout
