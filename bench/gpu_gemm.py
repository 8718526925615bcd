# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Matrix products on one GPU beside torch's (cuBLAS): python bench/gpu_gemm.py [--output F]

Every contender of a shape runs in a CUDA graph of several launches over rotating operands, in an
order shuffled each round; the median of the rounds counts. "cool" rounds start after a pause, and
"sustained" ones follow one another (large products are limited by power). Results are checked
against a product of float64. "ours" is ty.ops.matmul as users call it; --tune also tries each tile
of the table and up to four parts, with short pauses, which is how ops/matmul/plan.cpp was made.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import time
from pathlib import Path

import torch

import tilery as ty

try:
    import triton_peers
except ImportError:
    triton_peers = None

# N, K: Llama-70B, Qwen3-32B, Llama-8B (peers: shapes the field benchmarks).
WEIGHTS = [(8192, 8192), (28672, 8192), (51200, 5120), (5120, 25600), (14336, 4096)]
LARGE = [512, 1024, 2048, 4096, 8192]
SMALL = [1, 16, 64, 128, 256]
EIGHT_BITS = [(4096, 4096, 4096), (8192, 8192, 8192), (8192, 28672, 8192), (512, 8192, 8192),
              (16, 8192, 8192)]

TILES = [(128, 256, 256), (128, 256, 224), (128, 256, 192), (128, 256, 160), (256, 128, 128),
         (128, 128, 128), (128, 128, 112), (128, 128, 96), (128, 128, 80), (128, 128, 64),
         (64, 256, 256), (64, 256, 192), (64, 256, 160), (64, 128, 128), (64, 128, 112),
         (64, 128, 96), (64, 64, 64)]


def operands(m, n, k, layout, kind="bf16"):
    """`layout`: "n" when the depth (of a) or the columns (of b) are contiguous, else "t"."""
    def made(rows, columns):
        if kind == "int8":
            return torch.randint(-99, 99, (rows, columns), device="cuda", dtype=torch.int8)
        return torch.randn(rows, columns, device="cuda").to(
            torch.float8_e4m3fn if kind.startswith("fp8") else torch.bfloat16)
    return (made(m, k) if layout[0] == "n" else made(k, m).T,
            made(k, n) if layout[1] == "n" else made(n, k).T)


def scales_of(kind, m, n):
    if kind == "fp8":
        return torch.full((1,), 0.5, device="cuda"), torch.full((1,), 0.25, device="cuda")
    if kind == "fp8_rows":
        return torch.rand(m, device="cuda") + 0.5, torch.rand(n, device="cuda") + 0.5
    return None, None


def ours(a, b, c, scale_a=None, scale_b=None, **options):
    ty.ops.matmul(a, b, c, None, None, scale_a, scale_b, **options)


def peer(kind, a, b, c, scale_a, scale_b):
    if kind == "bf16":
        return lambda: torch.mm(a, b, out=c)
    if kind == "int8":
        return lambda: torch._int_mm(a, b, out=c)
    scales = (scale_a[:, None], scale_b[None, :]) if kind == "fp8_rows" else (scale_a, scale_b)
    return lambda: torch._scaled_mm(a, b, *scales, out_dtype=torch.bfloat16, out=c)


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


def error(a, b, c, scale_a, scale_b):
    expected = a.double() @ b.double()
    if scale_a is not None:
        expected *= scale_a.double()[:, None] * scale_b.double()
    return float((c.double() - expected).norm() / expected.norm())


def variants(m, n, tune):
    yield "ours", {}
    processors = torch.cuda.get_device_properties(0).multi_processor_count
    for block_m, block_n, columns in TILES if tune else ():
        if block_m > max(64, m):
            continue
        cut = math.ceil(m / block_m) * math.ceil(n / columns) % processors
        for parts in (1, 2, 3, 4):
            if parts > 1 and not 0 < cut * parts <= processors:
                continue  # no tile is left for parts, or they would not run at once
            yield f"{block_m}x{columns}p{parts}", {"block_m": block_m, "block_n": block_n,
                                                   "columns": columns, "parts": parts}


