# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Operators that memory limits, on one GPU beside a copy: python bench/gpu_rows.py [--ops swiglu,rope]

softmax, rms_norm, layer_norm, swiglu and rope. Rates count each input read once and each output
written once; "copy" moves as many bytes. "ops" is the operator as users call it, the others are its
kernel with other tiles and warps. Same method as gpu_gemm.py.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from pathlib import Path

import torch

import tilery as ty

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(Path(__file__).resolve().parent))
for op in ("softmax", "rms_norm", "layer_norm", "swiglu", "rope"):
    sys.path.insert(0, str(ROOT / "ops" / op))
from gpu_gemm import Contender, measure  # noqa: E402
from layer_norm import layer_norm  # noqa: E402
from rms_norm import rms_norm  # noqa: E402
from rope import rope  # noqa: E402
from softmax import softmax  # noqa: E402
from swiglu import swiglu  # noqa: E402

SHAPES = [(8192, 4096), (8192, 8192), (32768, 8192), (4096, 32768), (1 << 19, 128)]
ROWS = ("softmax", "rms_norm", "layer_norm")
# rows of an instance and warps, when they are short
SHORT = [(8, 1), (16, 2), (16, 4), (32, 4), (64, 8)]
# elements of a row at a time, warps
CANDIDATES = [(4096, 2), (4096, 4), (4096, 8), (8192, 4), (8192, 8), (16384, 8), (16384, 16),
              (32768, 16), (32768, 32)]
# batch, heads, heads of k, tokens, head dimension
ROPE_SHAPES = [(4, 32, 8, 4096, 128), (1, 64, 8, 16384, 128), (64, 64, 8, 1, 128)]
# heads, tokens of a tile, warps
ROPE_CANDIDATES = [(8, 8, 4), (4, 8, 4), (8, 4, 4), (16, 4, 4), (16, 8, 8)]
F = torch.nn.functional


class Case:
    """One operator on one shape: `calls` by name, the bytes they move, and how wrong `out` is."""

    def __init__(self, op, shape, moved, calls, out, error):
        self.op, self.shape, self.moved, self.calls = op, shape, moved, calls
        self.out, self.error = out, error


def random(*shape):
    return torch.randn(shape, device="cuda", dtype=torch.bfloat16)


def relative(actual, expected):
    return float((actual.double() - expected).norm() / expected.norm())


def row_case(op, rows, n):
    x, weight, bias = random(rows, n), random(n), random(n)
    y = torch.empty_like(x)
    expected = {"softmax": lambda x: torch.softmax(x, -1),
                "rms_norm": lambda x: F.rms_norm(x, (n,), weight.to(x.dtype), 1e-6),
                "layer_norm": lambda x: F.layer_norm(x, (n,), weight.to(x.dtype), bias.to(x.dtype),
                                                     1e-6)}[op]
    calls = {"ops": {"softmax": lambda: ty.ops.softmax(x, y),
                     "rms_norm": lambda: ty.ops.rms_norm(x, weight, y, eps=1e-6),
                     "layer_norm": lambda: ty.ops.layer_norm(x, y, weight, bias, eps=1e-6)}[op],
             "torch": lambda: expected(x)}
    tiles = [(1, block, warps) for block, warps in CANDIDATES if block <= max(4096, n)] \
        if n > 2048 else [(at_once, n, warps) for at_once, warps in SHORT]
    for at_once, block, warps in tiles:
        grid, sizes = (ty.cdiv(rows, at_once),), (rows, n, n, n)
        tile = dict(ROWS=at_once, BLOCK=block, ONCE=n <= block, WHOLE=n % block == 0, num_warps=warps)
        calls[f"{at_once}x{block}x{warps}"] = {
            "softmax": lambda g=grid, s=sizes, t=tile: softmax[g](x, y, *s, **t),
            "rms_norm": lambda g=grid, s=sizes, t=tile: rms_norm[g](x, weight, y, *s, 1e-6, **t),
            "layer_norm": lambda g=grid, s=sizes, t=tile: layer_norm[g](x, weight, bias, y, *s, 1e-6,
                                                                        **t)}[op]
    return Case(op, (rows, n), 2 * x.numel() * 2, calls, y,
                lambda: relative(y[:64], expected(x[:64].double())))


def swiglu_case(rows, n):
    both = random(rows, 2 * n)
    gate, up = both[:, :n], both[:, n:]
    out = torch.empty(rows, n, device="cuda", dtype=torch.bfloat16)
    calls = {"ops": lambda: ty.ops.swiglu(both, out), "torch": lambda: F.silu(gate) * up}
    for block, warps in [(1024, 1), (2048, 2), (2048, 4), (4096, 4), (4096, 8), (8192, 8)]:
        blocks = ty.cdiv(n, block)
        calls[f"{block}x{warps}"] = (
            lambda block=block, blocks=blocks, warps=warps: swiglu[(rows * blocks,)](
                gate, up, out, n, blocks, 2 * n, 2 * n, n, BLOCK=block, WHOLE=n % block == 0,
                num_warps=warps))
    return Case("swiglu", (rows, n), 3 * rows * n * 2, calls, out, lambda: relative(
        out[:64], F.silu(gate[:64].double()) * up[:64].double()))


