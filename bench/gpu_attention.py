# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Attention forward on one GPU beside torch's (cuDNN, flash) and Triton's: python bench/gpu_attention.py

Same method as gpu_gemm.py: CUDA graphs, shuffled order, medians; results are checked against float64 on
one head. "ours" is ty.ops.attention as users call it; --tune adds launches of its kernel with other
tiles. Triton compiles the same kernel's text, in the best of four configurations.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from pathlib import Path

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

import tilery as ty

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "ops" / "attention"))
from attention import attention  # noqa: E402
from gpu_gemm import Contender, measure, triton_peers  # noqa: E402

triton_kernel = triton_peers.attention_kernel() if triton_peers else None

# batch, heads, tokens, head dimension
SHAPES = [(4, 32, 2048, 128), (2, 32, 4096, 128), (1, 32, 8192, 128), (1, 32, 16384, 128),
          (4, 32, 4096, 64)]
# BLOCK_Q, BLOCK_K, num_warps, num_stages
CANDIDATES = [(128, 128, 8, 2), (128, 64, 8, 2), (128, 64, 8, 3), (64, 128, 4, 2), (64, 64, 4, 2)]


def launch(q, k, v, out, causal, config):
    block_q, block_k, warps, stages = config
    batch, heads, tokens, head = q.shape
    attention[(ty.cdiv(tokens, block_q), batch * heads)](
        q, k, v, None, out, heads, heads // k.shape[1], tokens, k.shape[2], head, head**-0.5,
        *q.stride()[:3], *k.stride()[:3], *v.stride()[:3], *out.stride()[:3], 0, 0, 0, 0,
        CAUSAL=causal, MASK="none", BLOCK_Q=block_q, BLOCK_K=block_k, BLOCK_D=head,
        num_warps=warps, num_stages=stages)


def error(q, k, v, out, causal):
    q, k, v = (x[:1, :1].double() for x in (q, k, v))
    scores = q @ k.transpose(-1, -2) * q.shape[-1]**-0.5
    if causal:
        scores = scores.masked_fill(torch.ones_like(scores).triu(1).bool(), -math.inf)
    expected = torch.softmax(scores, -1) @ v
    return float((out[:1, :1].double() - expected).norm() / expected.norm())


def peer(backend, q, k, v, causal):
    def call():
        with sdpa_kernel(backend):
            torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
    return call


def bench_shape(shape, causal, tune=False, rounds=7):
    q, k, v = (torch.randn(shape, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    out = torch.empty_like(q)
    batch, heads, tokens, head = shape
    flops = 4 * batch * heads * tokens * tokens * head * (0.5 if causal else 1)
    contenders, errors = [], {}
    for name, backend in (("cudnn", SDPBackend.CUDNN_ATTENTION),
                          ("flash", SDPBackend.FLASH_ATTENTION)):
        contenders.append(Contender(name, [peer(backend, q, k, v, causal)] * 2))
    calls = {"ours": lambda: ty.ops.attention(q, k, v, out, causal=causal)}
    for config in CANDIDATES if tune else ():
        calls["x".join(map(str, config))] = lambda c=config: launch(q, k, v, out, causal, c)
    for config in triton_peers.ATTENTION_CONFIGURATIONS if triton_kernel else ():
        calls["triton" + "x".join(map(str, config))] = lambda c=config: triton_peers.attention(
            triton_kernel, q, k, v, out, causal, c)
    for name, call in calls.items():
        try:
            out.fill_(float("nan"))
            call()
            errors[name] = error(q, k, v, out, causal)
            if not errors[name] < 1e-2:
                raise AssertionError(f"error {errors[name]}")
            contenders.append(Contender(name, [call] * 2))
        except Exception as problem:  # Triton has errors of many kinds
            print("   ", name, type(problem).__name__, str(problem)[:300], flush=True)
    times = measure(contenders, rounds, 0.03)
    triton = [t for name, t in times.items() if name.startswith("triton")]
    result = {"shape": shape, "causal": causal, "ms": times, "errors": errors,
              "of_cudnn": times["cudnn"] / times["ours"]}
    if triton:
        result["of_triton"] = min(triton) / times["ours"]
    print(f"{shape} causal={causal}: ours {flops / times['ours'] / 1e9:.0f} TFLOP/s (error "
          f"{errors['ours']:.1e}), of cudnn {result['of_cudnn']:.3f}, of triton "
          f"{result.get('of_triton', 0):.3f} | " +
          " ".join(f"{name}:{flops / t / 1e9:.0f}" for name, t in times.items()), flush=True)
    return result


def geometric_mean(results, name):
    ratios = [r[name] for r in results if name in r]
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", default="bench/results/gpu_attention.json")
    parser.add_argument("--tune", action="store_true")
    arguments = parser.parse_args()
    results = [bench_shape(shape, causal, arguments.tune) for shape in SHAPES
               for causal in (False, True)]
    means = {name: geometric_mean(results, name) for name in ("of_cudnn", "of_triton")}
    print("geometric means", means)
    Path(arguments.output).parent.mkdir(parents=True, exist_ok=True)
    Path(arguments.output).write_text(json.dumps(
        {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "means": means,
         "results": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
