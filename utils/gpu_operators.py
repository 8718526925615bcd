#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""One operator at small sizes, each call compared with NumPy: what utils/gpu_sanitize.sh watches.

  utils/gpu_operators.py --list             names of the operators
  utils/gpu_operators.py matmul [--device cpu] [--ranks 1] [--arrays torch]

Sizes leave ends in every direction: tiles that are not full, rows that are not aligned, one row.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "python/tests"), str(ROOT / "utils")]

import numpy as np  # noqa: E402
from backends import numpy_type, random_array  # noqa: E402
from gpu_random import as_torch, torch_values  # noqa: E402

import tilery as ty  # noqa: E402
from tilery import ops  # noqa: E402

TOLERANCE = {"int32": 0, "fp32": 2e-3, "fp16": 2e-2, "bf16": 6e-2}


class Place:
    """Where arrays are: on the host, or copies on the device."""

    def __init__(self, device: str, arrays: str):
        self.device, self.kind = device, arrays

    def put(self, array):
        if self.device == "cpu" or array is None:
            return array
        if self.kind == "torch":
            return as_torch(array)
        from tilery.language import dtypes
        return ty.zeros(array.shape, dtypes.from_any(array.dtype), device=self.device).copy_from(array)

    def get(self, array, like):
        if self.device == "cpu":
            return array
        return torch_values(array, like) if self.kind == "torch" else array.numpy()

    def call(self, name: str, inputs, out, expected, dtype: str, order=None, **options):
        """Runs the operator; `order` places None for the output among the tensors."""
        result = self.put(out)
        given = [self.put(x) for x in inputs]
        tensors = order(given, result) if order else [*given, result]
        ops.call(name, *tensors, **options)
        if self.device != "cpu":
            ty.synchronize()
        np.testing.assert_allclose(self.get(result, out).astype(np.float64), expected,
                                   rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


def normal(shape, dtype: str):
    """The same for a shape, on every rank."""
    return random_array(np.random.default_rng(sum(shape)), shape, dtype)


def empty(shape, dtype: str):
    return np.full(shape, np.nan, numpy_type(dtype))


def wide(array):
    return array.astype(np.float64)


# --- on one rank --------------------------------------------------------------------------------------


def matmul(place):
    for dtype in ("bf16", "fp16", "fp32"):
        for m, n, k in [(128, 128, 64), (129, 136, 72), (1, 64, 64), (65, 33, 17), (256, 128, 8)]:
            a, b = normal((m, k), dtype), normal((k, n), dtype)
            place.call("matmul", [a, b], empty((m, n), dtype), wide(a) @ wide(b), dtype)
    for m, n, k in [(129, 144, 80), (3, 64, 2048)]:
        a, b = (np.random.default_rng(k).integers(-9, 9, shape).astype(np.int8)
                for shape in [(m, k), (k, n)])
        place.call("matmul", [a, b], np.zeros((m, n), np.int32), wide(a) @ wide(b), "int32")


def softmax(place):
    for dtype in ("fp32", "bf16"):
        for shape in [(1, 1), (5, 128), (3, 1000), (2, 4100)]:
            x = normal(shape, dtype)
            power = np.exp(wide(x) - wide(x).max(axis=-1, keepdims=True))
            place.call("softmax", [x], empty(shape, dtype), power / power.sum(axis=-1, keepdims=True),
                       dtype)


def rms_norm(place):
    for dtype in ("fp32", "bf16"):
        for rows, n in [(1, 8), (5, 128), (3, 1000), (2, 4100)]:
            x, weight = normal((rows, n), dtype), normal((n,), dtype)
            scale = np.sqrt((wide(x)**2).mean(axis=-1, keepdims=True) + 1e-6)
            place.call("rms_norm", [x, weight], empty((rows, n), dtype), wide(x) / scale * wide(weight),
                       dtype)


def layer_norm(place):
    for dtype in ("fp32", "bf16"):
        for rows, n in [(1, 8), (5, 128), (3, 1000)]:
            x, weight, bias = normal((rows, n), dtype), normal((n,), dtype), normal((n,), dtype)
            centred = wide(x) - wide(x).mean(axis=-1, keepdims=True)
            normed = centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-5)
            place.call("layer_norm", [x, weight, bias], empty((rows, n), dtype),
                       normed * wide(weight) + wide(bias), dtype,
                       order=lambda t, out: [t[0], out, t[1], t[2]])


def attention(place):
    for dtype in ("bf16", "fp32"):
        for heads, q_len, k_len, dim, causal in [(2, 128, 128, 64, True), (2, 33, 70, 64, False),
                                                 (1, 1, 40, 16, True), (2, 130, 130, 128, True)]:
            q, k, v = (normal((1, heads, n, dim), dtype) for n in (q_len, k_len, k_len))
            scores = wide(q) @ wide(k).swapaxes(-1, -2) * dim**-0.5
            hidden = np.arange(k_len)[None, :] > np.arange(q_len)[:, None] + k_len - q_len
            scores = np.where(hidden & causal, -np.inf, scores)
            power = np.exp(scores - scores.max(axis=-1, keepdims=True))
            place.call("attention", [q, k, v], empty(q.shape, dtype),
                       power / power.sum(axis=-1, keepdims=True) @ wide(v), dtype, causal=causal)


