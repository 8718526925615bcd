# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
# What an instance wrote is visible to whoever sees its signal.
# RUN: %tilery compile %s -f send -s "symm *fp32:16, signal, i32, i32, 256" -t sm_90a -e ptx | FileCheck %s --check-prefix=SEND
# RUN: %tilery compile %s -f receive -s "symm *fp32:16, signal, *fp32:16, 256" -t sm_90a -e ptx | FileCheck %s --check-prefix=RECEIVE
# RUN: %tilery compile %s -f add -s "signal, i32, *fp32:16, *fp16:16, *i32:16, 256" -t sm_90a -e ptx | FileCheck %s --check-prefix=ADD
# RUN: %tilery compile %s -f loop -s "*fp32:16, *fp32:16, i32, 256" -t sm_90a -e ptx | FileCheck %s --check-prefix=LOOP
# RUN: %tilery compile %s -f last -s "*fp32:16, *i32:16, *fp32:16, i32, 256" -t sm_90a -e ptx | FileCheck %s --check-prefix=LAST
import tilery as ty
import tilery.language as tl
import tilery.language.device as dl


# The threads meet; then one of them orders all that it saw before the signal, for the whole system.
# SEND: st.global
# SEND: bar.sync 0;
# SEND: fence.acq_rel.sys;
# SEND: {{(st|red|atom)\.relaxed\.sys}}
@ty.jit
def send(data, ready, peer, value, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(dl.symm_at(data, peer) + at, at.to(tl.float32))
    dl.notify(ready, peer, signal=value)


# One thread polls with acquiring loads; the others may read only behind the barrier.
# RECEIVE: ld.acquire.sys{{.*}}b64
# RECEIVE: bar.red.or.pred
# RECEIVE: ld.global
@ty.jit
def receive(data, ready, out, BLOCK: tl.constexpr):
    dl.wait(ready)
    at = tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(data + at))


# Updates reach ranks on other devices: their scope is the system, that of others the device.
# ADD: fence.acq_rel.sys;
# ADD: atom.relaxed.sys.global.add.u64
# ADD: atom.relaxed.sys.global.add.f32
# ADD: atom.relaxed.sys.global.add.noftz.f16
# ADD: atom.relaxed.sys.global.exch.b32
# ADD: atom.global.max.s32
# ADD: fence.acq_rel.sys;
# ADD: atom.relaxed.sys.global.add.u64
@ty.jit
def add(ready, peer, x, y, z, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    dl.notify(ready, peer, sig_op="add")
    tl.atomic_add(x + at, 1.0, sem="relaxed", scope="sys")
    tl.atomic_add(y + at, at.to(tl.float16), sem="relaxed", scope="sys")
    tl.atomic_xchg(z + at, at, sem="relaxed", scope="sys")
    tl.atomic_max(z + at, at, sem="relaxed")
    dl.barrier_all()


# One thread orders for all: what they wrote before, and what they read once they know what it saw.
# LAST: st.global
# LAST: bar.sync 0;
# LAST: bra
# LAST: fence.acq_rel.gpu;
# LAST: atom.global.add.u32
# LAST-NEXT: fence.acq_rel.gpu;
# LAST: bar.sync 0;
# LAST-NOT: {{fence|bar.sync}}
# LAST: ld.shared
# LAST: ld.global
@ty.jit
def last(x, arrived, out, others, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(x + tl.program_id(0) * BLOCK + at, at.to(tl.float32))
    if tl.atomic_add(arrived, 1, sem="acq_rel", scope="gpu") == others:
        tl.store(out + at, tl.load(x + at))


# Plain kernels have no fence at all.
# LOOP-NOT: {{fence|membar}}
# LOOP: ret;
@ty.jit
def loop(x, y, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    for i in range(n):
        v = tl.load(x + i * BLOCK + at)
        tl.store(y + i * BLOCK + at, v / tl.sum(v, axis=0))
