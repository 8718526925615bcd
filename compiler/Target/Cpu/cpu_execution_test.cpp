// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Kernels in core IR, compiled, run, and compared with plain loops.
#include "compiler/Target/Cpu/kernel_harness.h"
#include "compiler/Target/Cpu/matmul_text.h"
#include "compiler/Target/Cpu/tile_text.h"

#include <cmath>
#include <gtest/gtest.h>

using namespace tilery::cpu;

namespace {

// Every kernel runs with the widest vectors of this machine and with AVX2.
class CpuExecution : public testing::TestWithParam<const char *> {};
INSTANTIATE_TEST_SUITE_P(Targets, CpuExecution, testing::Values("native", "avx2"));

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


TEST_P(CpuExecution, MatmulWithTails) {
  struct Case {
    int m, n, k, bm, bn, bk;
  };
  for (Case c : {Case{50, 70, 37, 32, 32, 16}, Case{3, 5, 2, 16, 16, 16}, Case{17, 33, 65, 4, 64, 8},
                 Case{9, 9, 9, 8, 8, 8}, Case{5, 3, 7, 1, 1, 1}, Case{6, 40, 12, 2, 4, 4}}) {
    HarnessKernel kernel(matmulText({c.bm, c.bn, c.bk}), GetParam());
    std::vector<float> a = ramp(size_t(c.m * c.k), 1), b = ramp(size_t(c.k * c.n), 1);
    std::vector<float> out(size_t(c.m * c.n + 1), -1.0f);
    for (int i = 0; i * c.bm < c.m; ++i)
      for (int j = 0; j * c.bn < c.n; ++j) {
        kernel.instance.program_id[0] = i;
        kernel.instance.program_id[1] = j;
        kernel(a.data(), b.data(), out.data(), c.m, c.n, c.k, c.k, c.n, c.n);
      }
    for (int i = 0; i < c.m; ++i)
      for (int j = 0; j < c.n; ++j) {
        float sum = 0; // integers: exact
        for (int k = 0; k < c.k; ++k)
          sum += a[i * c.k + k] * b[k * c.n + j];
        ASSERT_EQ(out[i * c.n + j], sum) << i << " " << j << " tile " << c.bm << "x" << c.bn;
      }
    EXPECT_EQ(out.back(), -1.0f);
  }
}

TEST_P(CpuExecution, Bf16Matmul) {
  for (int bk : {1, 2, 32}) {
    const int m = 20, n = 40, k = 50;
    HarnessKernel kernel(matmulText({16, 32, bk, "bf16", "bf16"}), GetParam());
    std::vector<uint16_t> a(m * k), b(k * n), out(m * n);
    auto small = [](int i) { // 0, 1, 2 or 3
      float value = float((i * 7) % 4);
      uint32_t bits;
      std::memcpy(&bits, &value, 4);
      return uint16_t(bits >> 16);
    };
    for (int i = 0; i < m * k; ++i)
      a[i] = small(i + i / 13);
    for (int i = 0; i < k * n; ++i)
      b[i] = small(i + i / 11);
    for (int i = 0; i < 2; ++i)
      for (int j = 0; j < 2; ++j) {
        kernel.instance.program_id[0] = i;
        kernel.instance.program_id[1] = j;
        kernel(a.data(), b.data(), out.data(), m, n, k, k, n, n);
      }
    for (int i = 0; i < m; ++i)
      for (int j = 0; j < n; ++j) {
        float sum = 0;
        for (int x = 0; x < k; ++x)
          sum += toFloat(a[i * k + x]) * toFloat(b[x * n + j]);
        // Sums below 256 are exact in bf16.
        ASSERT_LT(sum, 256.0f);
        ASSERT_EQ(toFloat(out[i * n + j]), sum) << i << " " << j;
      }
  }
}

TEST_P(CpuExecution, RowSoftmax) {
  HarnessKernel kernel(tileKernel(8, 64, R"(
    %max = core.reduce %t axis 1 : tensor<8x64xf32> -> tensor<8xf32> {
    ^bb0(%a: f32, %b: f32):
      %m = arith.maximumf %a, %b : f32
      core.yield %m : f32
    }
    %max2 = core.expand_dims %max, 1 : tensor<8xf32> -> tensor<8x1xf32>
    %maxB = core.broadcast %max2 : tensor<8x1xf32> -> tensor<8x64xf32>
    %d = arith.subf %t, %maxB : tensor<8x64xf32>
    %e = math.exp %d : tensor<8x64xf32>
    %sum = core.reduce %e axis 1 : tensor<8x64xf32> -> tensor<8xf32> {
    ^bb0(%a: f32, %b: f32):
      %m = arith.addf %a, %b : f32
      core.yield %m : f32
    }
    %sum2 = core.expand_dims %sum, 1 : tensor<8xf32> -> tensor<8x1xf32>
    %sumB = core.broadcast %sum2 : tensor<8x1xf32> -> tensor<8x64xf32>
    %r = arith.divf %e, %sumB : tensor<8x64xf32>)"), GetParam());
  std::vector<float> x = ramp(512), out(512);
  kernel(x.data(), out.data());
  for (int i = 0; i < 8; ++i) {
    double sum = 0, largest = -1e30;
    for (int j = 0; j < 64; ++j)
      largest = std::max<double>(largest, x[i * 64 + j]);
    for (int j = 0; j < 64; ++j)
      sum += std::exp(x[i * 64 + j] - largest);
    for (int j = 0; j < 64; ++j)
      EXPECT_NEAR(out[i * 64 + j], std::exp(x[i * 64 + j] - largest) / sum, 1e-7);
  }
}

TEST_P(CpuExecution, TransposeAndColumnReduction) {
  HarnessKernel transpose(tileKernel(32, 8, R"(
    %r = core.trans %t [1, 0] : tensor<32x8xf32> -> tensor<8x32xf32>)", "8x32xf32"),
                          GetParam());
  std::vector<float> x = ramp(256), out(256);
  transpose(x.data(), out.data());
  for (int i = 0; i < 32; ++i)
    for (int j = 0; j < 8; ++j)
      EXPECT_EQ(out[j * 32 + i], x[i * 8 + j]);
  HarnessKernel sum(tileKernel(32, 8, R"(
    %r = core.reduce %t axis 0 : tensor<32x8xf32> -> tensor<8xf32> {
    ^bb0(%a: f32, %b: f32):
      %m = arith.addf %a, %b : f32
      core.yield %m : f32
    })", "8xf32"), GetParam());
  sum(x.data(), out.data());
  for (int j = 0; j < 8; ++j) {
    float total = 0;
    for (int i = 0; i < 32; ++i)
      total += x[i * 8 + j];
    EXPECT_EQ(out[j], total);
  }
}

TEST_P(CpuExecution, ArgmaxTakesTheFirst) {
  HarnessKernel kernel(tileKernel(4, 128, R"(
    %j = core.range 0, 128 : tensor<128xi32>
    %j2 = core.expand_dims %j, 0 : tensor<128xi32> -> tensor<1x128xi32>
    %jb = core.broadcast %j2 : tensor<1x128xi32> -> tensor<4x128xi32>
    %v, %r = core.reduce %t, %jb axis 1 : tensor<4x128xf32>, tensor<4x128xi32> -> tensor<4xf32>, tensor<4xi32> {
    ^bb0(%a: f32, %ai: i32, %b: f32, %bi: i32):
      %gt = arith.cmpf ogt, %a, %b : f32
      %eq = arith.cmpf oeq, %a, %b : f32
      %lt = arith.cmpi slt, %ai, %bi : i32
      %tie = arith.andi %eq, %lt : i1
      %left = arith.ori %gt, %tie : i1
      %m = arith.select %left, %a, %b : f32
      %mi = arith.select %left, %ai, %bi : i32
      core.yield %m, %mi : f32, i32
    })", "4xi32"), GetParam());
  std::vector<float> x = ramp(512);
  x[70] = x[90] = 1000;
  std::vector<int32_t> out(4);
  kernel(x.data(), out.data());
  for (int i = 0; i < 4; ++i)
    EXPECT_EQ(out[i], std::max_element(&x[i * 128], &x[i * 128] + 128) - &x[i * 128]);
}

TEST_P(CpuExecution, Cumsum) {
  for (int axis : {0, 1})
    for (bool reverse : {false, true}) {
      HarnessKernel kernel(tileKernel(8, 16, R"(
        %r = core.scan %t axis )" + std::to_string(axis) + (reverse ? " {reverse}" : "") + R"( : tensor<8x16xf32> -> tensor<8x16xf32> {
        ^bb0(%a: f32, %b: f32):
          %m = arith.addf %a, %b : f32
          core.yield %m : f32
        })"), GetParam());
      std::vector<float> x = ramp(128), out(128);
      kernel(x.data(), out.data());
      for (int i = 0; i < 8; ++i)
        for (int j = 0; j < 16; ++j) {
          float sum = 0;
          for (int q = 0; q < (axis ? 16 : 8); ++q) {
            int here = axis ? j : i;
            if (reverse ? q >= here : q <= here)
              sum += axis ? x[i * 16 + q] : x[q * 16 + j];
          }
          EXPECT_EQ(out[i * 16 + j], sum);
        }
    }
}

TEST_P(CpuExecution, IfWhileAndSwappedTiles) {
  // Fibonacci-like exchange of two tiles; the tiles depend on each other.
  HarnessKernel kernel(tileKernel(1, 32, R"(
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %five = arith.constant 5 : i32
    %a, %b, %n = scf.while (%p = %t, %q = %t, %k = %zero)
        : (tensor<1x32xf32>, tensor<1x32xf32>, i32) -> (tensor<1x32xf32>, tensor<1x32xf32>, i32) {
      %go = arith.cmpi slt, %k, %five : i32
      scf.condition(%go) %p, %q, %k : tensor<1x32xf32>, tensor<1x32xf32>, i32
    } do {
    ^bb0(%p: tensor<1x32xf32>, %q: tensor<1x32xf32>, %k: i32):
      %s = arith.addf %p, %q : tensor<1x32xf32>
      %k1 = arith.addi %k, %one : i32
      scf.yield %q, %s, %k1 : tensor<1x32xf32>, tensor<1x32xf32>, i32
    }
    %c = arith.cmpi eq, %n, %five : i32
    %r = scf.if %c -> (tensor<1x32xf32>) {
      %m = arith.mulf %a, %b : tensor<1x32xf32>
      scf.yield %m : tensor<1x32xf32>
    } else {
      scf.yield %t : tensor<1x32xf32>
    })"), GetParam());
  std::vector<float> x = ramp(32), out(32);
  kernel(x.data(), out.data());
  for (int i = 0; i < 32; ++i) {
    float p = x[i], q = x[i];
    for (int k = 0; k < 5; ++k) {
      float s = p + q;
      p = q;
      q = s;
    }
    EXPECT_EQ(out[i], p * q);
  }
}

TEST_P(CpuExecution, AtomicsUnderAMask) {
  HarnessKernel kernel(R"(
    func.func @count(%x: !core.ptr<i32>, %n: i32) attributes {core.kernel} {
      %range = core.range 0, 16 : tensor<16xi32>
      %four = arith.constant dense<4> : tensor<16xi32>
      %slot = arith.remui %range, %four : tensor<16xi32>
      %xs = core.splat %x : !core.ptr<i32> -> tensor<16x!core.ptr<i32>>
      %xp = core.addptr %xs, %slot : tensor<16x!core.ptr<i32>>, tensor<16xi32>
      %limit = core.splat %n : i32 -> tensor<16xi32>
      %mask = arith.cmpi slt, %range, %limit : tensor<16xi32>
      %old = core.atomic_rmw add, acq_rel, sys, %xp, %range mask %mask : tensor<16x!core.ptr<i32>>, tensor<16xi32>, tensor<16xi1> -> tensor<16xi32>
      %zero = arith.constant 100 : i32
      %seven = arith.constant 7 : i32
      %eight = arith.constant 4 : i32
      %p = core.addptr %x, %eight : !core.ptr<i32>, i32
      %c = core.atomic_cas acquire, sys, %p, %zero, %seven : !core.ptr<i32>, i32
      return
    })", GetParam());
  std::vector<int32_t> x = {0, 0, 0, 0, 100};
  kernel(x.data(), 10);
  EXPECT_EQ(x, (std::vector<int32_t>{0 + 4 + 8, 1 + 5 + 9, 2 + 6, 3 + 7, 7}));
}

TEST_P(CpuExecution, WideOffsets) {
  // row * stride exceeds 32 bits, which address arithmetic must not lose.
  HarnessKernel kernel(R"(
    func.func @far(%x: !core.ptr<i8>, %row: i32, %stride: i32) attributes {core.kernel} {
      %range = core.range 0, 16 : tensor<16xi32>
      %start = arith.muli %row, %stride : i32
      %s = core.splat %start : i32 -> tensor<16xi32>
      %off = arith.addi %s, %range : tensor<16xi32>
      %xs = core.splat %x : !core.ptr<i8> -> tensor<16x!core.ptr<i8>>
      %xp = core.addptr %xs, %off : tensor<16x!core.ptr<i8>>, tensor<16xi32>
      %v = arith.trunci %range : tensor<16xi32> to tensor<16xi8>
      core.store %xp, %v : tensor<16x!core.ptr<i8>>, tensor<16xi8>
      return
    })", GetParam());
  std::vector<int8_t> memory(16, -1);
  const int32_t row = 3 << 20, stride = 1 << 12;
  kernel(memory.data() - int64_t(row) * stride, row, stride);
  for (int i = 0; i < 16; ++i)
    EXPECT_EQ(memory[i], i);
}

TEST_P(CpuExecution, DivisionByZeroDoesNotTrap) {
  HarnessKernel kernel(R"(
    func.func @div(%x: !core.ptr<i32>, %a: i32, %b: i32) attributes {core.kernel} {
      %one = arith.constant 1 : i32
      %q = arith.divsi %a, %b : i32
      %r = arith.remsi %a, %b : i32
      core.store %x, %q : !core.ptr<i32>, i32
      %p = core.addptr %x, %one : !core.ptr<i32>, i32
      core.store %p, %r : !core.ptr<i32>, i32
      return
    })", GetParam());
  int32_t out[2];
  kernel(out, 7, 0);
  EXPECT_EQ(out[0], 0);
  EXPECT_EQ(out[1], 7);
  kernel(out, INT32_MIN, -1);
  EXPECT_EQ(out[0], INT32_MIN);
  EXPECT_EQ(out[1], 0);
  kernel(out, -7, 2);
  EXPECT_EQ(out[0], -3);
  EXPECT_EQ(out[1], -1);
}

TEST_P(CpuExecution, MathOverTheWholeRange) {
  struct Function {
    const char *name;
    double (*exact)(double);
  };
  for (Function f : {Function{"exp", std::exp}, Function{"exp2", std::exp2},
                     Function{"log", std::log}, Function{"log2", std::log2},
                     Function{"tanh", std::tanh}, Function{"erf", std::erf},
                     Function{"sin", std::sin}}) {
    HarnessKernel kernel(tileKernel(1, 1024, "%r = math." + std::string(f.name) +
                                                 " %t : tensor<1x1024xf32>"), GetParam());
    std::vector<float> x(1024), out(1024);
    // Every exponent, and a dense range around 0.
    for (uint32_t start : {0u, 0x10000u, 0x7fffu, 0x55555u})
      for (int half : {0, 1}) {
        for (uint32_t i = 0; i < 1024; ++i) {
          uint32_t bits = (i % 512) * 0x800000u + start * 13;
          std::memcpy(&x[i], &bits, 4);
          if (half)
            x[i] = (float(i) - 511.5f + float(start % 7) / 7) / 5.0f;
        }
        kernel(x.data(), out.data());
        for (int i = 0; i < 1024; ++i) {
          float want = float(f.exact(x[i]));
          if (std::isnan(want)) {
            EXPECT_TRUE(std::isnan(out[i])) << f.name << "(" << x[i] << ") = " << out[i];
            continue;
          }
          if (std::isinf(want)) {
            EXPECT_EQ(out[i], want) << f.name << "(" << x[i] << ")";
            continue;
          }
          EXPECT_NEAR(out[i], want, std::abs(want) * 1e-6 + 1.5e-45)
              << f.name << "(" << x[i] << ")";
        }
      }
  }
}

} // namespace
