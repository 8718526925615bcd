# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""softmax, rms_norm and layer_norm on one GPU beside a copy: python bench/gpu_rows.py

Rates count each input read once and each output written once. Same method as gpu_gemm.py.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import torch

import tilery as ty

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(Path(__file__).resolve().parent))
for op in ("softmax", "rms_norm", "layer_norm"):
    sys.path.insert(0, str(ROOT / "ops" / op))
from gpu_gemm import Contender, measure  # noqa: E402
from layer_norm import layer_norm  # noqa: E402
from rms_norm import rms_norm  # noqa: E402
from softmax import softmax  # noqa: E402

SHAPES = [(8192, 4096), (8192, 8192), (32768, 8192), (4096, 32768)]
# elements of a row at a time, warps
CANDIDATES = [(4096, 4), (4096, 8), (8192, 8), (8192, 16), (16384, 16), (32768, 32)]


def calls(x, y, weight, bias, block, warps):
    rows, n = x.shape
    shared = dict(BLOCK=block, num_warps=warps)
    return {
        "softmax": lambda: softmax[(rows,)](x, y, n, n, n, **shared),
        "rms_norm": lambda: rms_norm[(rows,)](x, weight, y, n, n, n, 1e-6, **shared),
        "layer_norm": lambda: layer_norm[(rows,)](x, weight, bias, y, n, n, n, 1e-6, **shared)}


def expected(name, x, weight, bias):
    wide = x.double()
    if name == "softmax":
        return torch.softmax(wide, -1)
    if name == "rms_norm":
        return torch.nn.functional.rms_norm(wide, (x.shape[1],), weight.double(), 1e-6)
    return torch.nn.functional.layer_norm(wide, (x.shape[1],), weight.double(), bias.double(), 1e-6)


def bench_shape(rows, n):
    x = torch.randn(rows, n, device="cuda", dtype=torch.bfloat16)
    y = torch.empty_like(x)
    weight, bias = (torch.randn(n, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    moved = 2 * x.numel() * x.element_size()
    results = []
    for name in ("softmax", "rms_norm", "layer_norm"):
        contenders = [Contender("copy", [lambda: y.copy_(x)] * 4)]
        for block, warps in CANDIDATES:
            if block > max(4096, n):
                continue
            label = f"{block}x{warps}"
            try:
                y.fill_(float("nan"))
                call = calls(x, y, weight, bias, block, warps)[name]
                call()
                reference = expected(name, x[:64], weight, bias)
                error = float((y[:64].double() - reference).norm() / reference.norm())
                if not error < 5e-3:
                    raise AssertionError(f"error {error}")
                contenders.append(Contender(label, [call] * 4))
            except (ty.Error, AssertionError) as problem:
                print("   ", name, label, type(problem).__name__, str(problem)[:300], flush=True)
        times = measure(contenders, 7, 0.005)
        best = min((t, label) for label, t in times.items() if label != "copy")
        print(f"{name} {rows}x{n}: best {best[1]} {moved / best[0] / 1e9:.2f} TB/s, of copy "
              f"{times['copy'] / best[0]:.3f} | " +
              " ".join(f"{label}:{moved / t / 1e9:.2f}" for label, t in times.items()), flush=True)
        results.append({"op": name, "rows": rows, "n": n, "ms": times,
                        "of_copy": times["copy"] / best[0]})
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", default="bench/results/gpu_rows.json")
    arguments = parser.parse_args()
    results = [result for shape in SHAPES for result in bench_shape(*shape)]
    Path(arguments.output).parent.mkdir(parents=True, exist_ok=True)
    Path(arguments.output).write_text(json.dumps(
        {"device": torch.cuda.get_device_name(), "torch": torch.__version__,
         "results": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
