// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Kernels for each driver that loads code: cts_count(out, first) writes first + i to out[i], 32-bit
// numbers, where i counts the program instances, x fastest. cts_spin(flag, limit) ends when the
// 32-bit number at `flag` is not 0, or after `limit` nanoseconds.
#pragma once

#include <string_view>

namespace tilery::rt::hal {

inline constexpr std::string_view PtxCount = R"(.version 8.0
.target sm_80
.address_size 64
.visible .entry cts_count(
  .param .u64 cts_count_out,
  .param .u32 cts_count_first
)
{
  .reg .b32 %r<9>;
  .reg .b64 %rd<5>;
  ld.param.u64 %rd1, [cts_count_out];
  ld.param.u32 %r1, [cts_count_first];
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %ctaid.y;
  mov.u32 %r4, %ctaid.z;
  mov.u32 %r5, %nctaid.x;
  mov.u32 %r6, %nctaid.y;
  mad.lo.s32 %r7, %r4, %r6, %r3;
  mad.lo.s32 %r7, %r7, %r5, %r2;
  add.s32 %r8, %r7, %r1;
  cvta.to.global.u64 %rd2, %rd1;
  mul.wide.s32 %rd3, %r7, 4;
  add.s64 %rd4, %rd2, %rd3;
  st.global.u32 [%rd4], %r8;
  ret;
}
)";

inline constexpr std::string_view PtxSpin = R"(.version 8.0
.target sm_80
.address_size 64
.visible .entry cts_spin(
  .param .u64 cts_spin_flag,
  .param .u64 cts_spin_limit
)
{
  .reg .pred %p<3>;
  .reg .b32 %r<2>;
  .reg .b64 %rd<7>;
  ld.param.u64 %rd1, [cts_spin_flag];
  ld.param.u64 %rd2, [cts_spin_limit];
  cvta.to.global.u64 %rd3, %rd1;
  mov.u64 %rd4, %globaltimer;
AGAIN:
  ld.volatile.global.u32 %r1, [%rd3];
  setp.ne.u32 %p1, %r1, 0;
  @%p1 bra DONE;
  mov.u64 %rd5, %globaltimer;
  sub.u64 %rd6, %rd5, %rd4;
  setp.lt.u64 %p2, %rd6, %rd2;
  @%p2 bra AGAIN;
DONE:
  ret;
}
)";

inline std::string_view spinningKernel(std::string_view driver) {
  return driver == "cuda" ? PtxSpin : "";
}

inline std::string_view countingKernel(std::string_view driver) {
  return driver == "cuda" ? PtxCount : "";
}

} // namespace tilery::rt::hal
