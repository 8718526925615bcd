# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Collectives on several GPUs beside NCCL and torch's symmetric memory: tilery run -n 2 python bench/gpu_collectives.py

One process a GPU. A size is the bytes of one rank's part: of all_reduce, of what all_gather takes in, of
all that reduce_scatter and all_to_all are given. Every contender of a size runs in a CUDA graph of
several calls, in an order shuffled each round, the same on all ranks; the slowest rank counts, and the
median of the rounds. Results are compared with NCCL's first, those of reductions with sums in fp32.
"ours" is the form that is chosen; --forms measures others besides.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symmetric
from gpu_overlap import agreed, measure

import tilery as ty

FORMS = {"all_reduce": ["flagged", "one_shot", "two_shot", "copies", "direct"],
         "all_gather": ["flagged", "push", "copies", "direct", "direct_copies"],
         "reduce_scatter": ["push", "pull", "copies", "flagged", "direct"],
         "all_to_all": ["push", "pull", "copies", "flagged", "direct", "direct_copies"]}


class Case:
    """One collective of bf16 numbers, `size` bytes a rank."""

    def __init__(self, op, size):
        self.op, self.world, self.rank = op, dist.get_world_size(), dist.get_rank()
        count = max(size // 2, self.world)
        count -= count % self.world
        results = {"all_gather": count * self.world, "reduce_scatter": count // self.world}
        generator = torch.Generator(device="cuda").manual_seed(self.rank)
        self.x = torch.randn(count, generator=generator, device="cuda").bfloat16()
        self.out = torch.empty(results.get(op, count), device="cuda", dtype=torch.bfloat16)
        self.theirs = torch.empty_like(self.out)

    def nccl(self):
        if self.op == "all_gather":
            dist.all_gather_into_tensor(self.theirs, self.x)
        elif self.op == "reduce_scatter":
            dist.reduce_scatter_tensor(self.theirs, self.x)
        elif self.op == "all_to_all":
            dist.all_to_all_single(self.theirs, self.x)
        else:
            dist.all_reduce(self.theirs)

    def ours(self, **options):
        getattr(ty.ops, self.op)(self.x, self.out, **options)

    def torch(self) -> dict:
        """torch's all-reduces of symmetric memory; the input lies there already."""
        if self.op != "all_reduce":
            return {}
        group = dist.group.WORLD.group_name
        buffer = symmetric.empty(self.x.numel(), dtype=self.x.dtype, device=self.x.device)
        symmetric.rendezvous(buffer, group)
        buffer.zero_()  # sums that replace their input stay 0
        found = {"torch two_shot": lambda: torch.ops.symm_mem.two_shot_all_reduce_(buffer, "sum", group)}
        if self.x.nbytes <= 16 << 20:
            found["torch one_shot"] = lambda: torch.ops.symm_mem.one_shot_all_reduce(buffer, "sum", group)
        return found

    def expected(self):
        if self.op not in ("all_reduce", "reduce_scatter"):
            self.nccl()
            return self.theirs.clone()
        everyone = torch.empty(self.world, self.x.numel(), device="cuda", dtype=self.x.dtype)
        dist.all_gather_into_tensor(everyone.view(-1), self.x)
        total = torch.zeros(self.x.numel(), device="cuda")
        for part in everyone:
            total += part
        mine = total.view(self.world, -1)[self.rank] if self.op == "reduce_scatter" else total
        return mine.bfloat16()

    def wrong(self, **options) -> bool:
        """Whether any of several calls gives other bits, on any rank."""
        expected, wrong = self.expected(), 0
        for _ in range(3):
            self.out.fill_(float("nan"))
            self.ours(**options)
            torch.cuda.synchronize()
            wrong += int((self.out != expected).sum())
        return bool(agreed(wrong))


def one(op, size, options) -> dict:
    case = Case(op, size)
    entry = {"op": op, "bytes": size, "wrong": case.wrong()}
    contenders = {"ours": case.ours}
    largest = 1 << 20  # of words with flags; more only takes time
    for form in FORMS[op] if options.forms else []:
        if form == "flagged" and size > largest:
            continue
        entry["wrong"] |= case.wrong(form=form)
        contenders[form] = lambda form=form: case.ours(form=form)
    for choice in json.loads(options.tune or "{}").get(op, []):
        entry["wrong"] |= case.wrong(**choice)
        contenders[json.dumps(choice)] = lambda choice=choice: case.ours(**choice)
    contenders |= {"nccl": case.nccl} | case.torch()
    calls = 50 if size <= 1 << 20 else 10 if size <= 32 << 20 else 4
    return entry | measure(contenders, options.rounds, calls)


def parsed():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--seconds", type=float, default=0, help="start no case later; 0: no limit")
    parser.add_argument("--ops", default=",".join(FORMS))
    parser.add_argument("--sizes", default=",".join(str(1 << bits) for bits in range(10, 29, 2)))
    parser.add_argument("--forms", action="store_true", help="measure every form")
    parser.add_argument("--tune", help='JSON: {op: [options, ...]} to measure besides')
    return parser.parse_args()


def main() -> int:
    options = parsed()
    ty.init(device="cuda", heap_bytes=8 << 30)
    rank, ranks = ty.rank(), ty.num_ranks()
    torch.cuda.set_device(rank % torch.cuda.device_count())
    port = int(os.environ.get("BENCH_PORT", 29556))
    dist.init_process_group("nccl", init_method=f"tcp://127.0.0.1:{port}", rank=rank,
                            world_size=ranks, device_id=torch.device("cuda", rank))
    symmetric.enable_symm_mem_for_group(dist.group.WORLD.group_name)
    begin, results = time.monotonic(), []
    for size in map(int, options.sizes.split(",")):
        for op in options.ops.split(","):
            if options.seconds and agreed(time.monotonic() - begin) > options.seconds:
                continue
            results.append(one(op, size, options))
            if rank == 0:
                print(json.dumps(results[-1]), flush=True)
    if options.output and rank == 0:
        options.output.write_text(json.dumps(
            {"gpu": torch.cuda.get_device_name(), "ranks": ranks, "unit": "us", "results": results},
            indent=1) + "\n")
    ty.synchronize()
    dist.destroy_process_group()
    ty.finalize()
    return 1 if not results or any(entry["wrong"] for entry in results) else 0


if __name__ == "__main__":
    sys.exit(main())
