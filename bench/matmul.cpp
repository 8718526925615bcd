// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// fp32 matmul on one core: a kernel in Triton's style against OpenBLAS in the same run.
// Prints one JSON object. Run it as
//   env -u OPENBLAS_CORETYPE -u OPENBLAS_L2_SIZE bench_matmul
#include "compiler/Target/Cpu/kernel_harness.h"
#include "compiler/Target/Cpu/matmul_text.h"

#include <cblas.h>
#include <chrono>
#include <cmath>
#include <cstdio>

using tilery::cpu::HarnessKernel;
using Clock = std::chrono::steady_clock;

namespace {

constexpr int size = 1024;

double seconds(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

template <typename Function>
double best(Function run) {
  double shortest = 1e9;
  for (int repeat = 0; repeat < 12; ++repeat) {
    auto start = Clock::now();
    run();
    shortest = std::min(shortest, seconds(start));
  }
  return shortest;
}

double gflops(double time) { return 2.0 * size * size * size / time * 1e-9; }

} // namespace

int main(int argc, char **argv) {
  std::string target = argc > 1 ? argv[1] : "native";
  openblas_set_num_threads(1);
  std::vector<float> a(size * size), b(size * size), c(size * size), reference(size * size);
  for (int i = 0; i < size * size; ++i) {
    a[size_t(i)] = float(i % 17) - 8;
    b[size_t(i)] = float(i % 13) - 6;
  }
  double blas = best([&] {
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, size, size, size, 1, a.data(), size,
                b.data(), size, 0, reference.data(), size);
  });
  std::printf("{\"benchmark\": \"matmul_f32_1024\", \"target\": \"%s\", \"openblas_gflops\": %.1f, "
              "\"core\": \"%s\", \"tiles\": [",
              target.c_str(), gflops(blas), openblas_get_corename());
  double fastest = 1e9;
  const char *separator = "";
  for (auto [m, n, k] : {std::tuple(64, 64, 32), {64, 64, 64}, {128, 64, 64}, {64, 128, 64},
                         {128, 128, 32}, {128, 128, 64}, {128, 128, 128}}) {
    auto start = Clock::now();
    HarnessKernel kernel(tilery::cpu::matmulText({m, n, k}), target);
    double compile = seconds(start);
    double time = best([&] {
      for (int row = 0; row < size / m; ++row)
        for (int column = 0; column < size / n; ++column) {
          kernel.instance.program_id[0] = row;
          kernel.instance.program_id[1] = column;
          kernel(a.data(), b.data(), c.data(), size, size, size, size, size, size);
        }
    });
    fastest = std::min(fastest, time);
    std::printf("%s{\"tile\": \"%dx%dx%d\", \"gflops\": %.1f, \"compile_ms\": %.0f}", separator, m,
                n, k, gflops(time), 1e3 * compile);
    separator = ", ";
    if (c != reference) { // small integers: every sum is exact
      std::fprintf(stderr, "wrong result\n");
      return 1;
    }
  }
  std::printf("], \"ratio\": %.3f}\n", blas / fastest);
}
