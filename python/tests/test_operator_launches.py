# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""What operators launch on a device with warps, seen by a driver that records launches."""

import importlib
from pathlib import Path

import pytest
from test_devices import fake

import tilery as ty

SHOW = '''
        def show(count):
            for at in range(fake.fake_cuda_launch_count() - count, fake.fake_cuda_launch_count()):
                launch = fake.fake_cuda_launch_at(at)
                print(launch.kernel.decode(), launch.threads, *launch.grid)

        def arrays(*shapes, kind="bf16"):
            return [ty.zeros(shape, kind, device="cuda") for shape in shapes]
'''


def launches(code: str) -> list[str]:
    return fake(SHOW + code).splitlines()


@pytest.mark.parametrize("rows,n,threads,instances", [
    (3, 100, 32, 3), (3, 4096, 128, 3), (3, 8192, 256, 3), (3, 32768, 1024, 3), (300, 32768, 1024, 132), (3, 50000, 256, 3),
    (100_000, 128, 64, 6250), (3000, 128, 32, 750), (5000, 2048, 64, 5000)])
def test_rows(rows, n, threads, instances):
    assert launches(f'''
        x, weight, y = arrays(({rows}, {n}), {n}, ({rows}, {n}))
        ty.ops.softmax(x, y)
        ty.ops.rms_norm(x, weight, y)
        ty.ops.layer_norm(x, y)
        show(3)
    ''') == [f"{name} {threads} {instances} 1 1" for name in ("softmax", "rms_norm", "layer_norm")]


@pytest.mark.parametrize("m,n,k,kind,launched", [
    (8192, 8192, 8192, "bf16", "384 132"),    # more tiles than processors
    (512, 5120, 8192, "bf16", "384 108"),     # 4 x 27 tiles of 192 columns
    (64, 5120, 25600, "bf16", "256 80"),      # 40 tiles in two parts
    (16, 5120, 25600, "bf16", "256 80"),      # 16 of 64 rows
    (512, 1000, 512, "fp32", "128 128"), (100, 1000, 513, "bf16", "256 8")])
def test_matmul(m, n, k, kind, launched):
    assert launches(f'''
        a, b, c = arrays(({m}, {k}), ({k}, {n}), ({m}, {n}), kind="{kind}")
        ty.ops.matmul(a, b, c)
        show(1)
    ''') == [f"matmul {launched} 1 1"]


def test_attention():
    """Consumer warps and a group of four that copies, where products run by themselves."""
    assert launches('''
        for tokens, kind in ((2000, "bf16"), (50, "fp16"), (2000, "fp32")):
            q, k, v, out = arrays(*[(1, 2, tokens, 128)] * 4, kind=kind)
            ty.ops.attention(q, k, v, out)
            show(1)
    ''') == ["attention 384 16 2 1", "attention 256 1 2 1", "attention 128 32 2 1"]


def test_decode():
    """Shares of the keys fill the processors (132 here) evenly; none where sequences do."""
    assert launches('''
        for batch, keys in ((1, 8192), (64, 8192), (1, 100)):
            q, k, v, out = arrays((batch, 64, 128), *[(batch, 8, keys, 128)] * 2, (batch, 64, 128))
            workspace = ty.zeros(1 << 22, "fp32", device="cuda")
            ty.ops.decode(q, k, v, out, None, workspace)
            show(2 if keys == 8192 and batch == 1 else 1)
        q, k, v, out = arrays((1, 64, 128), *[(1, 8, 8192, 128)] * 2, (1, 64, 128))
        ty.ops.decode(q, k, v, out)
        show(1)
    ''') == ["decode 256 128 1 1", "combine 128 8 8 1", "decode 256 132 1 1", "decode 256 8 1 1",
              "decode 256 8 1 1"]


def test_elementwise():
    assert launches('''
        gate, up, out = arrays(*[(5, 9000)] * 3)
        ty.ops.swiglu(gate, out, up)
        q, k = arrays((2, 40, 33, 128), (2, 8, 33, 128))
        cos, sin = arrays((33, 64), (33, 64), kind="fp32")
        ty.ops.rope(q, q, cos, sin, k, k)
        show(2)
    ''') == ["swiglu 128 15 1 1", "rope 128 5 6 2"]


def test_every_operator_is_watched_by_the_sanitizer(monkeypatch):
    """utils/gpu_sanitize.sh runs what utils/gpu_operators.py knows."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "utils"))
    known = importlib.import_module("gpu_operators")
    assert [op["name"] for op in ty.ops.list() if not hasattr(known, op["name"])] == []
