# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Overlapped products on several GPUs beside NCCL and cuBLAS: tilery run -n 2 python bench/gpu_overlap.py

One process a GPU. Every contender of a shape runs in a CUDA graph of several calls, in an order
shuffled each round, the same on all ranks; the slowest rank counts, and the median of the rounds.
"nccl" is NCCL's collective and cuBLAS one after the other, "torch" torch's fused operator, "gemm" and
"comm" the two parts of "nccl" alone. Results are compared with "nccl" first. Where ranks do not divide M,
NCCL's buffers are padded. --eager also measures as many calls one by one ("eager"), where launching may
take longer than computing. --explain measures every form of ours, with what the cost model expects of it
beside ("expected") and the regret of the choice: how much longer the chosen form takes than the best
one. --random N draws shapes instead, and leaves the peers out.

`tilery bench overlap` runs this and shows the results.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import os
import random
import statistics
import sys
import time
from pathlib import Path

try:
    import torch
    import torch.distributed as dist
    import torch.distributed._symmetric_memory as symmetric  # registers torch's fused operators

    import tilery as ty
except ImportError as error:
    sys.exit(f"gpu_overlap: {error} for {sys.executable}, which needs PyTorch with CUDA, and Tilery")

# N, K of the whole layer: Llama-70B gate_up and down, Qwen3-32B gate_up and down, square.
GATHERED = [(57344, 8192), (51200, 5120), (8192, 8192)]
SUMMED = [(8192, 28672), (5120, 25600), (8192, 8192)]
ROWS = [1, 16, 64, 128, 512, 2048, 8192]
MOST_ROWS, MOST_ELEMENTS = 8192, 1 << 28  # of a drawn shape: M, and those of the largest matrix


