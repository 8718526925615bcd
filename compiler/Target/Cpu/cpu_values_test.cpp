// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Element types, layouts of products, and calls of the runtime, on compiled kernels.
#include "compiler/Target/Cpu/kernel_harness.h"
#include "compiler/Target/Cpu/tile_text.h"

#include <cmath>
#include <gtest/gtest.h>

using namespace tilery::cpu;

namespace {

class CpuValues : public testing::TestWithParam<const char *> {};
INSTANTIATE_TEST_SUITE_P(Targets, CpuValues, testing::Values("native", "avx2"));

TEST_P(CpuValues, DotWithTransposedOperand) {
  for (std::string type : {"f32", "f16", "bf16"}) {
    std::string body = type == "f32" ? "%h = core.hint %t : tensor<32x64xf32>"
                                     : "%h = arith.truncf %t : tensor<32x64xf32> to tensor<32x64x$T>";
    body += R"(
      %tr = core.trans %h [1, 0] : tensor<32x64x$T> -> tensor<64x32x$T>
      %one = arith.constant dense<1.0> : tensor<32x32xf32>
      %r = core.dot %h, %tr, %one, ieee : tensor<32x64x$T>, tensor<64x32x$T>, tensor<32x32xf32>)";
    for (size_t at; (at = body.find("$T")) != std::string::npos;)
      body.replace(at, 2, type);
    HarnessKernel kernel(tileKernel(32, 64, body, "32x32xf32"), GetParam());
    std::vector<float> x = ramp(32 * 64, 0.5f), out(32 * 32);
    for (float &value : x) // exact in every type
      value = std::nearbyint(value);
    kernel(x.data(), out.data());
    for (int i = 0; i < 32; ++i)
      for (int j = 0; j < 32; ++j) {
        float sum = 1;
        for (int k = 0; k < 64; ++k)
          sum += x[i * 64 + k] * x[j * 64 + k];
        ASSERT_EQ(out[i * 32 + j], sum) << type << " " << i << " " << j;
      }
  }
}

TEST_P(CpuValues, BatchedIntegerDot) {
  HarnessKernel kernel(R"(
    func.func @dot(%x: !core.ptr<i8>, %out: !core.ptr<i32>) attributes {core.kernel} {
      %i = core.range 0, 512 : tensor<512xi32>
      %xs = core.splat %x : !core.ptr<i8> -> tensor<512x!core.ptr<i8>>
      %xp = core.addptr %xs, %i : tensor<512x!core.ptr<i8>>, tensor<512xi32>
      %f = core.load %xp : tensor<512x!core.ptr<i8>> -> tensor<512xi8>
      %a = core.reshape %f : tensor<512xi8> -> tensor<2x16x16xi8>
      %b = core.trans %a [0, 2, 1] : tensor<2x16x16xi8> -> tensor<2x16x16xi8>
      %zero = arith.constant dense<0> : tensor<2x16x16xi32>
      %r = core.dot %a, %b, %zero, ieee : tensor<2x16x16xi8>, tensor<2x16x16xi8>, tensor<2x16x16xi32>
      %rf = core.reshape %r : tensor<2x16x16xi32> -> tensor<512xi32>
      %os = core.splat %out : !core.ptr<i32> -> tensor<512x!core.ptr<i32>>
      %op = core.addptr %os, %i : tensor<512x!core.ptr<i32>>, tensor<512xi32>
      core.store %op, %rf : tensor<512x!core.ptr<i32>>, tensor<512xi32>
      return
    })", GetParam());
  std::vector<int8_t> x(512);
  for (int i = 0; i < 512; ++i)
    x[i] = int8_t(i * 37);
  std::vector<int32_t> out(512);
  kernel(x.data(), out.data());
  for (int b = 0; b < 2; ++b)
    for (int i = 0; i < 16; ++i)
      for (int j = 0; j < 16; ++j) {
        int32_t sum = 0;
        for (int k = 0; k < 16; ++k)
          sum += x[b * 256 + i * 16 + k] * x[b * 256 + j * 16 + k];
        ASSERT_EQ(out[b * 256 + i * 16 + j], sum);
      }
}

