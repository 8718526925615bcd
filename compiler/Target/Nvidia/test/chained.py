# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
# RUN: %tilery compile %s -f chained -s "*bf16:16, *bf16:16, *bf16:16, *fp32:16, i32, i32:16, 128, 128, 64" -O num_warps=8 -O num_stages=2 -t sm_90a -e simt | FileCheck %s
import tilery as ty
import tilery.language as tl


# The second product of an iteration runs while the first one of the next is turned into weights: both
# are started before either is waited for. No iteration, one and several are told apart.
# CHECK: simt.roles producer {
# CHECK: scf.for
# CHECK: simt.produce [[KEYS:[0-9]+]] maps
# CHECK: simt.produce [[VALUES:[0-9]+]] maps
# CHECK: } consumer {
# CHECK: scf.if
# CHECK: simt.consume [[KEYS]]
# CHECK-NEXT: simt.transposed
# CHECK-NEXT: simt.async_dot
# CHECK-NEXT: simt.dot_wait 0
# CHECK-NEXT: simt.release [[KEYS]], 0
# CHECK: math.exp2
# CHECK: scf.for
# CHECK: simt.consume [[KEYS]]
# CHECK: simt.async_dot
# CHECK: simt.consume [[VALUES]]
# CHECK: simt.async_dot
# CHECK-NEXT: simt.dot_wait 1
# CHECK-NEXT: simt.release [[KEYS]], 0
# CHECK: math.exp2
# CHECK: simt.dot_wait 0
# CHECK-NEXT: simt.release [[VALUES]], 0
# CHECK: scf.yield
# CHECK: simt.consume [[VALUES]]
# CHECK: simt.async_dot
# CHECK-NEXT: simt.dot_wait 0
# CHECK-NEXT: simt.release [[VALUES]], 0
@ty.jit
def chained(q, k, v, out, n, stride, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    m, d = tl.arange(0, BM), tl.arange(0, D)
    x = tl.load(q + m[:, None] * stride + d[None, :])
    acc = tl.zeros((BM, D), tl.float32)
    for start in range(0, n, BN):
        rows = start + tl.arange(0, BN)
        y = tl.load(k + rows[:, None] * stride + d[None, :], mask=rows[:, None] < n, other=0.0)
        z = tl.load(v + rows[:, None] * stride + d[None, :], mask=rows[:, None] < n, other=0.0)
        weights = tl.exp2(tl.dot(x, tl.trans(y)))
        acc = tl.dot(weights.to(tl.bfloat16), z, acc)
    tl.store(out + m[:, None] * D + d[None, :], acc)
