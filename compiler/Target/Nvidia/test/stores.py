# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
# Results of products leave through shared memory: by tensor map to arrays of this rank, by warps
# that carry rows to peers.
# RUN: %tilery compile %s -f store -s "*bf16:16, *bf16:16, *bf16:16, i32:16, i32:16, i32, False" -O num_warps=4 -t sm_90a -e ptx | FileCheck %s
# RUN: %tilery compile %s -f store -s "*fp16:16, *fp16:16, *fp32:16, i32:16, i32:8, i32, True" -O num_warps=4 -t sm_90a -e ptx | FileCheck %s --check-prefix=WIDE
# RUN: %tilery compile %s -f store -s "*bf16:16, *bf16:16, *bf16:16, i32:16, i32, i32, False" -O num_warps=4 -t sm_90a -e ptx | FileCheck %s --check-prefix=PLAIN
# RUN: %tilery compile %s -f send -s "*bf16:16, *bf16:16, symm *bf16:16, signal, i32:16, i32:16, i32, i32" -O num_warps=4 -t sm_90a -e ptx | FileCheck %s --check-prefix=SEND
# RUN: %tilery compile %s -f send -s "*bf16:16, *bf16:16, symm *bf16:16, signal, i32:16, i32:16, i32, i32" -O num_warps=4 -t sm_90a -e ptx | FileCheck %s --check-prefix=CARRY
# RUN: %tilery compile %s -f tell -s "*bf16:16, *bf16:16, *bf16:16, *bf16:16, signal, i32:16, i32:16, i32, i32" -O num_warps=4 -t sm_90a -e ptx | FileCheck %s --check-prefix=TELL
# RUN: %tilery compile %s -f again -s "*bf16:16, *bf16:16, *bf16:16, i32:16, i32:16" -O num_warps=4 -t sm_90a -e ptx | FileCheck %s --check-prefix=AGAIN
# RUN: %tilery compile %s -f before -s "*bf16:16, *bf16:16, *bf16:16, i32:16, i32:16, i32, i32" -O num_warps=4 -t sm_90a -e ptx | FileCheck %s --check-prefix=BEFORE
# RUN: %tilery compile %s -f turned -s "*bf16:16, *bf16:16, *bf16:16, i32:16" -O num_warps=8 -O num_stages=3 -t sm_90a -e ptx | FileCheck %s --check-prefix=TURNED
import tilery as ty
import tilery.language as tl
import tilery.language.device as dl


@ty.jit
def product(a, b, K):
    m = tl.arange(0, 64)
    n = tl.arange(0, 128)
    acc = tl.zeros((64, 128), tl.float32)
    for k in range(0, K, 64):
        depth = k + m
        acc = tl.dot(tl.load(a + m[:, None] * K + depth[None, :]),
                     tl.load(b + n[:, None] * K + depth[None, :]).T, acc)
    return acc


# A warp writes its matrices, lets copies see them, and one lane starts the copy, which leaves out what is
# outside of the array. The copies of a tile are done before the kernel ends.
# CHECK: wgmma.mma_async
# CHECK: cp.async.bulk.wait_group.read 0;
# CHECK-NEXT: bar.warp.sync
# CHECK: stmatrix.sync.aligned.m8n8.x4.shared.b16
# CHECK: fence.proxy.async.shared::cta;
# CHECK-NEXT: bar.warp.sync
# CHECK: elect.sync
# CHECK: @p cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group
# CHECK: cp.async.bulk.commit_group;
# CHECK-NOT: st.global
# CHECK: cp.async.bulk.wait_group 0;
# CHECK: ret;

# Wider elements go in pairs; a condition for the whole tile decides whether the copy starts.
# WIDE: wgmma.mma_async
# WIDE: st.shared.v2.b32
# WIDE: setp.ne.and.b32 p, {{.*}}, 0, one;
# WIDE: @p cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group

# Rows that are not aligned keep the plain stores.
# PLAIN: wgmma.mma_async
# PLAIN-NOT: cp.async.bulk.tensor.2d.global
# PLAIN: st.global
@ty.jit
def store(a, b, out, K, N, M, CONDITION: tl.constexpr):
    acc = product(a, b, K)
    m = tl.program_id(0) * 64 + tl.arange(0, 64)
    n = tl.program_id(1) * 128 + tl.arange(0, 128)
    inside = (m < M)[:, None] & (n < N)[None, :]
    if CONDITION:
        inside = inside & (tl.load(a) > 0.0)
    tl.store(out + m[:, None] * N + n[None, :], acc.to(out.dtype.element_ty), mask=inside)


