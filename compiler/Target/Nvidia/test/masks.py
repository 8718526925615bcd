# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
# RUN: %tilery compile %s -f advanced -s "*bf16:16, *bf16:16, *fp32:16, i32:16, i32:16, 128, 64" -t sm_90a -e ptx | FileCheck %s
# RUN: %tilery compile %s -f constants -s "*bf16:16, *bf16:16, *fp32:16, 80, 128, 64" -t sm_90a -e ptx | FileCheck %s
# RUN: %tilery compile %s -f other_index -s "*bf16:16, *bf16:16, *fp32:16, i32:16, i32:16, 128, 64" -t sm_90a -e ptx | FileCheck %s --check-prefix=PLAIN
import tilery as ty
import tilery.language as tl


# CHECK-DAG: cp.async.bulk.tensor
# CHECK-DAG: wgmma.mma_async
# Pointers that the loop advances, and what is left of K in the mask: the form of Triton's tutorial.
@ty.jit
def advanced(a, b, c, N, K, BM: tl.constexpr, BK: tl.constexpr):
    m, n, k = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, BM), tl.arange(0, BK)
    pa, pb = a + m[:, None] * K + k[None, :], b + k[:, None] * N + n[None, :]
    acc = tl.zeros((BM, BM), tl.float32)
    for i in range(0, tl.cdiv(K, BK)):
        x = tl.load(pa, mask=k[None, :] < K - i * BK, other=0.0)
        y = tl.load(pb, mask=k[:, None] < K - i * BK, other=0.0)
        acc = tl.dot(x, y, acc)
        pa += BK
        pb += BK * N
    tl.store(c + m[:, None] * N + n[None, :], acc)


# Strides and extents that are constants.
@ty.jit
def constants(a, b, c, K: tl.constexpr, BM: tl.constexpr, BK: tl.constexpr):
    m, n = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, BM)
    acc = tl.zeros((BM, BM), tl.float32)
    for i in range(0, tl.cdiv(K, BK)):
        k = i * BK + tl.arange(0, BK)
        x = tl.load(a + m[:, None] * K + k[None, :], mask=k[None, :] < K, other=0.0)
        y = tl.load(b + k[:, None] * BM + n[None, :], mask=k[:, None] < K, other=0.0)
        acc = tl.dot(x, y, acc)
    tl.store(c + m[:, None] * BM + n[None, :], acc)


# The mask is of another index than the address: not what a copy by a tensor map cuts off.
# PLAIN-NOT: cp.async.bulk.tensor
# PLAIN: mma.sync
# PLAIN-NOT: cp.async.bulk.tensor
@ty.jit
def other_index(a, b, c, N, K, BM: tl.constexpr, BK: tl.constexpr):
    m, n, k = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, BM), tl.arange(0, BK)
    pa, pb = a + m[:, None] * K + k[None, :], b + k[:, None] * N + n[None, :]
    acc = tl.zeros((BM, BM), tl.float32)
    for i in range(0, tl.cdiv(K, BK)):
        x = tl.load(pa, mask=k[None, :] < K - 2 * i * BK, other=0.0)
        y = tl.load(pb, mask=k[:, None] < K - i * BK, other=0.0)
        acc = tl.dot(x, y, acc)
        pa += BK
        pb += BK * N
    tl.store(c + m[:, None] * N + n[None, :], acc)
