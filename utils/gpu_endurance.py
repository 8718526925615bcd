# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Random communicating operators for some time: tilery run -n 2 python utils/gpu_endurance.py --seconds 600

One process a rank, with PyTorch. Draws operators, forms, element types, sizes, teams, streams, and graphs that
are replayed later with other values; the same on all ranks. Inputs are whole numbers which every rank can
make of a seed, so that expected results need no communication. Ends with a failure at the first wrong
result, at a wait that times out (TILERY_TIMEOUT_S), and when memory has grown since the first third.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import resource
import sys
import time

import torch

import tilery as ty

FORMS = {"all_gather": ["auto", "push", "pull", "copies", "flagged", "direct", "direct_copies"],
         "reduce_scatter": ["auto", "push", "pull", "copies", "flagged", "direct"],
         "all_to_all": ["auto", "push", "pull", "copies", "flagged", "direct", "direct_copies"],
         "all_reduce": ["auto", "one_shot", "two_shot", "copies", "flagged", "direct"],
         "broadcast": ["auto", "push", "pull", "direct", "direct_copies"], "ag_gemm": ["auto", "instances", "copies", "unfused"],
         "gemm_rs": ["auto", "overlapped", "unfused"],
         "gemm_ar": ["auto", "one_shot", "two_shot", "direct", "scattered", "unfused"]}
PRODUCTS = ("ag_gemm", "gemm_rs", "gemm_ar")
TYPES = [torch.bfloat16, torch.float16, torch.float32, torch.int32]


def log_uniform(generator, least, most):
    return round(math.exp(generator.uniform(math.log(least), math.log(most))))


