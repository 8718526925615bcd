// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Kernels in core IR, compiled, run, and compared with plain loops.
#include "compiler/Target/Cpu/kernel_harness.h"

#include <cmath>
#include <gtest/gtest.h>

using tilery::cpu::HarnessKernel;

namespace {

// Every kernel runs with the widest vectors of this machine and with AVX2.
class CpuExecution : public testing::TestWithParam<const char *> {};
INSTANTIATE_TEST_SUITE_P(Targets, CpuExecution, testing::Values("native", "avx2"));

std::vector<float> ramp(size_t count, float scale = 0.25f) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i)
    values[i] = scale * float(int((i * 37 + 11) % 101) - 50);
  return values;
}

TEST_P(CpuExecution, MaskedElementwise) {
  HarnessKernel kernel(R"(
    func.func @add(%x: !core.ptr<f32>, %y: !core.ptr<f32>, %out: !core.ptr<f32>, %n: i32)
        attributes {core.kernel} {
      %pid = core.program_id 0 : i32
      %c64 = arith.constant 64 : i32
      %start = arith.muli %pid, %c64 : i32
      %range = core.range 0, 64 : tensor<64xi32>
      %base = core.splat %start : i32 -> tensor<64xi32>
      %offsets = arith.addi %base, %range : tensor<64xi32>
      %limit = core.splat %n : i32 -> tensor<64xi32>
      %mask = arith.cmpi slt, %offsets, %limit : tensor<64xi32>
      %xs = core.splat %x : !core.ptr<f32> -> tensor<64x!core.ptr<f32>>
      %xp = core.addptr %xs, %offsets : tensor<64x!core.ptr<f32>>, tensor<64xi32>
      %a = core.load %xp mask %mask : tensor<64x!core.ptr<f32>>, tensor<64xi1> -> tensor<64xf32>
      %ys = core.splat %y : !core.ptr<f32> -> tensor<64x!core.ptr<f32>>
      %yp = core.addptr %ys, %offsets : tensor<64x!core.ptr<f32>>, tensor<64xi32>
      %b = core.load %yp mask %mask : tensor<64x!core.ptr<f32>>, tensor<64xi1> -> tensor<64xf32>
      %sum = arith.addf %a, %b : tensor<64xf32>
      %os = core.splat %out : !core.ptr<f32> -> tensor<64x!core.ptr<f32>>
      %op = core.addptr %os, %offsets : tensor<64x!core.ptr<f32>>, tensor<64xi32>
      core.store %op, %sum mask %mask : tensor<64x!core.ptr<f32>>, tensor<64xf32>, tensor<64xi1>
      return
    })", GetParam());
  const int n = 100;
  std::vector<float> x = ramp(n), y = ramp(n, 0.5f), out(128, -1.0f);
  for (int pid = 0; pid < 2; ++pid) {
    kernel.instance.program_id[0] = pid;
    kernel(x.data(), y.data(), out.data(), n);
  }
  for (int i = 0; i < n; ++i)
    EXPECT_EQ(out[i], x[i] + y[i]) << i;
  for (int i = n; i < 128; ++i)
    EXPECT_EQ(out[i], -1.0f) << i;
  EXPECT_FALSE(kernel.code.kernels[0].suspends);
  EXPECT_FALSE(kernel.code.kernels[0].communicates);
}

TEST_P(CpuExecution, LoopCarriedPointers) {
  // Sums n blocks of 32 elements; the pointer tile advances by 32 in each iteration.
  HarnessKernel kernel(R"(
    func.func @blocks(%x: !core.ptr<f32>, %out: !core.ptr<f32>, %n: i32)
        attributes {core.kernel} {
      %zero = arith.constant 0 : i32
      %one = arith.constant 1 : i32
      %c32 = arith.constant dense<32> : tensor<32xi32>
      %range = core.range 0, 32 : tensor<32xi32>
      %xs = core.splat %x : !core.ptr<f32> -> tensor<32x!core.ptr<f32>>
      %xp = core.addptr %xs, %range : tensor<32x!core.ptr<f32>>, tensor<32xi32>
      %init = arith.constant dense<0.0> : tensor<32xf32>
      %sum, %p = scf.for %i = %zero to %n step %one
          iter_args(%acc = %init, %ptrs = %xp) -> (tensor<32xf32>, tensor<32x!core.ptr<f32>>) : i32 {
        %a = core.load %ptrs : tensor<32x!core.ptr<f32>> -> tensor<32xf32>
        %s = arith.addf %acc, %a : tensor<32xf32>
        %next = core.addptr %ptrs, %c32 : tensor<32x!core.ptr<f32>>, tensor<32xi32>
        scf.yield %s, %next : tensor<32xf32>, tensor<32x!core.ptr<f32>>
      }
      %os = core.splat %out : !core.ptr<f32> -> tensor<32x!core.ptr<f32>>
      %op = core.addptr %os, %range : tensor<32x!core.ptr<f32>>, tensor<32xi32>
      core.store %op, %sum : tensor<32x!core.ptr<f32>>, tensor<32xf32>
      return
    })", GetParam());
  for (int n : {0, 1, 5}) {
    std::vector<float> x = ramp(32 * 5), out(32, -1.0f);
    kernel(x.data(), out.data(), n);
    for (int i = 0; i < 32; ++i) {
      float sum = 0;
      for (int block = 0; block < n; ++block)
        sum += x[32 * block + i];
      EXPECT_EQ(out[i], sum) << i;
    }
  }
}

} // namespace
