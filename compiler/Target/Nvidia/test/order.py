# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
# Program order within an instance: what one thread stored another may load (language.md, section 4).
# RUN: %tilery compile %s -f turned -s "*fp32:16, *fp32:16, 256" -t sm_90a -e ptx | FileCheck %s --check-prefix=TURNED
# RUN: %tilery compile %s -f twice -s "*fp32:16, *fp32:16, i32, 256" -t sm_90a -e ptx | FileCheck %s --check-prefix=TWICE
# RUN: %tilery compile %s -f same -s "*fp32:16, *fp32:16, 256" -t sm_90a -e ptx | FileCheck %s --check-prefix=SAME
import tilery as ty
import tilery.language as tl


# TURNED: st.global
# TURNED: bar.sync 0;
# TURNED: ld.global
@ty.jit
def turned(x, y, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(x + at, at.to(tl.float32))
    tl.store(y + at, tl.load(x + (BLOCK - 1 - at)))


# The load of an iteration comes after the store of the one before.
# TWICE: $L__BB0_[[LOOP:[0-9]+]]:
# TWICE-DAG: bar.sync 0;
# TWICE-DAG: ld.global
# TWICE: bar.sync 0;
# TWICE: st.global
# TWICE: bra{{.*}} $L__BB0_[[LOOP]];
@ty.jit
def twice(x, y, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    for _ in range(n):
        v = tl.load(x + (BLOCK - 1 - at))
        tl.store(x + at, v)
    tl.store(y + at, tl.load(x + at))


# Each thread loads what it stored itself: no barrier.
# SAME-NOT: bar.sync
# SAME: ret;
@ty.jit
def same(x, y, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(x + at, tl.load(x + at) + 1)
    tl.store(y + at, tl.load(x + at))