def bench_shape(m, n, k, layout, kind="bf16", tune=False, rounds=7):
    flops = 2 * m * n * k
    item = 2 if kind == "bf16" else 1
    copies = max(1, min(8, int(120e6 / (item * (m * k + n * k)) + 1)))
    sets = [operands(m, n, k, layout, kind) for _ in range(copies)]
    scales = scales_of(kind, m, n)
    repeat = max(copies, min(24, int(2e-3 * 600e12 / flops) + 1))
    c = torch.empty(m, n, device="cuda", dtype=torch.int32 if kind == "int8" else torch.bfloat16)
    contenders, errors = [], {}
    turns = [sets[i % copies] for i in range(repeat)]
    try:
        contenders.append(Contender("peer", [peer(kind, *s, c, *scales) for s in turns]))
    except RuntimeError as problem: # torch refuses some shapes of int8 and fp8
        print("   ", kind, m, n, k, "peer:", str(problem)[:100], flush=True)
    if kind == "bf16" and layout == "nt" and triton_peers and not tune:
        for configuration in triton_peers.PRODUCT_CONFIGURATIONS:
            call = triton_peers.product(*sets[0], c, configuration)
            label = "triton" + "x".join(map(str, configuration))
            calls = [triton_peers.product(*s, c, configuration) for s in turns]
            try:
                call()
                contenders.append(Contender(label, calls))
            except Exception as problem:
                print("   ", label, type(problem).__name__, str(problem)[:200], flush=True)
    for name, options in variants(m, n, tune):
        try:
            c.zero_()
            ours(*sets[0], c, *scales, **options)
            if m * n * k <= 2048 * 8192 * 8192:
                errors[name] = error(*sets[0], c, *scales)
                if not errors[name] < 5e-3:
                    raise AssertionError(f"error {errors[name]}")
            contenders.append(Contender(
                name, [lambda s=s: ours(*s, c, *scales, **options) for s in turns]))
        except (ty.Error, AssertionError) as problem:
            print("   ", name, type(problem).__name__, str(problem)[:300], flush=True)
    cool = measure(contenders, rounds, 0.004 if tune else 0.03)
    result = {"m": m, "n": n, "k": k, "layout": layout, "kind": kind, "errors": errors,
              "cool_ms": cool}
    kept = [x for x in contenders if x.name in ("peer", "ours")]
    result["sustained_ms"] = sustained = measure(kept, 2 * rounds, 0)
    if len(kept) == 2:
        result["ratio_cool"] = cool["peer"] / cool["ours"]
        result["ratio_sustained"] = sustained["peer"] / sustained["ours"]
    triton = [t for name, t in cool.items() if name.startswith("triton")]
    if triton:
        result["ratio_triton"] = min(triton) / cool["ours"]
    moved = item * (m * k + n * k) + 2 * m * n
    print(f"{kind} {m}x{n}x{k} {layout}: ours {flops / cool['ours'] / 1e9:.0f} TFLOP/s "
          f"{moved / cool['ours'] / 1e9:.2f} TB/s; ratio cool {result.get('ratio_cool', 0):.3f} "
          f"sustained {result.get('ratio_sustained', 0):.3f} triton "
          f"{result.get('ratio_triton', 0):.3f} | " +
          " ".join(f"{name}:{cool.get('peer', t) / t:.2f}" for name, t in sorted(
              cool.items(), key=lambda item: item[1])[:6]), flush=True)
    return result


def geometric_means(results):
    for name, chosen in (("bf16, M >= 512", lambda r: r["kind"] == "bf16" and r["m"] >= 512),
                         ("bf16, M < 512", lambda r: r["kind"] == "bf16" and r["m"] < 512),
                         ("8 bits", lambda r: r["kind"] != "bf16")):
        ratios = [r["ratio_cool"] for r in results if chosen(r) and "ratio_cool" in r]
        if ratios:
            mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
            print(f"{name}: geometric mean {mean:.3f}, worst {min(ratios):.3f}", flush=True)
            yield name, {"mean": mean, "worst": min(ratios)}
    ratios = [r["ratio_triton"] for r in results if r["m"] >= 512 and "ratio_triton" in r]
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        print(f"M >= 512, of Triton: geometric mean {mean:.3f}, worst {min(ratios):.3f}", flush=True)
        yield "of Triton", {"mean": mean, "worst": min(ratios)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", default="bench/results/gpu_gemm.json")
    parser.add_argument("--rows", default=",".join(map(str, SMALL + LARGE)))
    parser.add_argument("--kinds", default="bf16,fp8,fp8_rows,int8")
    parser.add_argument("--layouts", default="nt")
    parser.add_argument("--shapes", help="instead of all others, such as 128x8192x14336,997x1016x4096 (bf16)")
    parser.add_argument("--tune", action="store_true")
    parser.add_argument("--seconds", type=float, default=1e9, help="stop after so many")
    arguments = parser.parse_args()
    kinds = arguments.kinds.split(",")
    work = [(m, n, k, layout, "bf16") for m in map(int, arguments.rows.split(",") if arguments.rows
                                                   else ()) for n, k in WEIGHTS
            for layout in arguments.layouts.split(",") if "bf16" in kinds]
    work += [(m, n, k, "nt", kind) for m, n, k in EIGHT_BITS for kind in kinds if kind != "bf16"]
    if arguments.shapes:
        work = [(*map(int, shape.split("x")), layout, "bf16") for shape in arguments.shapes.split(",")
                for layout in arguments.layouts.split(",")]
    begin = time.time()
    results = [bench_shape(*one, arguments.tune) for one in work
               if time.time() - begin < arguments.seconds]
    summary = dict(geometric_means(results))
    Path(arguments.output).parent.mkdir(parents=True, exist_ok=True)
    Path(arguments.output).write_text(json.dumps(
        {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "summary": summary,
         "results": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
