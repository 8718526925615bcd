# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""The main job in small: an overlapped AllGather+GEMM over 4 ranks on this machine's CPU.

Every rank holds some rows of A and its own columns of B; the kernel of ops/ag_gemm gathers A
chunk by chunk while it multiplies. The result is checked against NumPy in float64. Then it is
timed against the same work in two steps, gather first and multiply afterwards.
"""

import argparse
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))

import tilery as ty  # noqa: E402


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--rows", type=int, default=1021, help="rows of A, of all ranks together")
    parser.add_argument("--columns", type=int, default=512, help="columns of B on each rank")
    parser.add_argument("--depth", type=int, default=1024, help="columns of A")
    parser.add_argument("--repeat", type=int, default=15)
    parser.add_argument("--timeline", default="trace_ag_gemm.json")
    return parser.parse_args()


def matrices(options, rank):
    a = np.random.default_rng(1).standard_normal((options.rows, options.depth))
    b = np.random.default_rng(10 + rank).standard_normal((options.depth, options.columns))
    return a.astype(np.float32), b.astype(np.float32)


def best_times(options, actions) -> list[float]:
    """Seconds of each action's fastest run. The actions take turns, so that a busy machine
    slows all of them; a run lasts until its slowest rank is done."""
    best = [float("inf")] * len(actions)
    for _ in range(options.repeat):
        for i, action in enumerate(actions):
            ty.barrier()
            start = time.perf_counter()
            action()
            ty.barrier()
            best[i] = min(best[i], time.perf_counter() - start)
    return best


def on_each_rank(options):
    whole, b = matrices(options, ty.rank())
    rows = ty.cdiv(options.rows, ty.num_ranks())
    a = whole[ty.rank() * rows:(ty.rank() + 1) * rows].copy()
    c = np.empty((options.rows, options.columns), np.float32)
    gathered = np.empty_like(whole)

    for _ in range(2):  # compiles, or takes the kernel from the cache; touches both buffers
        ty.ops.ag_gemm(a, b, c)
    exact = whole.astype(np.float64) @ b.astype(np.float64)
    error = float(np.abs(c - exact).max() / np.abs(exact).max())

    def one_after_the_other():
        ty.ops.all_gather(a, gathered)
        ty.ops.matmul(gathered, b, c)

    one_after_the_other()
    before = ty.trace_summary()
    ty.ops.ag_gemm(a, b, c)
    after = ty.trace_summary()
    phases = {key: (after[key] - before[key]) / 1e6 for key in
              ("compute_ns", "transfer_ns", "wait_ns", "exposed_wait_ns")}
    fused, sequence, gather = best_times(options, [
        lambda: ty.ops.ag_gemm(a, b, c),
        one_after_the_other,
        lambda: ty.ops.all_gather(a, gathered)])
    return error, phases, fused, sequence, gather


def main():
    options = arguments()
    print(f"AllGather+GEMM: {options.ranks} ranks, A {options.rows} x {options.depth}, "
          f"B {options.depth} x {options.columns} a rank, float32")
    results = ty.spawn(lambda: on_each_rank(options), ranks=options.ranks, trace=options.timeline)

    error = max(result[0] for result in results)
    print(f"largest error against NumPy in float64, relative to the largest element: {error:.1e}")
    print("time per phase of one call, ms (waits are summed over program instances):")
    print("  rank   compute  transfer      wait  wait exposed")
    for rank, (_, phases, *_) in enumerate(results):
        print(f"  {rank:4}" + "".join(f"{phases[key]:10.2f}" for key in (
            "compute_ns", "transfer_ns", "wait_ns")) + f"{phases['exposed_wait_ns']:14.2f}")
    fused, sequence, gather = (1e3 * max(result[i] for result in results) for i in (2, 3, 4))
    hidden = min(1.0, max(0.0, (sequence - fused) / gather))
    print(f"overlapped {fused:.1f} ms; one after the other {sequence:.1f} ms, of which the gather "
          f"takes {gather:.1f}: {hidden:.0%} of the communication is hidden")
    print(f"timeline, for ui.perfetto.dev: {Path(options.timeline).resolve()}")
    if not error < 1e-5:
        sys.exit(f"the result is wrong: error {error:.1e}, at most 1e-5 is allowed")


if __name__ == "__main__":
    main()