# A warp posts where its rows are and where they go. Before the signal is released all is where it goes.
# SEND: wgmma.mma_async
# SEND: stmatrix
# SEND-NOT: st.global
# SEND-NOT: cp.async.bulk.global
# SEND: fence.proxy.async.shared::cta;
# SEND-NEXT: bar.warp.sync
# SEND: mbarrier.arrive
# SEND: mbarrier.try_wait.parity
# SEND: bar.sync 1, 128;
# SEND: fence.acq_rel.sys;
# SEND: {{(st|red|atom)\.relaxed\.sys}}

# Warps that compute nothing have the rows copied, a few at a time, and say when that is done.
# CARRY: mbarrier.try_wait.parity
# CARRY: elect.sync
# CARRY: cp.async.bulk.global.shared::cta.bulk_group
# CARRY: cp.async.bulk.wait_group.read 1;
# CARRY: cp.async.bulk.wait_group 0;
# CARRY: bar.warp.sync
# CARRY: mbarrier.arrive
@ty.jit
def send(a, b, out, ready, K, N, peer, rows):
    acc = product(a, b, K)
    m = tl.arange(0, 64)
    n = tl.arange(0, 128)
    tl.store(dl.symm_at(out, peer) + m[:, None] * N + n[None, :], acc.to(tl.bfloat16),
             mask=(m < rows)[:, None] & (n < N)[None, :])
    dl.notify(ready, peer, signal=1)


# An array may be another rank's, who is told when copies into it are complete, not when what they read is free.
# TELL: wgmma.mma_async
# TELL: cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group
# TELL: bar.sync 1, 128;
# TELL: cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group
# TELL: cp.async.bulk.commit_group;
# TELL-NOT: st.relaxed.sys
# TELL: cp.async.bulk.wait_group 0;
# TELL-NOT: st.relaxed.sys
# TELL: bar.sync 1, 128;
# TELL: fence.acq_rel.sys;
# TELL: {{(st|red|atom)\.relaxed\.sys}}
@ty.jit
def tell(a, b, out, theirs, ready, K, N, M, peer):
    acc = product(a, b, K)
    m = tl.program_id(0) * 64 + tl.arange(0, 64)
    n = tl.arange(0, 128)
    inside = (m < M)[:, None] & (n < N)[None, :]
    tl.store(out + m[:, None] * N + n[None, :], acc.to(tl.bfloat16), mask=inside)
    tl.store(theirs + m[:, None] * N + n[None, :], acc.to(tl.bfloat16), mask=inside)
    dl.notify(ready, peer, signal=1)


# What is loaded after it was stored is there: the copies are complete before the threads meet. Copies come
# behind stores to the same array.
# AGAIN: fence.proxy.async;
# AGAIN: cp.async.bulk.tensor.2d.global
# AGAIN: cp.async.bulk.wait_group 0;
# AGAIN: bar.sync 1, 128;
# AGAIN: ld.global
@ty.jit
def again(a, b, out, K, N):
    acc = product(a, b, K)
    m = tl.arange(0, 64)
    n = tl.arange(0, 128)
    tl.store(out + m[:, None] * N + n[None, :], acc.to(tl.bfloat16))
    tl.store(out + 64 * N + n, tl.load(out + n * N))


# A bulk store that starts before the array is an illegal instruction: such boxes leave by their elements.
# BEFORE: wgmma.mma_async
# BEFORE: st.global.b16
# BEFORE: fence.proxy.async;
# BEFORE: cp.async.bulk.tensor.2d.global
# BEFORE: ret;
@ty.jit
def before(a, b, out, K, N, M, first):
    acc = product(a, b, K)
    m = tl.program_id(0) * 64 + tl.arange(0, 64) - first
    n = tl.arange(0, 128)
    inside = ((m >= 0) & (m < M))[:, None] & (n < N)[None, :]
    tl.store(out + m[:, None] * N + n[None, :], acc.to(tl.bfloat16), mask=inside)


# Where the stage leaves no room for what the kernel exchanges, the stores stay, not the ring.
# TURNED-NOT: cp.async.bulk.tensor.2d.global
# TURNED: wgmma.mma_async
# TURNED-NOT: cp.async.bulk.tensor.2d.global
# TURNED: ret;
@ty.jit
def turned(a, b, out, K):
    m = tl.arange(0, 128)
    n = tl.arange(0, 256)
    acc = tl.zeros((128, 256), tl.float32)
    for k in range(0, K, 64):
        depth = k + tl.arange(0, 64)
        acc = tl.dot(tl.load(a + m[:, None] * K + depth[None, :]),
                     tl.load(b + n[:, None] * K + depth[None, :]).T, acc)
    tl.store(out + n[:, None] * 128 + m[None, :], tl.trans(acc.to(tl.bfloat16)))
    tl.store(out + 32768 + m[:, None] * 256 + n[None, :], acc.to(tl.bfloat16))
