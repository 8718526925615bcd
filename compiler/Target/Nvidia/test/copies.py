# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
# RUN: %tilery compile %s -f product -s "*bf16:16, *bf16:16, *fp32:16, i32:16, i32:16, 128, 64" -O num_warps=8 -t sm_80 -e ptx | FileCheck %s
# RUN: %tilery compile %s -f product -s "*bf16:16, *bf16:16, *fp32:16, i32:16, i32:16, 128, 64" -O num_warps=8 -O num_stages=1 -t sm_80 -e ptx | FileCheck %s --check-prefix=ONE
# RUN: %tilery compile %s -f product -s "*fp8e4nv:16, *fp8e4nv:16, *fp32:16, i32:16, i32:16, 64, 64" -t sm_89 -e ptx | FileCheck %s --check-prefix=FP8
# RUN: %tilery compile %s -f product -s "*fp8e5:16, *fp8e5:16, *fp32:16, i32:16, i32:16, 64, 64" -t sm_80 -e ptx | FileCheck %s --check-prefix=OLD
# RUN: %tilery compile %s -f updated -s "*bf16:16, *bf16:16, i32:16, i32:16, 64, 64" -t sm_80 -e ptx | FileCheck %s --check-prefix=PLAIN
# RUN: %tilery compile %s -f used_twice -s "*bf16:16, *fp32:16, *fp32:16, i32:16, 64, 64" -t sm_80 -e ptx | FileCheck %s --check-prefix=PLAIN
# RUN: %tilery compile %s -f filled -s "*bf16:16, *fp32:16, i32:16, 64, 64" -t sm_80 -e ptx | FileCheck %s --check-prefix=PLAIN
# RUN: %tilery compile %s -f indexed -s "*bf16:16, *i32:16, *fp32:16, i32, 64, 64" -t sm_80 -e ptx | FileCheck %s --check-prefix=PLAIN
# RUN: %tilery compile %s -f locked -s "*bf16:16, *i32:16, *fp32:16, i32:16, 64, 64" -t sm_80 -e ptx | FileCheck %s --check-prefix=PLAIN
# RUN: %tilery compile %s -f two_and_one -s "*bf16:16, *fp32:16, i32:16, 64, 64" -t sm_80 -e ptx | FileCheck %s --check-prefix=LOOPS
import tilery as ty
import tilery.language as tl


# Two copies are under way before the loop, the third starts in the first iteration; nothing else waits.
# CHECK: .reqntid 256
# CHECK-NOT: {{ld.global|st.shared}}
# CHECK: cp.async.cg.shared.global [{{.*}}], [{{.*}}], 16
# CHECK: cp.async.commit_group;
# CHECK: cp.async.cg.shared.global
# CHECK: cp.async.commit_group;
# CHECK: $L__BB0
# CHECK: cp.async.wait_group 1;
# CHECK: bar.sync 0;
# CHECK: cp.async.cg.shared.global
# CHECK: cp.async.commit_group;
# CHECK-NOT: bar.sync
# CHECK-DAG: ldmatrix.sync.aligned.m8n8.x4.shared.b16
# CHECK-DAG: ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16
# CHECK: mma.sync.aligned.m16n8k16
# CHECK-NOT: {{ld.global|ld.shared}}
# CHECK: ret;

# One stage: no copies.
# ONE-NOT: cp.async
# ONE-DAG: ld.global{{.*}}.v4.b32
# ONE-DAG: st.shared
# ONE-DAG: bar.sync
# ONE-DAG: ldmatrix
# ONE-DAG: mma.sync
# ONE: ret;

# FP8: .version 8.4
# FP8: mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32
# OLD-NOT: mma.sync
# OLD: ret;
@ty.jit
def product(a, b, c, N, K, BM: tl.constexpr, BK: tl.constexpr):
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


# PLAIN-NOT: cp.async
# PLAIN: mma.sync
# PLAIN-NOT: cp.async
# PLAIN: ret;

