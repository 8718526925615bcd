# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""`make bench`: the figures that Tilery promises on a CPU, as JSON in bench/results/.

Each figure comes from fresh processes, medians of several runs; peers run in the same process.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

IMPORT = """
import time
start = time.perf_counter()
import tilery
print(1e3 * (time.perf_counter() - start))
"""

LAUNCH = """
import time
import numpy as np
import tilery as ty


@ty.jit
def empty(x):
    pass


x = np.zeros(4, np.float32)
empty[(1,)](x)
start = time.perf_counter()
for _ in range(20000):
    empty[(1,)](x)
print(1e6 * (time.perf_counter() - start) / 20000)
"""

# From source to code in memory; the library's own start is not compilation.
COMPILE = """
import ctypes
import os
import sys
import time

library = ctypes.CDLL(os.environ["TILERY_LIBRARY"])
library.tilery_error_message.restype = ctypes.c_char_p


def check(status):
    if status:
        sys.exit(library.tilery_error_message().decode())


library.tilery_doctor()
function, kernel = ctypes.c_void_p(), ctypes.c_void_p()
start = time.perf_counter()
check(library.tilery_function_load(sys.argv[1].encode(), b"ag_gemm", ctypes.byref(function)))
check(library.tilery_function_compile_signature(function, None, sys.argv[2].encode(),
                                                ctypes.byref(kernel)))
print(1e3 * (time.perf_counter() - start))
"""
SIGNATURE = ("*fp32, *fp32, *fp32, None, symm *fp32, signal, signal, *i64, i32, i32, i32, i32, i32, "
             "i64, i32, i32:1, i32, i32:1, 4, 2, 64, 64, 64, fp32")

MATMUL = """
import statistics
import time
import numpy as np
from tilery import ops

n = 1024
generator = np.random.default_rng(1)
a, b = (generator.standard_normal((n, n), dtype=np.float32) for _ in range(2))
c = np.zeros((n, n), np.float32)


def median(call):
    call()
    times = []
    for _ in range(9):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


ours, blas = median(lambda: ops.matmul(a, b, c)), median(lambda: a @ b)
error = float(np.abs(c - a.astype(np.float64) @ b).max())
print(2e-9 * n**3 / ours, 2e-9 * n**3 / blas, blas / ours, error)
"""


def environment(**extra: str) -> dict[str, str]:
    """One thread, and OpenBLAS's own choice of kernel."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("OPENBLAS_")}
    return env | {"OPENBLAS_NUM_THREADS": "1"} | extra


def run(script: str, *arguments: str, **extra: str) -> list[float]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "measured.py"
        path.write_text(script)
        out = subprocess.run([sys.executable, path, *arguments], env=environment(**extra), check=True,
                             capture_output=True, text=True)
    return [float(x) for x in out.stdout.split()]


def median_of(script: str, *arguments: str, runs: int = 5, **extra: str) -> float:
    return statistics.median(run(script, *arguments, **extra)[0] for _ in range(runs))


def compile_times() -> tuple[float, float]:
    """ag_gemm to code in memory: with an empty cache, and from the cache in a new process."""
    kernel = str(ROOT / "ops/ag_gemm/ag_gemm.py")
    cold, cached = [], []
    for _ in range(5):
        with tempfile.TemporaryDirectory() as cache:
            cold.append(run(COMPILE, kernel, SIGNATURE, TILERY_CACHE_DIR=cache)[0])
            cached.append(run(COMPILE, kernel, SIGNATURE, TILERY_CACHE_DIR=cache)[0])
    return statistics.median(cold), statistics.median(cached)


def main() -> None:
    ours, blas, ratio, error = run(MATMUL)
    cold, cached = compile_times()
    doctor = subprocess.run(["tilery", "doctor", "--json"], capture_output=True, text=True, check=True)
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True,
                            text=True, check=False).stdout.strip()
    results = {
        "matmul fp32 1024^3, one core": {"gflops": ours, "openblas_gflops": blas, "ratio": ratio,
                                         "bar": "ratio >= 0.6", "max_error": error},
        "launch of an empty kernel, us": {"value": median_of(LAUNCH), "bar": "< 10"},
        "compile of ag_gemm, cold, ms": {"value": cold, "bar": "< 1500"},
        "compile of ag_gemm, from the cache, ms": {"value": cached, "bar": "< 30"},
        "import of the package, ms": {"value": median_of(IMPORT), "bar": "< 150"},
    }
    machine = json.loads(doctor.stdout)["cpu"]
    path = ROOT / "bench/results/cpu.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"machine": machine, "commit": commit, "results": results}, indent=2) + "\n")
    for name, figures in results.items():
        print(f"{name:<42}", ", ".join(f"{k} {v:.3g}" if isinstance(v, float) else f"{k} {v}"
                                       for k, v in figures.items()))
    print(path)


if __name__ == "__main__":
    main()
