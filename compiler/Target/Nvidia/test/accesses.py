# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
# RUN: %tilery compile %s -f copy -s "*bf16:16, *bf16:16, i32:16, 1024" -t sm_90a -e ptx | FileCheck %s
# RUN: %tilery compile %s -f copy -s "*bf16:16, *bf16:16, i32:16, 1024" -t sm_80 -e ptx | FileCheck %s
# RUN: %tilery compile %s -f copy -s "*bf16, *bf16, i32, 1024" -t sm_90a -e ptx | FileCheck %s --check-prefix=NARROW
import tilery as ty
import tilery.language as tl


# 16 bytes a thread, also under a mask that is the same for all of them.
# CHECK: .visible .entry copy(
# CHECK: .reqntid 128
# CHECK-NOT: {{(ld|st)\.global\.(b|u)(8|16|32)}}
# CHECK: ld.global{{.*}}.v4.b32
# CHECK-NOT: {{(ld|st)\.global\.(b|u)(8|16|32)}}
# CHECK: st.global.v4.b32
# CHECK-NOT: {{(ld|st)\.global\.(b|u)(8|16|32)}}
# CHECK: ret;

# Nothing is promised: one element at a time.
# NARROW-NOT: .v4
# NARROW: ld.global.{{[bu]}}16
# NARROW-NOT: .v4
# NARROW: st.global.{{[bu]}}16
@ty.jit
def copy(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n), mask=at < n)