def decode(place):
    for dtype in ("bf16", "fp32"):
        for keys, dim, splits in [(50, 64, 0), (300, 128, 3), (17, 80, 2)]:
            q = normal((2, 6, 1, dim), dtype)
            k, v = normal((2, 2, keys, dim), dtype), normal((2, 2, keys, dim), dtype)
            grouped = wide(q).reshape(2, 2, 3, dim)
            scores = grouped @ wide(k).swapaxes(-1, -2) * dim**-0.5
            power = np.exp(scores - scores.max(axis=-1, keepdims=True))
            expected = (power / power.sum(axis=-1, keepdims=True) @ wide(v)).reshape(q.shape)
            place.call("decode", [q, k, v], empty(q.shape, dtype), expected, dtype, splits=splits)


def swiglu(place):
    for dtype in ("fp32", "bf16"):
        for shape in [(1, 1), (3, 1000), (5, 4100)]:
            gate = normal(shape, dtype)
            up = gate[:, ::-1].copy()
            place.call("swiglu", [gate, up], empty(shape, dtype),
                       wide(gate) / (1 + np.exp(-wide(gate))) * wide(up), dtype,
                       order=lambda t, out: [t[0], out, t[1]])


def rope(place):
    for dtype in ("fp32", "bf16"):
        for heads, tokens, dim in [(1, 1, 2), (3, 13, 16), (5, 9, 80)]:
            x, half = normal((2, heads, tokens, dim), dtype), dim // 2
            angles = np.arange(tokens)[:, None] * 10000.0**(-np.arange(half) / half)[None, :]
            cos, sin = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
            turned = (wide(x[..., :half]) + 1j * wide(x[..., half:])) * (cos + 1j * sin)
            place.call("rope", [x, cos, sin], empty(x.shape, dtype),
                       np.concatenate([turned.real, turned.imag], axis=-1), dtype,
                       order=lambda t, out: [t[0], out, t[1], t[2]])


# --- on all ranks: each has the same arrays, so that what comes out follows from them --------------------


def all_gather(place):
    x = normal((5, 33), "fp32")
    for form in ("push", "pull"):
        place.call("all_gather", [x], empty((5 * ty.num_ranks(), 33), "fp32"),
                   np.concatenate([wide(x)] * ty.num_ranks()), "fp32", form=form)


def all_reduce(place):
    x = normal((7, 33), "fp32")
    place.call("all_reduce", [x], empty(x.shape, "fp32"), wide(x) * ty.num_ranks(), "fp32")


def reduce_scatter(place):
    ranks = ty.num_ranks()
    x = normal((3 * ranks, 40), "fp32")
    mine = slice(3 * ty.rank(), 3 * ty.rank() + 3)
    place.call("reduce_scatter", [x], empty((3, 40), "fp32"), wide(x)[mine] * ranks, "fp32")


def all_to_all(place):
    ranks = ty.num_ranks()
    x = normal((ranks, 45), "fp32")
    place.call("all_to_all", [x], empty(x.shape, "fp32"), wide(x)[[ty.rank()] * ranks], "fp32")


def broadcast(place):
    x = normal((9, 21), "fp32")
    place.call("broadcast", [x], empty(x.shape, "fp32"), wide(x), "fp32", root=0)


def ag_gemm(place):
    a, b = normal((33, 64), "bf16"), normal((64, 72), "bf16")
    place.call("ag_gemm", [a, b], empty((33 * ty.num_ranks(), 72), "bf16"),
               np.concatenate([wide(a) @ wide(b)] * ty.num_ranks()), "bf16")


def gemm_rs(place):
    ranks = ty.num_ranks()
    a, b = normal((32 * ranks, 40), "bf16"), normal((40, 72), "bf16")
    mine = slice(32 * ty.rank(), 32 * ty.rank() + 32)
    place.call("gemm_rs", [a, b], empty((32, 72), "bf16"), (wide(a) @ wide(b))[mine] * ranks, "bf16")


def gemm_ar(place):
    a, b = normal((33, 40), "bf16"), normal((40, 72), "bf16")
    for form in ("auto", "direct"):
        place.call("gemm_ar", [a, b], empty((33, 72), "bf16"), wide(a) @ wide(b) * ty.num_ranks(), "bf16", form=form)


def run(name: str, place: Place, ranks: int) -> None:
    described = {op["name"]: op for op in ops.list()}[name]
    action = globals()[name]
    if not described["communicates"]:
        return action(place)
    device = {} if place.device == "cpu" else {"device": place.device, "shared_heap": True,
                                               "heap_bytes": 64 << 20}
    ty.spawn(lambda: action(place), ranks=ranks, **device)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("operator", nargs="?")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--arrays", choices=["numpy", "torch"], default="numpy")
    arguments = parser.parse_args()
    if arguments.list:
        return print(*[op["name"] for op in ops.list()], sep="\n")
    with ty.interpret(False):
        run(arguments.operator, Place(arguments.device, arguments.arrays), arguments.ranks)
    print(f"{arguments.operator}: the answers are right")


if __name__ == "__main__":
    main()