class Layer:
    """Operands of one rank and what the peers compute."""

    def __init__(self, op, m, n, k, width):
        """width: ranks that the layer is divided among, at least as many as run."""
        self.op, self.m, self.world = op, m, dist.get_world_size()
        self.rows = -(-m // self.world)
        self.n, self.k = (n // width, k) if op == "ag_gemm" else (n, k // width)
        first = dist.get_rank() * self.rows
        self.own = max(0, min(self.rows, m - first))
        made = lambda *shape: torch.randn(*shape, device="cuda", dtype=torch.bfloat16) / 8  # noqa: E731
        self.b = made(self.n, self.k).T
        self.a = made(self.own if op == "ag_gemm" else m, self.k)
        empty = functools.partial(torch.empty, device="cuda", dtype=torch.bfloat16)
        self.ours_c = torch.full((self.own if op == "gemm_rs" else m, self.n), float("nan"),
                                 device="cuda", dtype=torch.bfloat16)
        # NCCL wants as many rows on each rank.
        self.c = empty(self.rows if op == "gemm_rs" else m, self.n)
        self.sent = self.a
        if op == "ag_gemm" and self.own < self.rows:
            self.sent = torch.nn.functional.pad(self.a, (0, 0, 0, self.rows - self.own))
        self.all_a = empty(self.rows * self.world, self.k)
        self.partial = torch.zeros(self.rows * self.world, self.n, device="cuda",
                                   dtype=torch.bfloat16)
        self.even = m % self.world == 0

    def comm(self):
        if self.op == "ag_gemm":
            dist.all_gather_into_tensor(self.all_a, self.sent)
        elif self.op == "gemm_rs":
            dist.reduce_scatter_tensor(self.c, self.partial)
        else:
            dist.all_reduce(self.partial[:self.m])

    def gemm(self):
        if self.op == "ag_gemm":
            torch.mm(self.all_a[:self.m], self.b, out=self.c)
        else:
            torch.mm(self.a, self.b, out=self.partial[:self.m])

    def nccl(self):
        if self.op == "ag_gemm":
            self.comm()
        self.gemm()
        if self.op != "ag_gemm":
            self.comm()

    def ours(self, **options):
        getattr(ty.ops, self.op)(self.a, self.b, self.ours_c, **options)

    def explained(self, **options) -> dict:
        return ty.ops.explain(self.op, self.a, self.b, self.ours_c, **options)

    def torch(self):
        group = dist.group.WORLD.group_name
        if self.op == "ag_gemm":
            torch.ops.symm_mem.fused_all_gather_matmul(self.a, [self.b], 0, group)
        elif self.op == "gemm_rs":
            torch.ops.symm_mem.fused_matmul_reduce_scatter(self.a, self.b, "sum", 0, group)
        else:
            raise NotImplementedError

    def expected(self):
        self.nccl()
        torch.cuda.synchronize()
        result = self.partial[:self.m] if self.op == "gemm_ar" else self.c
        return result[:self.own if self.op == "gemm_rs" else self.m].clone()


def agreed(value: float, op=dist.ReduceOp.MAX) -> float:
    box = torch.tensor([value], device="cuda", dtype=torch.float64)
    dist.all_reduce(box, op)
    return float(box[0])


def recorded(call, calls):
    """What makes `calls` calls at once, from a graph."""
    for _ in range(2):
        call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(calls):
            call()
    graph.replay()
    torch.cuda.synchronize()
    return graph.replay


def repeated(call, calls):
    """What makes `calls` calls, one by one."""
    def run():
        for _ in range(calls):
            call()

    run()
    torch.cuda.synchronize()
    return run


def once(run, calls) -> float:
    """The devices meet first, so that no one's time has the delay of another's host in it."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    dist.barrier()
    dist.all_reduce(torch.zeros(1, device="cuda"))
    begin.record()
    run()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) * 1e3 / calls


def measure(contenders: dict, rounds: int, calls: int, prepare=recorded) -> dict:
    """Microseconds of a call of each. prepare: `recorded` or `repeated`."""
    runs = {}
    for name, call in contenders.items():
        problem = 0
        try:
            runs[name] = prepare(call, calls)
        except Exception as error:  # noqa: BLE001  a peer that cannot is left out, and says why
            problem = 1
            print(f"rank {dist.get_rank()}: {name}: {error}", flush=True)
        if agreed(problem):
            runs.pop(name, None)
    times = {name: [] for name in runs}
    order = random.Random(0)
    for _ in range(rounds):
        names = list(runs)
        order.shuffle(names)
        for name in names:
            times[name].append(agreed(once(runs[name], calls)))
    return {name: round(statistics.median(values), 2) for name, values in times.items()}


def drawn(count: int, seed: int, ops: list, ranks: int) -> list:
    """Shapes (op, M, N, K) that nothing was fitted to: M log-uniform from 1 to 8192, N and K multiples
    of 64 or 128 as layers of transformers have them, odd ones among them."""
    generator = random.Random(seed)
    shapes = []
    while len(shapes) < count:
        op = ops[len(shapes) % len(ops)]
        m = round(math.exp(generator.uniform(0, math.log(MOST_ROWS + 0.5))))
        n, k = (generator.choice([64, 128]) * round(math.exp(generator.uniform(*map(math.log, (8, 224)))))
                for _ in range(2))
        n, k = (n * ranks, k) if op == "ag_gemm" else (n, k * ranks)
        if max(m * n, m * k, n * k) <= MOST_ELEMENTS:
            shapes.append((op, max(m, 1), n, k))
    return shapes


def check(layer, **options) -> float:
    """The largest difference of ours from NCCL and cuBLAS, of the largest result."""
    expected = layer.expected().float()
    for _ in range(3):
        layer.ours_c.fill_(float("nan"))
        layer.ours(**options)
        torch.cuda.synchronize()
        wrong = (layer.ours_c.float() - expected).abs()
        wrong = float((wrong.max() / expected.abs().max()).nan_to_num(nan=9e9)) if wrong.numel() else 0.0
        error = agreed(wrong)
        if error > 0.02:
            return error
    return error


def parsed():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0, help="start no shape later; 0: no limit")
    parser.add_argument("--ops", default="ag_gemm,gemm_rs,gemm_ar")
    parser.add_argument("--rows", default=",".join(map(str, ROWS)))
    parser.add_argument("--widths", default="0", help="ranks that a layer is for; 0: those that run")
    parser.add_argument("--eager", action="store_true", help="also measure without graphs")
    parser.add_argument("--explain", action="store_true", help="every form beside what is expected of it")
    parser.add_argument("--random", type=int, default=0, metavar="N", help="N drawn shapes instead, without the peers")
    parser.add_argument("--seed", type=int, default=1, help="of the drawn shapes")
    parser.add_argument("--tune", default="", help='JSON: {op: [options, ...]} to measure besides')
    return parser.parse_args()


def main() -> int:
    options = parsed()
    world = ty.init(device="cuda", heap_bytes=24 << 30)
    rank, ranks = ty.rank(), ty.num_ranks()
    torch.cuda.set_device(rank % torch.cuda.device_count())
    port = int(os.environ.get("BENCH_PORT", 29555))
    dist.init_process_group("nccl", init_method=f"tcp://127.0.0.1:{port}", rank=rank,
                            world_size=ranks, device_id=torch.device("cuda", rank))
    symmetric.enable_symm_mem_for_group(dist.group.WORLD.group_name)
    tune = json.loads(options.tune) if options.tune else {}
    begin, results = time.monotonic(), []
    for op, m, n, k, width in shapes_of(options, ranks):
        if options.seconds and agreed(time.monotonic() - begin) > options.seconds:
            break
        results.append(one(op, m, n, k, width, options, tune.get(op, [])))
        if rank == 0:
            print(json.dumps(results[-1]), flush=True)
    if rank == 0:
        print(summary(results), end="")
    if options.output and rank == 0:
        options.output.write_text(json.dumps(
            {"gpu": torch.cuda.get_device_name(), "ranks": ranks, "unit": "us", "results": results},
            indent=1) + "\n")
    wrong = [entry for entry in results if not entry["error"] < 0.02]
    dist.destroy_process_group()
    del world
    ty.finalize()
    return 1 if wrong or not results else 0


def summary(results: list) -> str:
    """How good choices were, of each operator: regret, and the largest error of what was expected."""
    lines = ""
    for op in sorted({entry["op"] for entry in results if "regret" in entry}):
        chosen = [entry for entry in results if entry["op"] == op and "regret" in entry]
        regrets = [entry["regret"] for entry in chosen]
        errors = [abs(entry["expected"][form] / entry["form " + form] - 1)
                  for entry in chosen for form in entry["expected"] if "form " + form in entry]
        lines += (f"{op}: regret of {len(regrets)} choices {100 * statistics.mean(regrets):.2f} % mean, "
                  f"{100 * max(regrets):.1f} % worst; expected times {100 * statistics.median(errors):.0f} % "
                  f"off (median), {100 * max(errors):.0f} % at worst\n")
    return lines


def shapes_of(options, ranks: int) -> list:
    """(op, M, N, K, width) of each case."""
    ops = options.ops.split(",")
    if options.random:
        return [(*shape, ranks) for shape in drawn(options.random, options.seed, ops, ranks)]
    return [(op, m, n, k, width) for width in [int(w) or ranks for w in options.widths.split(",")]
            for op in ops for m in map(int, options.rows.split(","))
            for n, k in (GATHERED if op == "ag_gemm" else SUMMED)]


def forms_beside(layer, contenders: dict) -> dict:
    """What the model expects of each form; adds the forms to what is measured."""
    explained = layer.explained()
    expected = {form: round(time, 2) for form, time in explained.items() if form != "chosen"}
    for form in expected:
        wrong = check(layer, form=form)
        if wrong > 0.02:
            print(f"{layer.op} {layer.m} with form={form}: error {wrong}", flush=True)
        contenders["form " + form] = lambda form=form: layer.ours(form=form)
    return {"chosen": explained["chosen"], "expected": expected}


def regret_of(entry: dict) -> dict:
    """How much longer the chosen form takes than the fastest, as a part of that; nothing if it failed."""
    times = {form: entry["form " + form] for form in entry["expected"] if "form " + form in entry}
    if entry["chosen"] not in times:
        return {}
    return {"ours": times[entry["chosen"]],
            "regret": round(times[entry["chosen"]] / min(times.values()) - 1, 4)}


def one(op, m, n, k, width, options, tune) -> dict:
    layer = Layer(op, m, n, k, width)
    entry = {"op": op, "m": m, "n": n, "k": k, "width": width, "error": check(layer)}
    contenders = {} if options.explain else {"ours": layer.ours}
    for choice in tune:
        wrong = check(layer, **choice)
        if wrong > 0.02:
            print(f"{op} {m} {n} {k} with {choice}: error {wrong}", flush=True)
        contenders[json.dumps(choice)] = lambda choice=choice: layer.ours(**choice)
    if options.explain:
        entry |= forms_beside(layer, contenders)
    if not options.random:
        contenders["nccl"] = layer.nccl
    if not options.explain and not options.random:
        contenders |= {"comm": layer.comm, "gemm": layer.gemm}
        if op != "gemm_ar" and m >= 16 and layer.even:
            contenders["torch"] = layer.torch
    large = 2.0 * m * layer.n * layer.k > 1e12
    calls = 2 if large else 5 if m > 512 else 20
    entry |= measure(contenders, options.rounds, calls)
    if options.explain:
        entry |= regret_of(entry)
    if options.eager:
        entry["eager"] = measure(contenders, options.rounds, calls, repeated)
    return entry


if __name__ == "__main__":
    sys.exit(main())
