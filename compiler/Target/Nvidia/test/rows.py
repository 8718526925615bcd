# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
# Rows that fill a multiprocessor: what the rows have in common stays, a row is read again from its slot.
# RUN: %tilery compile %s -f norm -s "*bf16:16, *bf16:16, *bf16:16, *bf16:16, i32, 32768" -O num_warps=32 -t sm_90a -e simt | FileCheck %s
# RUN: %tilery compile %s -f norm -s "*bf16:16, *bf16:16, *bf16:16, *bf16:16, i32, 4096" -O num_warps=4 -t sm_90a -e simt | FileCheck %s --check-prefix=SMALL
# RUN: %tilery compile %s -f norm -s "*bf16:16, *bf16:16, *bf16:16, *bf16:16, i32, 32768" -O num_warps=32 -t sm_90a -e ptx | FileCheck %s --check-prefix=PTX
import tilery as ty
import tilery.language as tl


# Bias has one slot, rows two; the weight stays packed in registers.
# CHECK: %[[WEIGHT:.*]] = core.load
# CHECK: %[[SLOTS:.*]]:2 = simt.alloc_slots : !simt.slots<2 of 32768xbf16, 0, 0, 0>, !simt.slots<1 of 32768xbf16
# CHECK: simt.copy_slot %[[SLOTS]]#1
# CHECK: simt.copy_slot %[[SLOTS]]#0
# CHECK: scf.for
# CHECK: simt.read_slot %[[SLOTS]]#0
# CHECK: core.reduce
# CHECK: simt.read_slot %[[SLOTS]]#0
# CHECK: arith.extf
# CHECK: arith.subf
# CHECK: core.reduce
# CHECK: simt.read_slot %[[SLOTS]]#0
# CHECK: simt.keep_words %[[WEIGHT]]
# CHECK: simt.read_slot %[[SLOTS]]#1
# Registers have room for a small row and what it is multiplied by: all of it is read once.
# SMALL: scf.for
# SMALL: simt.read_slot
# SMALL-NOT: simt.read_slot %{{[0-9]+}}#0
# SMALL-NOT: simt.keep_words
# PTX: mov.b32 %r{{[0-9]+}}, %r{{[0-9]+}};
@ty.jit
def norm(x, weight, bias, y, rows, N: tl.constexpr):
    at = tl.arange(0, N)
    w = tl.load(weight + at)
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=3):
        v = tl.load(x + row * N + at).to(tl.float32)
        delta = v - tl.sum(v, axis=0) / N
        scale = tl.rsqrt(tl.sum(delta * delta, axis=0) / N)
        tl.store(y + row * N + at, delta * scale * w.to(tl.float32) + tl.load(bias + at).to(tl.float32))