def rope_case(shape, interleaved):
    """q and k as projections leave them, [batch, tokens, heads, head]."""
    batch, heads, k_heads, tokens, head = shape
    q, k = (random(batch, tokens, h, head).transpose(1, 2) for h in (heads, k_heads))
    q_out, k_out = (torch.empty_like(x) for x in (q, k))
    angles = torch.arange(tokens + 64, device="cuda")[:, None] * \
        10000.0**(-torch.arange(head // 2, device="cuda") / (head // 2))
    cos, sin = angles.cos(), angles.sin()
    positions = torch.arange(tokens, device="cuda") + 7

    def kernel(tile_heads, tile_tokens, warps):
        strides = [step for x in (q, q_out, k, k_out) for step in x.stride()[:3]]
        grid = (ty.cdiv(tokens, tile_tokens),
                ty.cdiv(heads, tile_heads) + ty.cdiv(k_heads, tile_heads), batch)
        return lambda: rope[grid](
            q, q_out, k, k_out, cos, sin, positions, cos.shape[0], tokens, heads, k_heads, head // 2,
            *strides, head // 2, head // 2, 0, 1, INTERLEAVED=interleaved, BLOCK_H=tile_heads,
            BLOCK_T=tile_tokens, BLOCK_D=head // 2, num_warps=warps)

    def expected(x):
        wide, c, s = x.double(), *(t[positions].double() for t in (cos, sin))
        if interleaved:
            left, right = wide[..., 0::2], wide[..., 1::2]
            return torch.stack([left * c - right * s, right * c + left * s], -1).flatten(-2)
        left, right = wide.chunk(2, -1)
        return torch.cat([left * c - right * s, right * c + left * s], -1)

    calls = {"ops": lambda: ty.ops.rope(q, q_out, cos, sin, k, k_out, positions,
                                        interleaved=interleaved)}
    for tile_heads, tile_tokens, warps in ROPE_CANDIDATES:
        if tile_tokens <= max(tokens, 4):
            name = f"{tile_heads}x{tile_tokens}x{warps}"
            calls[name] = kernel(tile_heads, tile_tokens, warps)
    return Case("rope-interleaved" if interleaved else "rope", shape,
                2 * (q.numel() + k.numel()) * 2, calls, q_out,
                lambda: max(relative(q_out[:1, :2], expected(q[:1, :2])),
                            relative(k_out[-1:, -2:], expected(k[-1:, -2:]))))


def bench(case):
    source = torch.empty(case.moved // 4, device="cuda", dtype=torch.bfloat16)
    copied = torch.empty_like(source)
    contenders = [Contender("copy", [lambda: copied.copy_(source)] * 4)]
    for label, call in case.calls.items():
        try:
            if label != "torch":
                case.out.fill_(math.nan)
                call()
                error = case.error()
                if not error < 5e-3:
                    raise AssertionError(f"error {error}")
            contenders.append(Contender(label, [call] * 4))
        except Exception as problem:  # noqa: BLE001
            print("   ", case.op, label, type(problem).__name__, str(problem)[:300], flush=True)
    times = measure(contenders, 7, 0.005)
    best = min((t, label) for label, t in times.items() if label not in ("copy", "torch"))
    of_copy = times["copy"] / times.get("ops", math.inf)
    print(f"{case.op} {case.shape}: ops of copy {of_copy:.3f}, best {best[1]} "
          f"{case.moved / best[0] / 1e9:.2f} TB/s, of copy {times['copy'] / best[0]:.3f} | " +
          " ".join(f"{label}:{case.moved / t / 1e9:.2f}" for label, t in times.items()), flush=True)
    return {"op": case.op, "shape": case.shape, "ms": times, "of_copy": of_copy,
            "best": best[1], "best_of_copy": times["copy"] / best[0]}


def cases(wanted):
    for rows, n in SHAPES:
        for op in ROWS:
            if op in wanted:
                yield lambda op=op, rows=rows, n=n: row_case(op, rows, n)
        if "swiglu" in wanted and n >= 1024:
            yield lambda rows=rows, n=n: swiglu_case(rows, n)
    for shape in ROPE_SHAPES if "rope" in wanted else []:
        for interleaved in (False, True):
            yield lambda shape=shape, interleaved=interleaved: rope_case(shape, interleaved)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", default="bench/results/gpu_rows.json")
    parser.add_argument("--ops", default="softmax,rms_norm,layer_norm,swiglu,rope")
    parser.add_argument("--seconds", type=float, default=1e9, help="stop after so many")
    arguments = parser.parse_args()
    begin, results = time.time(), []
    for make in cases(arguments.ops.split(",")):
        if time.time() - begin > arguments.seconds:
            break
        try:
            results.append(bench(make()))
        except Exception as problem:  # noqa: BLE001
            print(type(problem).__name__, str(problem)[:500], flush=True)
    Path(arguments.output).parent.mkdir(parents=True, exist_ok=True)
    Path(arguments.output).write_text(json.dumps(
        {"device": torch.cuda.get_device_name(), "torch": torch.__version__,
         "results": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