# The kernel writes the array that it would copy ahead.
@ty.jit
def updated(a, b, N, K, BM: tl.constexpr, BK: tl.constexpr):
    m, k = tl.arange(0, BM), tl.arange(0, BK)
    for i in range(0, K):
        x = tl.load(a + (i * BM + m[:, None]) * BK + k[None, :])
        y = tl.trans(tl.load(a + (i * BM + BM + m[:, None]) * BK + k[None, :]))
        z = tl.dot(x, y)
        tl.store(a + ((i + 1) * BM + m[:, None]) * BM + m[None, :], z.to(tl.bfloat16))


# The loaded tile is needed in registers too.
@ty.jit
def used_twice(a, c, sums, K, BM: tl.constexpr, BK: tl.constexpr):
    m, k = tl.arange(0, BM), tl.arange(0, BK)
    acc, total = tl.zeros((BM, BM), tl.float32), tl.zeros((BM,), tl.float32)
    for i in range(0, K):
        x = tl.load(a + (i * BM + m[:, None]) * BK + k[None, :])
        acc = tl.dot(x, tl.trans(x), acc)
        total += tl.sum(x.to(tl.float32), axis=1)
    tl.store(c + m[:, None] * BM + m[None, :], acc)
    tl.store(sums + m, total)


# Copies fill with 0 only.
@ty.jit
def filled(a, c, K, BM: tl.constexpr, BK: tl.constexpr):
    m, k = tl.arange(0, BM), tl.arange(0, BK)
    acc = tl.zeros((BM, BM), tl.float32)
    for i in range(0, K):
        x = tl.load(a + (i * BM + m[:, None]) * BK + k[None, :], mask=k[None, :] < K, other=1.0)
        acc = tl.dot(x, tl.trans(x), acc)
    tl.store(c + m[:, None] * BM + m[None, :], acc)


# Where a tile lies is known only when its index has been loaded.
@ty.jit
def indexed(a, index, c, K, BM: tl.constexpr, BK: tl.constexpr):
    m, k = tl.arange(0, BM), tl.arange(0, BK)
    acc = tl.zeros((BM, BM), tl.float32)
    for i in range(0, K):
        at = tl.load(index + i)
        x = tl.load(a + (at * BM + m[:, None]) * BK + k[None, :])
        acc = tl.dot(x, tl.trans(x), acc)
    tl.store(c + m[:, None] * BM + m[None, :], acc)


# An atomic orders what comes after it.
@ty.jit
def locked(a, count, c, K, BM: tl.constexpr, BK: tl.constexpr):
    m, k = tl.arange(0, BM), tl.arange(0, BK)
    acc = tl.zeros((BM, BM), tl.float32)
    for i in range(0, K):
        tl.atomic_add(count, 1)
        x = tl.load(a + (i * BM + m[:, None]) * BK + k[None, :])
        acc = tl.dot(x, tl.trans(x), acc)
    tl.store(c + m[:, None] * BM + m[None, :], acc)


# What a loop says of its stages goes before the launch's: one copy ahead, then none.
# LOOPS: cp.async.wait_group 0;
# LOOPS: cp.async.commit_group;
# LOOPS-NOT: cp.async
# LOOPS: ret;
@ty.jit
def two_and_one(a, c, K, BM: tl.constexpr, BK: tl.constexpr):
    m, k = tl.arange(0, BM), tl.arange(0, BK)
    acc = tl.zeros((BM, BM), tl.float32)
    for i in tl.range(0, K, num_stages=2):
        x = tl.load(a + (i * BM + m[:, None]) * BK + k[None, :])
        acc = tl.dot(x, tl.trans(x), acc)
    tl.store(c + m[:, None] * BM + m[None, :], acc)
    for i in tl.range(0, K, num_stages=1):
        x = tl.load(a + (i * BM + m[:, None]) * BK + k[None, :])
        acc = tl.dot(x, tl.trans(x), acc)
    tl.store(c + BM * BM + m[:, None] * BM + m[None, :], acc)
