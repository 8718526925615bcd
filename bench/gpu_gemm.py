# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Matrix products on one GPU beside torch's (cuBLAS): python bench/gpu_gemm.py [--tune] [--output F]

Every contender of a shape runs in a CUDA graph of several launches over rotating operands, in an
order shuffled each round; the median of the rounds counts. "cool" rounds start after a pause, and
"sustained" ones follow one another (large products are limited by power). Results are checked
against a product of float64.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import time
from pathlib import Path

import torch

import tilery as ty
import tilery.language as tl

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "ops" / "matmul"))
from matmul import matmul  # noqa: E402

# N, K: Llama-70B, Qwen3-32B, Llama-8B (peers: shapes the field benchmarks).
WEIGHTS = [(8192, 8192), (28672, 8192), (51200, 5120), (5120, 25600), (14336, 4096)]
LARGE = [512, 1024, 2048, 4096, 8192]
SMALL = [1, 16, 64, 128, 256]

# BLOCK_M, BLOCK_N, BLOCK_K, GROUP_M, num_warps, num_stages
CANDIDATES = [(128, 256, 64, 8, 8, 4), (128, 256, 64, 16, 8, 4), (256, 128, 64, 8, 8, 4),
              (128, 128, 64, 8, 4, 6), (128, 128, 64, 8, 8, 6), (128, 128, 64, 8, 4, 3),
              (64, 256, 64, 8, 4, 4), (64, 128, 64, 8, 4, 4), (64, 64, 64, 8, 4, 6),
              (64, 64, 128, 8, 4, 6), (128, 64, 64, 8, 4, 6)]


def operands(m, n, k, layout, dtype=torch.bfloat16):
    """`layout`: "n" when the depth (of a) or the columns (of b) are contiguous, else "t"."""
    a = torch.randn(m, k, device="cuda", dtype=torch.float32).to(dtype)
    b = torch.randn(k, n, device="cuda", dtype=torch.float32).to(dtype)
    return (a if layout[0] == "n" else a.T.contiguous().T,
            b if layout[1] == "n" else b.T.contiguous().T)


def ours(a, b, c, config, processors):
    block_m, block_n, block_k, group, warps, stages = config
    (m, k), n = a.shape, b.shape[1]
    tiles = ty.cdiv(m, block_m) * ty.cdiv(n, block_n)
    shared = (block_m + block_n) * block_k * 2 * stages
    resident = processors * (2 if warps == 4 and shared < 110 * 1024 else 1)
    matmul[(min(tiles, resident),)](
        a, b, c, m, n, k, a.stride(0), a.stride(1), b.stride(0), b.stride(1), c.stride(0),
        c.stride(1), BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_K=block_k, GROUP_M=group,
        ACC=tl.float32, num_warps=warps, num_stages=stages)


class Contender:
    def __init__(self, name, calls):
        self.name, self.calls = name, len(calls)
        for call in calls:
            call()
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            for call in calls:
                call()
        self.times = []

    def measure(self, pause):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        if pause:
            time.sleep(pause)
        begin.record()
        self.graph.replay()
        end.record()
        torch.cuda.synchronize()
        self.times.append(begin.elapsed_time(end) / self.calls)

    def median(self):
        return statistics.median(self.times)


def measure(contenders, rounds, pause):
    for contender in contenders:
        contender.times = []
        contender.measure(0)
        contender.times = []
    for _ in range(rounds):
        for contender in random.sample(contenders, len(contenders)):
            contender.measure(pause)
    return {contender.name: contender.median() for contender in contenders}


def error(a, b, c):
    expected = a.double() @ b.double()
    return float((c.double() - expected).norm() / expected.norm())


def bench_shape(m, n, k, layout, configs, rounds=7):
    processors = torch.cuda.get_device_properties(0).multi_processor_count
    flops = 2 * m * n * k
    copies = max(1, min(8, int(120e6 / (2 * (m * k + n * k)) + 1)))
    sets = [operands(m, n, k, layout) for _ in range(copies)]
    repeat = max(copies, min(24, int(2e-3 * 600e12 / flops) + 1))
    c = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
    contenders, errors = [], {}
    turns = [sets[i % copies] for i in range(repeat)]
    contenders.append(Contender("cublas", [lambda s=s: torch.mm(*s, out=c) for s in turns]))
    for config in configs:
        name = "x".join(map(str, config))
        try:
            c.fill_(float("nan"))
            ours(*sets[0], c, config, processors)
            if m * n * k <= 2048 * 8192 * 8192:
                errors[name] = error(*sets[0], c)
                if not errors[name] < 5e-3:
                    raise AssertionError(f"error {errors[name]}")
            contenders.append(Contender(
                name, [lambda s=s: ours(*s, c, config, processors) for s in turns]))
        except (ty.Error, AssertionError) as problem:
            print("   ", name, type(problem).__name__, str(problem)[:300], flush=True)
    cool = measure(contenders, rounds, 0.03)
    result = {"m": m, "n": n, "k": k, "layout": layout, "errors": errors,
              "cool_ms": cool}
    best = min((t, name) for name, t in cool.items() if name != "cublas")
    result["ratio_cool"] = cool["cublas"] / best[0]
    kept = [x for x in contenders if x.name in ("cublas", best[1])]
    sustained = measure(kept, 2 * rounds, 0)
    result["sustained_ms"] = sustained
    result["ratio_sustained"] = sustained["cublas"] / sustained[best[1]]
    print(f"{m}x{n}x{k} {layout}: best {best[1]} {flops / best[0] / 1e9:.0f} TFLOP/s, cublas "
          f"{flops / cool['cublas'] / 1e9:.0f}; ratio cool {result['ratio_cool']:.3f} sustained "
          f"{result['ratio_sustained']:.3f} | " +
          " ".join(f"{name}:{cool['cublas'] / t:.2f}" for name, t in cool.items()
                   if name != "cublas"), flush=True)
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", default="bench/results/gpu_gemm.json")
    parser.add_argument("--shapes", choices=["small", "large", "all"], default="all")
    parser.add_argument("--layouts", default="nt")
    parser.add_argument("--seconds", type=float, default=1e9, help="stop after so many")
    arguments = parser.parse_args()
    begin = time.time()
    results = []
    rows = {"small": SMALL, "large": LARGE, "all": LARGE + SMALL}[arguments.shapes]
    for m in rows:
        for n, k in WEIGHTS:
            for layout in arguments.layouts.split(","):
                if time.time() - begin > arguments.seconds:
                    break
                small = [c for c in CANDIDATES if c[0] == 64]
                wide = [c for c in CANDIDATES if c[0] <= max(128, m)]
                results.append(bench_shape(m, n, k, layout, small if m <= 64 else wide))
    import math
    for group, least in (("large", 512), ("small", 0)):
        ratios = [r["ratio_cool"] for r in results
                  if (r["m"] >= 512) == (group == "large")]
        if ratios:
            print(group, "geometric mean", math.exp(sum(map(math.log, ratios)) / len(ratios)),
                  "worst", min(ratios))
    Path(arguments.output).parent.mkdir(parents=True, exist_ok=True)
    Path(arguments.output).write_text(json.dumps(
        {"device": torch.cuda.get_device_name(), "torch": torch.__version__,
         "results": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
