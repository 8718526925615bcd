// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Overlapped AllGather+GEMM from C++, with no Python: the operator of the library by name, and a
// kernel file of one's own.
//
//   ag_gemm [kernel.py]     (examples/scale.py by default)
#include "tilery/tilery.hpp"

#include <cmath>
#include <cstdio>
#include <mutex>

using tilery::World;

static constexpr int64_t M = 101, N = 48, K = 64;

static float value(int64_t seed, int64_t i) { return float((i * 37 + seed * 11) % 17) / 8 - 1; }

/// Largest difference from the product in double precision.
static double errorOf(const std::vector<float> &c, int rank) {
  double worst = 0;
  for (int64_t m = 0; m < M; ++m)
    for (int64_t n = 0; n < N; ++n) {
      double exact = 0;
      for (int64_t k = 0; k < K; ++k)
        exact += double(value(0, m * K + k)) * value(1 + rank, k * N + n);
      worst = std::max(worst, std::abs(exact - c[size_t(m * N + n)]));
    }
  return worst;
}

/// This rank's rows of A times its columns of B, for all rows of A.
static double multiply(World &world) {
  int64_t rows = (M + world.size() - 1) / world.size();
  int64_t first = std::min(world.rank() * rows, M), last = std::min(first + rows, M);
  std::vector<float> a(size_t((last - first) * K)), b(K * N), c(M * N);
  for (size_t i = 0; i < a.size(); ++i)
    a[i] = value(0, first * K + int64_t(i));
  for (size_t i = 0; i < b.size(); ++i)
    b[i] = value(1 + world.rank(), int64_t(i));
  int64_t shapes[3][2] = {{last - first, K}, {K, N}, {M, N}};
  tilery_tensor tensors[3] = {{a.data(), shapes[0], nullptr, 2, TILERY_FP32, 0, 0},
                              {b.data(), shapes[1], nullptr, 2, TILERY_FP32, 0, 0},
                              {c.data(), shapes[2], nullptr, 2, TILERY_FP32, 0, 0}};
  tilery::check(tilery_op_call("ag_gemm", world.handle(), tensors, 3, "{\"chunks\": 2}"));
  return errorOf(c, world.rank());
}

/// A kernel from a file: x *= factor.
static bool scale(World &world, const char *path) {
  auto kernel = tilery::Kernel::load(path, "scale");
  std::vector<float> x(1000, 2);
  kernel.launch(world, {4}, x, 1.5, int64_t(x.size()), 256);
  for (float element : x)
    if (element != 3)
      return false;
  return true;
}

int main(int argc, char **argv) {
  try {
    std::mutex mutex;
    double worst = 0;
    bool scaled = true;
    const char *path = argc > 1 ? argv[1] : "examples/scale.py";
    tilery::spawn(4, [&](World &world) {
      double error = multiply(world);
      bool right = scale(world, path);
      std::lock_guard lock(mutex);
      worst = std::max(worst, error);
      scaled = scaled && right;
    });
    std::printf("largest error on 4 ranks: %.1e; kernel file: %s\n", worst,
                scaled ? "right" : "wrong");
    return worst < 1e-4 && scaled ? 0 : 1;
  } catch (const tilery::Error &error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
