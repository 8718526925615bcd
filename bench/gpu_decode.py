# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Attention of one token over a cache on one GPU beside a copy: python bench/gpu_decode.py

Rates count keys and values read once. Same method as gpu_gemm.py: CUDA graphs, shuffled order,
medians; caches that a second level cache could hold take turns. Results are checked against float64
on some heads. "of copy" compares with a copy that moves as many bytes, "of peak" with the fastest
copy of the run.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
import time
from pathlib import Path

import torch

import tilery as ty

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "ops" / "decode"))
from decode import decode  # noqa: E402
from gpu_gemm import Contender, measure  # noqa: E402

CONTEXTS = [4096, 16384, 131072, 1024, 32768]
BATCHES = [16, 1, 64, 4]
GROUPS = [8, 4]
KV_HEADS, HEAD = 8, 128
# keys of a tile, warps, stages
CANDIDATES = [(64, 4, 2), (64, 4, 4), (128, 4, 3)]
COMBINED_AT_ONCE = 16384  # elements, as in ops/decode/decode.cpp
BAR_BYTES = 64 << 20


def split_counts(pairs, processors):
    return sorted({max(1, turns * processors // pairs) for turns in (1, 2, 4)} | {1})


class Scratch:
    """What all candidates of a shape leave partial results in."""

    def __init__(self, pairs, group, splits):
        self.partials = torch.full((pairs * splits * group * (HEAD + 2),), math.nan, device="cuda")
        self.arrived = torch.zeros(pairs, dtype=torch.int32, device="cuda")


def launch(q, k, v, out, scratch, tile, splits, processors):
    """The kernel itself, with tiles and shares as given."""
    keys, warps, stages = tile
    batch, heads, head = q.shape
    works, group = batch * KV_HEADS * splits, heads // KV_HEADS
    left = (scratch.partials, scratch.arrived) if splits > 1 else (None, None)
    block = ty.next_power_of_2(splits)
    decode[(min(works, processors),)](
        q, k, v, None, out, *left, works, splits, KV_HEADS, k.shape[2], head, head**-0.5,
        *q.stride()[:2], 0, *k.stride()[:3], *v.stride()[:3], *out.stride()[:2], 0, GROUP=group,
        TOKENS=1, CAUSAL=False, BLOCK_R=64, BLOCK_K=keys, BLOCK_D=head, BLOCK_S=block,
        BLOCK_P=min(group, max(1, COMBINED_AT_ONCE // (block * head))), PIECE=head, num_warps=warps,
        num_stages=stages)


def error(q, k, v, out, lengths=None):
    """The largest relative error of a few sequences and heads."""
    worst, group = 0.0, q.shape[1] // KV_HEADS
    for batch, kv_head in {(0, 0), (q.shape[0] - 1, KV_HEADS - 1), (q.shape[0] // 2, 3)}:
        rows = slice(kv_head * group, (kv_head + 1) * group)
        length = k.shape[2] if lengths is None else int(lengths[batch])
        keys, values = (x[batch, kv_head, :length].double() for x in (k, v))
        expected = torch.softmax(q[batch, rows].double() @ keys.T * q.shape[2]**-0.5, -1) @ values
        difference = out[batch, rows].double() - expected
        worst = max(worst, float(difference.norm() / expected.norm()))
    return worst


def contenders_of(sets, out, scratch, processors):
    """name -> (what runs on one set of q, k, v; its lengths)."""
    q, k, _ = sets[0]
    batch, context = q.shape[0], k.shape[2]
    full = torch.full((batch,), context, dtype=torch.int32, device="cuda")
    ragged = torch.tensor([context - 61 * i % (context // 4) for i in range(batch)],
                          dtype=torch.int32, device="cuda")
    found = {
        "ops": (lambda q, k, v: ty.ops.decode(q, k, v, out), None),
        "ops-full": (lambda q, k, v: ty.ops.decode(q, k, v, out, full), full),
        "ops-ragged": (lambda q, k, v: ty.ops.decode(q, k, v, out, ragged), ragged)}
    for tile in CANDIDATES:
        for splits in split_counts(batch * KV_HEADS, processors):
            if splits * tile[0] <= context and splits <= 128:
                found["x".join(map(str, (*tile, splits)))] = (
                    lambda q, k, v, tile=tile, splits=splits:
                    launch(q, k, v, out, scratch, tile, splits, processors), None)
    return found


def bench_shape(batch, context, group, rounds):
    processors = torch.cuda.get_device_properties(0).multi_processor_count
    moved = 2 * batch * KV_HEADS * context * HEAD * 2
    copies = max(1, min(16, math.ceil(256e6 / moved)))
    make = lambda *shape: torch.randn(shape, device="cuda", dtype=torch.bfloat16)  # noqa: E731
    sets = [(make(batch, KV_HEADS * group, HEAD),
             *(make(batch, KV_HEADS, context, HEAD) for _ in range(2))) for _ in range(copies)]
    out = torch.empty_like(sets[0][0])
    pairs = batch * KV_HEADS
    scratch = Scratch(pairs, group, max(split_counts(pairs, processors)))
    turns = [sets[i % copies] for i in range(max(copies, 2 if moved > 4e9 else 4))]
    contenders, errors, share = [], {}, {"copy": 1.0}
    spare = torch.empty_like(sets[0][1])  # as many bytes: half are read, half written
    contenders.append(Contender("copy", [lambda k=k: spare.copy_(k) for _, k, _ in turns]))
    for name, (call, lengths) in contenders_of(sets, out, scratch, processors).items():
        try:
            out.fill_(math.nan)
            call(*sets[0])
            errors[name] = error(*sets[0], out, lengths)
            share[name] = 1.0 if lengths is None else float(lengths.double().mean()) / context
            if not errors[name] < 1e-2:
                raise AssertionError(f"error {errors[name]}")
            contenders.append(Contender(name, [lambda s=s, call=call: call(*s) for s in turns]))
        except Exception as problem:  # noqa: BLE001
            print("   ", name, type(problem).__name__, str(problem)[:300], flush=True)
    times = measure(contenders, rounds, 0.005)
    best = min((t, name) for name, t in times.items() if name not in ("copy", "ops-ragged"))
    result = {"batch": batch, "context": context, "group": group, "mib": moved / 2**20,
              "ms": times, "errors": errors, "tb_s": {n: share[n] * moved / t / 1e9 for n, t in times.items()},
              "best": best[1], "of_copy": times["copy"] / times.get("ops", math.inf)}
    print(f"batch {batch} context {context} group {group} ({moved >> 20} MiB): ops "
          f"{result['tb_s'].get('ops', 0):.2f} TB/s, of copy {result['of_copy']:.3f}; best {best[1]} "
          f"{moved / best[0] / 1e9:.2f} | " +
          " ".join(f"{name}:{rate:.2f}" for name, rate in result["tb_s"].items()), flush=True)
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", default="bench/results/gpu_decode.json")
    parser.add_argument("--seconds", type=float, default=1e9, help="stop after so many")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--small", action="store_true", help="caches below 64 MiB too")
    arguments = parser.parse_args()
    begin, results = time.time(), []
    random.seed(1)
    for group in GROUPS:
        for context in CONTEXTS:
            for batch in BATCHES:
                moved = 2 * batch * KV_HEADS * context * HEAD * 2
                if time.time() - begin > arguments.seconds or \
                        (moved < BAR_BYTES and not arguments.small):
                    continue
                try:
                    results.append(bench_shape(batch, context, group, arguments.rounds))
                except Exception as problem:  # noqa: BLE001
                    print(batch, context, group, type(problem).__name__, str(problem)[:500], flush=True)
                torch.cuda.empty_cache()
    peak = max((r["tb_s"]["copy"] for r in results), default=math.nan)
    of_peak = sorted(r["tb_s"].get("ops", 0) / peak for r in results if r["mib"] * 2**20 >= BAR_BYTES)
    print(f"fastest copy {peak:.2f} TB/s; of it:", " ".join(f"{x:.3f}" for x in of_peak), flush=True)
    Path(arguments.output).parent.mkdir(parents=True, exist_ok=True)
    Path(arguments.output).write_text(json.dumps(
        {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "copy_tb_s": peak,
         "results": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
