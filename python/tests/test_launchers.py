# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""The process world under launchers that are not ours."""

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