def part(total, rank, ranks):
    rows = -(-total // ranks)
    return slice(min(rank * rows, total), min((rank + 1) * rows, total))


class Task:
    """One operator with its tensors, which can be filled with other numbers."""

    def __init__(self, generator, team, largest):
        self.team, self.rank, self.ranks = team, ty.rank(team=team), ty.num_ranks(team=team)
        self.op = generator.choice(list(FORMS))
        self.form = generator.choice(FORMS[self.op])
        self.product = self.op in PRODUCTS
        self.dtype = generator.choice(TYPES[:2] if self.product else TYPES)
        self.options = {} if self.op == "broadcast" and self.form == "auto" else {"form": self.form}
        if self.product:
            self.m, self.n, self.k = (log_uniform(generator, 1, most) for most in (4096, 4096, 2048))
            self.n, self.k = -(-self.n // 8) * 8, -(-self.k // 8) * 8
            self.b = torch.empty(self.n, self.k, device="cuda", dtype=self.dtype).T
        else:
            self.m = log_uniform(generator, 1, largest // 4)
            if self.op == "all_to_all":
                self.m = -(-self.m // self.ranks) * self.ranks
            self.root = generator.randrange(self.ranks)
            if self.op == "broadcast":
                self.options["root"] = self.root
        own = len(range(self.m)[part(self.m, self.rank, self.ranks)])
        shape = lambda rows, columns: (rows, columns) if self.product else (rows,)  # noqa: E731
        parts_in, parts_out = self.op in ("all_gather", "ag_gemm"), self.op in ("reduce_scatter", "gemm_rs")
        new = lambda *of: torch.empty(*of, device="cuda", dtype=self.dtype)  # noqa: E731
        self.x = new(*shape(own if parts_in else self.m, getattr(self, "k", 0)))
        self.out = new(*shape(own if parts_out else self.m, getattr(self, "n", 0)))

    def numbers(self, seed, rank, shape, most):
        generator = torch.Generator(device="cuda").manual_seed(seed * 64 + rank)
        return torch.randint(-most, most + 1, shape, generator=generator, device="cuda")

    def fill(self, seed):
        self.seed = seed
        # Of ag_gemm and all_gather a rank's own rows of what is the same everywhere.
        if self.op in ("all_gather", "ag_gemm"):
            whole = self.numbers(seed, 0, (self.m, *self.x.shape[1:]), 3)
            self.x.copy_(whole[part(self.m, self.rank, self.ranks)])
        else:
            self.x.copy_(self.numbers(seed, self.rank, self.x.shape, 3))
        if self.product:
            self.b.copy_(self.numbers(seed, 32 + self.rank, self.b.shape, 1))

    def run(self):
        tensors = (self.x, self.b, self.out) if self.product else (self.x, self.out)
        getattr(ty.ops, self.op)(*tensors, team=self.team, **self.options)

    def of_rank(self, rank):
        x = self.numbers(self.seed, rank, (self.m, *self.x.shape[1:]), 3).double()
        if not self.product:
            return x
        return x @ self.numbers(self.seed, 32 + rank, self.b.shape, 1).double()

    def expected(self):
        if self.op == "all_gather":
            return self.of_rank(0)
        if self.op == "ag_gemm":
            whole = self.numbers(self.seed, 0, (self.m, self.k), 3).double()
            return whole @ self.numbers(self.seed, 32 + self.rank, self.b.shape, 1).double()
        if self.op == "broadcast":
            return self.of_rank(self.root)
        if self.op == "all_to_all":
            return torch.cat([self.of_rank(r).view(self.ranks, -1)[self.rank] for r in range(self.ranks)])
        total = sum(self.of_rank(r) for r in range(self.ranks))
        mine = self.op in ("reduce_scatter", "gemm_rs")
        return total[part(self.m, self.rank, self.ranks)] if mine else total

    def check(self):
        """Sums of whole numbers are exact but for the rounding of products' parts to 16 bits."""
        expected, out = self.expected(), self.out.double()
        bound = 0.02 * float(expected.abs().max()) if self.product and expected.numel() else 0.0
        worst = float((out - expected).abs().max()) if out.numel() else 0.0
        if not worst <= bound:
            raise AssertionError(f"rank {ty.rank()}: {self}: off by {worst} at most {bound}")

    def __str__(self):
        sizes = (self.m, self.n, self.k) if self.product else self.m
        return f"{self.op} {self.form} {self.dtype} {sizes} of {self.ranks} ranks, seed {self.seed}"


class Recorded:
    """A task in a graph, several times."""

    def __init__(self, task, calls):
        self.task = task
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            for _ in range(calls):
                task.run()

    def replay(self, seed):
        self.task.fill(seed)
        self.task.out.zero_()
        self.graph.replay()


def memory():
    """MiB in use: of the device, and of this process on the host at most."""
    free, total = torch.cuda.mem_get_info()
    return (total - free) >> 20, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10


def agreed(world_seconds):
    """What rank 0's clock says, on all ranks: a word in symmetric memory."""
    x = torch.tensor([world_seconds], device="cuda")
    out = torch.empty_like(x)
    ty.ops.broadcast(x, out, root=0, team=ty.init())
    return float(out[0])


def parsed():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--bytes", type=int, default=64 << 20, help="of the largest message")
    parser.add_argument("--graphs", type=int, default=8, help="kept at a time")
    parser.add_argument("--verbose", action="store_true")
    return parser.parse_args()


def main() -> int:
    options = parsed()
    world = ty.init(device="cuda", heap_bytes=16 << 30)
    rank, ranks = ty.rank(), ty.num_ranks()
    torch.cuda.set_device(rank % torch.cuda.device_count())
    teams = [world, ty.team(list(range(ranks))[::-1], "reversed"),
             ty.split(rank, name="alone")]
    streams = [torch.cuda.current_stream(), torch.cuda.Stream(), torch.cuda.Stream()]
    generator = random.Random(options.seed)
    graphs, counts = [], {}
    begin, early = time.monotonic(), None
    while True:
        passed = agreed(time.monotonic() - begin)
        if passed > options.seconds:
            break
        if early is None and passed > options.seconds / 3:
            early = memory()
        seed = generator.randrange(1 << 40)
        stream = generator.choice(streams)
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            if graphs and generator.random() < 0.3:
                chosen = generator.choice(graphs)
                for again in range(generator.choice([1, 3])):
                    chosen.replay(seed + again)
                task = chosen.task
            else:
                task = Task(generator, generator.choice(teams), options.bytes)
                task.fill(seed)
                if options.verbose and rank == 0:
                    print(task, flush=True)
                for _ in range(generator.choice([1, 2, 5])):
                    task.out.zero_()
                    task.run()
            stream.synchronize()
            task.check()
        if generator.random() < 0.1:
            graphs.append(Recorded(task, generator.choice([1, 2, 7])))
            del graphs[:-options.graphs]
        key = f"{task.op} {task.form}"
        counts[key] = counts.get(key, 0) + 1
    late = memory()
    if rank == 0:
        print(json.dumps({"seconds": round(passed, 1), "tasks": sum(counts.values()), "early MiB": early,
                          "late MiB": late, "counts": counts}), flush=True)
    ty.barrier(team=world)
    ty.finalize()
    grown = late[0] - early[0]
    return 1 if grown > 2048 or late[1] - early[1] > 512 else 0


if __name__ == "__main__":
    sys.exit(main())
