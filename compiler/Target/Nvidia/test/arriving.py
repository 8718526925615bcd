# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
# Products of what peers send: the copying warps wait for the signals themselves, and what they wait for
# does not count as order for bulk copies without a fence between the proxies.
# RUN: %tilery compile %s -f arriving -s "symm *bf16:16, signal, *bf16:16, *fp32:16, i32:16, i32, 64" -t sm_90a -O num_warps=4 -e ptx | FileCheck %s
# RUN: %tilery compile %s -f met -s "symm *bf16:16, *bf16:16, *fp32:16, i32:16, 64" -t sm_90a -O num_warps=4 -e ptx | FileCheck %s --check-prefix=MET
# RUN: %tilery compile %s -f written -s "symm *bf16:16, signal, *bf16:16, *fp32:16, i32:16, 64" -t sm_90a -O num_warps=4 -e ptx | FileCheck %s --check-prefix=MET
# RUN: %tilery compile %s -f drawn -s "*bf16:16, *i32, *bf16:16, *fp32:16, i32:16, 64" -t sm_90a -O num_warps=4 -e ptx | FileCheck %s --check-prefix=MET
import tilery as ty
import tilery.language as tl
import tilery.language.device as dl


@ty.jit
def product(a, b, K, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    for k in range(0, K, BLOCK):
        acc = tl.dot(tl.load(a + i[:, None] * K + k + i[None, :]),
                     tl.load(b + i[:, None] * K + k + i[None, :]).T, acc)
    return acc


@ty.jit
def put(out, acc, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i[:, None] * BLOCK + i[None, :], acc)


# The others wait, too, for what they load themselves, and meet; the copying warp does not.
# CHECK: ld.acquire.sys{{.*}}b64
# CHECK: bar.red.or.pred
# CHECK: wgmma.mma_async
# CHECK: ld.acquire.sys{{.*}}b64
# CHECK-NOT: bar.{{sync|red}}
# CHECK: bar.warp.sync
# CHECK-NEXT: fence.proxy.async;
# CHECK-NOT: bar.
# CHECK: cp.async.bulk.tensor
@ty.jit
def arriving(a, ready, b, out, K, chunks, BLOCK: tl.constexpr):
    for chunk in range(chunks):
        dl.wait(ready + chunk)
        put(out + chunk * BLOCK * BLOCK, product(a + chunk * BLOCK * K, b, K, BLOCK), BLOCK)


# A barrier is the consumer's alone, so that nothing may be copied before it.
# MET-NOT: cp.async.bulk
# MET-NOT: wgmma
# MET: mma.sync
@ty.jit
def met(a, b, out, K, BLOCK: tl.constexpr):
    dl.barrier_all()
    put(out, product(a, b, K, BLOCK), BLOCK)


# What the instance itself sends to the array, perhaps to its own rank.
@ty.jit
def written(a, ready, b, out, K, BLOCK: tl.constexpr):
    dl.put_signal(a, b, BLOCK * K, 0, ready)
    put(out, product(a, b, K, BLOCK), BLOCK)


# A counter may be drawn from only once.
@ty.jit
def drawn(a, counter, b, out, K, BLOCK: tl.constexpr):
    tile = tl.atomic_add(counter, 1)
    put(out + tile * BLOCK * BLOCK, product(a + tile * BLOCK * K, b, K, BLOCK), BLOCK)