TEST_P(CpuValues, HalfSumsAreRoundedOnce) {
  HarnessKernel kernel(tileKernel(1, 256, R"(
    %h = arith.truncf %t : tensor<1x256xf32> to tensor<1x256xf16>
    %r = core.reduce %h axis 1 : tensor<1x256xf16> -> tensor<1xf16> {
    ^bb0(%a: f16, %b: f16):
      %s = arith.addf %a, %b : f16
      core.yield %s : f16
    })", "1xf16"), GetParam());
  std::vector<float> x(256, 1.0f);
  x[0] = 2048; // in fp16, 2048 + 1 is 2048
  uint16_t out = 0;
  kernel(x.data(), &out);
  EXPECT_EQ(out, 0x6880); // 2303, to even: 2304 = 0x1.2p11
}

TEST_P(CpuValues, Bf16RoundsToNearestEven) {
  HarnessKernel kernel(tileKernel(1, 16, R"(
    %r = arith.truncf %t : tensor<1x16xf32> to tensor<1x16xbf16>)", "1x16xbf16"), GetParam());
  std::vector<uint32_t> bits = {0x3f808000, 0x3f818000, 0x3f808001, 0x7f7fffff,
                                0x7f800000, 0xff800000, 0x7f800001, 0x00000001,
                                0x00008000, 0x00018000, 0x80000000, 0x3f800000,
                                0x00400000, 0x80400001, 0x7fc00000, 0xffffffff};
  std::vector<uint16_t> want = {0x3f80, 0x3f82, 0x3f81, 0x7f80, 0x7f80, 0xff80, 0,      0x0000,
                                0x0000, 0x0002, 0x8000, 0x3f80, 0x0040, 0x8040, 0,      0};
  std::vector<uint16_t> out(16);
  kernel(bits.data(), out.data());
  for (int i = 0; i < 16; ++i) {
    if ((bits[i] & 0x7fffffff) > 0x7f800000)
      EXPECT_TRUE(std::isnan(toFloat(out[i]))) << i;
    else
      EXPECT_EQ(out[i], want[i]) << i;
  }
}

TEST_P(CpuValues, RoutedRemoteStores) {
  HarnessKernel kernel(R"(
    func.func @push(%x: !device.symm<f32>, %rank: i32, %n: i32) attributes {core.kernel} {
      %p = device.symm_at %x, %rank : <f32> -> <f32, remote>
      %i = core.range 0, 16 : tensor<16xi32>
      %ps = core.splat %p : !core.ptr<f32, remote> -> tensor<16x!core.ptr<f32, remote>>
      %pp = core.addptr %ps, %i : tensor<16x!core.ptr<f32, remote>>, tensor<16xi32>
      %ns = core.splat %n : i32 -> tensor<16xi32>
      %m = arith.cmpi slt, %i, %ns : tensor<16xi32>
      %v = arith.sitofp %i : tensor<16xi32> to tensor<16xf32>
      core.store %pp, %v mask %m : tensor<16x!core.ptr<f32, remote>>, tensor<16xf32>, tensor<16xi1>
      return
    })", GetParam());
  EXPECT_TRUE(kernel.code.kernels[0].communicates);
  static int calls;
  calls = 0;
  kernel.api.symm_at = [](tilery_instance *, void *local, int32_t rank, int32_t) -> void * {
    return static_cast<float *>(local) + 16 * rank;
  };
  kernel.api.remote_store = [](tilery_instance *, const uint64_t *addresses, const void *values,
                               const uint8_t *mask, int64_t count, int32_t bytes, int32_t) {
    ++calls;
    for (int64_t i = 0; i < count; ++i)
      if (!mask || mask[i])
        std::memcpy(reinterpret_cast<void *>(addresses[i]),
                    static_cast<const char *>(values) + i * bytes, size_t(bytes));
  };
  for (uint32_t flags : {0u, uint32_t(TILERY_INSTANCE_ROUTED)}) {
    std::vector<float> memory(32, -1.0f);
    kernel.instance.flags = flags;
    kernel(memory.data(), 1, 11);
    for (int i = 0; i < 32; ++i)
      EXPECT_EQ(memory[i], i >= 16 && i < 27 ? float(i - 16) : -1.0f) << i;
    EXPECT_EQ(calls > 0, flags != 0);
  }
}

TEST_P(CpuValues, PollingLoopYields) {
  HarnessKernel kernel(R"(
    func.func @spin(%flag: !core.ptr<i32>) attributes {core.kernel} {
      %one = arith.constant 1 : i32
      scf.while : () -> () {
        %v = core.load %flag : !core.ptr<i32> -> i32
        %wait = arith.cmpi ne, %v, %one : i32
        scf.condition(%wait)
      } do {
        scf.yield
      }
      return
    })", GetParam());
  EXPECT_TRUE(kernel.code.kernels[0].suspends);
  static int32_t flag, yields;
  flag = yields = 0;
  kernel.api.yield = [](tilery_instance *, int32_t) { flag = ++yields == 3; };
  kernel(&flag);
  EXPECT_EQ(yields, 3);
}

TEST_P(CpuValues, AssertAndPrint) {
  HarnessKernel kernel(R"(
    func.func @check(%x: i32) attributes {core.kernel} {
      %i = core.range 0, 8 : tensor<8xi32>
      %s = core.splat %x : i32 -> tensor<8xi32>
      %c = arith.cmpi slt, %i, %s : tensor<8xi32>
      core.assert %c, "index too large" : tensor<8xi1>
      core.print "values" %i, %x : tensor<8xi32>, i32 {isSigned = array<i1: true, true>}
      return
    })", GetParam());
  static std::string failure, prefix;
  static std::vector<int64_t> printed;
  failure.clear();
  printed.clear();
  kernel.api.fail = [](tilery_instance *, const char *message, int32_t) { failure = message; };
  kernel.api.print = [](tilery_instance *, const char *text, int32_t, const void *values,
                        const int64_t *shape, int32_t rank, int32_t, int32_t) {
    prefix = text;
    int64_t count = rank ? shape[0] : 1;
    for (int64_t i = 0; i < count; ++i)
      printed.push_back(static_cast<const int64_t *>(values)[i]);
  };
  kernel(8);
  EXPECT_EQ(failure, "");
  EXPECT_EQ(prefix, "values");
  EXPECT_EQ(printed, (std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8}));
  kernel(7);
  EXPECT_EQ(failure, "index too large");
}

TEST_P(CpuValues, OffsetsThatWrap) {
  // (start + range) % n: vector loads where a chunk does not wrap, gathers where it does.
  HarnessKernel kernel(R"(
    func.func @wrap(%x: !core.ptr<f32>, %out: !core.ptr<f32>, %start: i32, %n: i32)
        attributes {core.kernel} {
      %i = core.range 0, 64 : tensor<64xi32>
      %s = core.splat %start : i32 -> tensor<64xi32>
      %o = arith.addi %s, %i : tensor<64xi32>
      %ns = core.splat %n : i32 -> tensor<64xi32>
      %w = arith.remsi %o, %ns : tensor<64xi32>
      %xs = core.splat %x : !core.ptr<f32> -> tensor<64x!core.ptr<f32>>
      %xp = core.addptr %xs, %w : tensor<64x!core.ptr<f32>>, tensor<64xi32>
      %v = core.load %xp : tensor<64x!core.ptr<f32>> -> tensor<64xf32>
      %os = core.splat %out : !core.ptr<f32> -> tensor<64x!core.ptr<f32>>
      %op = core.addptr %os, %i : tensor<64x!core.ptr<f32>>, tensor<64xi32>
      core.store %op, %v : tensor<64x!core.ptr<f32>>, tensor<64xf32>
      return
    })", GetParam());
  for (auto [start, n] : {std::pair(0, 64), {5, 100}, {64, 100}, {90, 100}, {3, 7}, {0, 1}}) {
    std::vector<float> x = ramp(size_t(n)), out(64);
    kernel(x.data(), out.data(), start, n);
    for (int i = 0; i < 64; ++i)
      EXPECT_EQ(out[i], x[(start + i) % n]) << start << " " << n << " " << i;
  }
}

} // namespace
