# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
# Tensor maps that the kernel makes: of bases, sizes and strides that it reads from memory.
# RUN: %tilery compile %s -f chosen -s "*bf16:16, *bf16:16, *bf16:16, *i64:16, *i32:16, i32, i32" -O num_warps=4 -t sm_90a -e simt | FileCheck %s --check-prefix=MADE
# RUN: %tilery compile %s -f chosen -s "*bf16:16, *bf16:16, *bf16:16, *i64:16, *i32:16, i32, i32" -O num_warps=4 -t sm_90a -e ptx | FileCheck %s --check-prefix=CODE
# RUN: %tilery compile %s -f walking -s "*bf16:16, *bf16:16, *bf16:16, *i64:16, i32" -O num_warps=4 -t sm_90a -e simt | FileCheck %s --check-prefix=WALKING
# RUN: %tilery compile %s -f chained -s "*bf16:16, *i64:16, i32" -O num_warps=4 -t sm_90a -e simt | FileCheck %s --check-prefix=CHAINED
import tilery as ty
import tilery.language as tl


# The weights of an expert: their base is what the kernel reads, and made once for each tile. Activations
# have a map of the launcher.
# MADE: simt.kernel_maps = 1
# MADE: producer
# MADE: [[BASE:%.*]] = core.hint {{.*}}divisibility = array<i32: 16>
# MADE: simt.make_map 0 of [[BASE]] extents {{.*}} bytes 2 box [64, 128] swizzle 128 rings [0] slots 0
# MADE: scf.for
# MADE-NOT: simt.make_map
# MADE: simt.produce 0 maps [-1, 0]
# MADE: consumer
# MADE-NOT: simt.make_map
# What was copied by the map before has come; the fields are written by one lane, and acquired.
# CODE-COUNT-3: mbarrier.try_wait.parity.shared::cta.b64
# CODE: st.shared.b32
# CODE: elect.sync
# CODE: tensormap.replace.tile.global_address.shared::cta.b1024.b64
# CODE: tensormap.replace.tile.rank.shared::cta.b1024.b32 [{{.*}}], 1;
# CODE: tensormap.replace.tile.elemtype.shared::cta.b1024.b32 [{{.*}}], 1;
# CODE: tensormap.replace.tile.swizzle_mode.shared::cta.b1024.b32 [{{.*}}], 3;
# CODE: tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [[[MAP:%.*]]], [{{.*}}], 128;
# CODE-NEXT: fence.proxy.tensormap::generic.acquire.gpu [[[MAP]]], 128;
@ty.jit
def chosen(x, weights, out, at, rows, tiles, K):
    a = tl.make_tensor_descriptor(x, [tiles * 64, K], [1024, 1], [64, 64])
    for tile in range(tl.program_id(0), tiles, tl.num_programs(0)):
        b = tl.make_tensor_descriptor(weights + tl.load(at + tile), [tl.load(rows + tile), K], [1024, 1],
                                      [128, 64])
        acc = tl.zeros((64, 128), tl.float32)
        for k in range(0, K, 64):
            acc = tl.dot(a.load([tile * 64, k]), b.load([0, k]).T, acc)
        tl.store(out + (tile * 64 + tl.arange(0, 64))[:, None] * 128 + tl.arange(0, 128)[None, :],
                 acc.to(tl.bfloat16))


# A map that every iteration would make anew is not worth it.
# WALKING-NOT: simt.roles
# WALKING: core.load
# WALKING: core.dot
@ty.jit
def walking(x, y, out, at, n):
    b = tl.make_tensor_descriptor(y, [64, 128], [128, 1], [64, 128])
    acc = tl.zeros((64, 128), tl.float32)
    for k in range(0, n):
        a = tl.make_tensor_descriptor(x + tl.load(at + k), [64, 64], [64, 1], [64, 64])
        acc = tl.dot(a.load([0, 0]), b.load([0, 0]), acc)
    tl.store(out + tl.arange(0, 64)[:, None] * 128 + tl.arange(0, 128)[None, :], acc.to(tl.bfloat16))


# What one product stores may be what the next one loads: their addresses come from one array.
# CHAINED-NOT: simt.roles
# CHAINED: core.dot
# CHAINED: core.store
@ty.jit
def chained(y, at, n):
    b = tl.make_tensor_descriptor(y, [64, 64], [64, 1], [64, 64])
    for i in range(0, n):
        a = tl.make_tensor_descriptor(tl.load(at + i).to(tl.pointer_type(tl.bfloat16)), [64, 64], [64, 1],
                                      [64, 64])
        c = tl.make_tensor_descriptor(tl.load(at + i + 1).to(tl.pointer_type(tl.bfloat16)), [64, 64],
                                      [64, 1], [64, 64])
        acc = tl.zeros((64, 64), tl.float32)
        for k in range(0, 64, 64):
            acc = tl.dot(a.load([0, k]), b.load([k, 0]), acc)
        c.store([0, 0], acc.to(tl.bfloat16))
