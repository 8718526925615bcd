# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Triton's side of the comparisons on one GPU: a persistent product with host descriptors, and the text
of ops/attention compiled by Triton. Import fails where Triton is missing."""

from __future__ import annotations

import importlib.util
import sys
import tempfile
from pathlib import Path

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

ROOT = Path(__file__).resolve().parents[1]

# BLOCK_M, BLOCK_N, BLOCK_K, GROUP_M, num_warps, num_stages
PRODUCT_CONFIGURATIONS = [(128, 256, 64, 8, 8, 3), (128, 256, 64, 16, 8, 3), (128, 128, 64, 8, 4, 4)]
# BLOCK_Q, BLOCK_K, num_warps, num_stages
ATTENTION_CONFIGURATIONS = [(128, 128, 8, 2), (128, 64, 8, 3), (128, 64, 4, 3), (64, 64, 4, 3)]


@triton.jit
def persistent_product(a, b, c, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
                       BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr, PROCESSORS: tl.constexpr):
    """c[M, N] = a[M, K] b[N, K]^T; a, b, c: descriptors of BLOCK_M x BLOCK_K and so on."""
    rows, columns = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    for tile in tl.range(tl.program_id(0), rows * columns, PROCESSORS, flatten=True):
        group = tile // (GROUP_M * columns)
        height = min(rows - group * GROUP_M, GROUP_M)
        inside = tile % (GROUP_M * columns)
        row = (group * GROUP_M + inside % height) * BLOCK_M
        column = inside // height * BLOCK_N
        acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for k in range(tl.cdiv(K, BLOCK_K)):
            left = a.load([row, k * BLOCK_K])
            right = b.load([column, k * BLOCK_K])
            acc = tl.dot(left, right.T, acc)
        halves = tl.permute(tl.reshape(acc, (BLOCK_M, 2, BLOCK_N // 2)), (0, 2, 1))
        first, second = tl.split(halves)
        c.store([row, column], first.to(tl.bfloat16))
        c.store([row, column + BLOCK_N // 2], second.to(tl.bfloat16))


def product(a, b, c, configuration):
    """A call without arguments; a: [M, K], b: [K, N] with contiguous columns."""
    block_m, block_n, block_k, group, warps, stages = configuration
    (m, k), n = a.shape, b.shape[1]
    operands = [TensorDescriptor.from_tensor(a, [block_m, block_k]),
                TensorDescriptor.from_tensor(b.T, [block_n, block_k]),
                TensorDescriptor.from_tensor(c, [block_m, block_n // 2])]
    processors = torch.cuda.get_device_properties(0).multi_processor_count
    grid = (min(processors, triton.cdiv(m, block_m) * triton.cdiv(n, block_n)),)
    return lambda: persistent_product[grid](*operands, m, n, k, block_m, block_n, block_k, group,
                                            processors, num_warps=warps, num_stages=stages)


def attention_kernel():
    """The kernel of ops/attention/attention.py as Triton's."""
    text = (ROOT / "ops/attention/attention.py").read_text()
    text = text.replace("import tilery as ty\nimport tilery.language as tl",
                        "import triton as ty\nimport triton.language as tl")
    path = Path(tempfile.mkdtemp()) / "triton_attention.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location("triton_attention", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module.attention


def attention(kernel, q, k, v, out, causal, configuration):
    block_q, block_k, warps, stages = configuration
    batch, heads, tokens, head = q.shape
    kernel[(triton.cdiv(tokens, block_q), batch * heads)](
        q, k, v, None, out, heads, heads // k.shape[1], tokens, k.shape[2], head, head**-0.5,
        *q.stride()[:3], *k.stride()[:3], *v.stride()[:3], *out.stride()[:3], 0, 0, 0, 0,
        CAUSAL=causal, MASK="none", BLOCK_Q=block_q, BLOCK_K=block_k, BLOCK_D=head,
        num_warps=warps, num_stages=stages)
