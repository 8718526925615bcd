# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
# What an instance wrote is visible to whoever sees its signal.
# RUN: %tilery compile %s -f send -s "symm *fp32:16, signal, i32, i32, 256" -t sm_90a -e ptx | FileCheck %s --check-prefix=SEND
# RUN: %tilery compile %s -f receive -s "symm *fp32:16, signal, *fp32:16, 256" -t sm_90a -e ptx | FileCheck %s --check-prefix=RECEIVE
# RUN: %tilery compile %s -f loop -s "*fp32:16, *fp32:16, i32, 256" -t sm_90a -e ptx | FileCheck %s --check-prefix=LOOP
import tilery as ty
import tilery.language as tl
import tilery.language.device as dl


# The threads meet; then one of them orders all that it saw before the signal, for the whole system.
# SEND: st.global
# SEND: bar.sync 0;
# SEND: fence.acq_rel.sys;
# SEND: {{(st\.release\.sys|red\.release\.sys|atom\.release\.sys)}}
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


# Plain kernels have no fence at all.
# LOOP-NOT: {{fence|membar}}
# LOOP: ret;
@ty.jit
def loop(x, y, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    for i in range(n):
        v = tl.load(x + i * BLOCK + at)
        tl.store(y + i * BLOCK + at, v / tl.sum(v, axis=0))
