// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// `tilery bench`: times the operators of one rank and the overlapped ones over in-process ranks.
#include "tools/tilery/commands.h"

#include "tilery/tilery.hpp"

#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

namespace tilery::cli {

using Json = nlohmann::json;

static double medianSeconds(const std::function<void()> &call) {
  call(); // compiles
  std::vector<double> times;
  for (int i = 0; i < 7; ++i) {
    auto start = std::chrono::steady_clock::now();
    call();
    times.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  std::nth_element(times.begin(), times.begin() + 3, times.end());
  return times[3];
}

static Json result(const std::string &name, double seconds, double flops) {
  fmt::print("{:<34} {:>9.3f} ms {:>9.1f} GFLOP/s\n", name, seconds * 1e3, flops / seconds * 1e-9);
  return {{"name", name}, {"seconds", seconds}, {"gflops", flops / seconds * 1e-9}};
}

static tilery_tensor matrix(std::vector<float> &data, const int64_t *shape) {
  return {data.data(), shape, nullptr, 2, TILERY_FP32, 0};
}

static Json benchMatmul(int64_t n) {
  std::vector<float> a(size_t(n * n), 0.5f), b(size_t(n * n), 0.25f), c(size_t(n * n));
  int64_t shape[] = {n, n};
  tilery_tensor tensors[] = {matrix(a, shape), matrix(b, shape), matrix(c, shape)};
  double seconds = medianSeconds([&] { check(tilery_op_call("matmul", nullptr, tensors, 3, "{}")); });
  return result(fmt::format("matmul fp32 {}^3", n), seconds, 2.0 * double(n) * double(n) * double(n));
}

static Json benchGathered(int ranks, int64_t m, int64_t n, int64_t k) {
  Json measured;
  spawn(ranks, [&](World &world) {
    int64_t rows = m / ranks, shapeA[] = {rows, k}, shapeB[] = {k, n}, shapeC[] = {m, n};
    std::vector<float> a(size_t(rows * k), 0.5f), b(size_t(k * n), 0.25f), c(size_t(m * n));
    tilery_tensor tensors[] = {matrix(a, shapeA), matrix(b, shapeB), matrix(c, shapeC)};
    double seconds = medianSeconds([&] { check(tilery_op_call("ag_gemm", world.handle(), tensors, 3, "{}")); });
    if (world.rank() == 0)
      measured = result(fmt::format("ag_gemm fp32 {} ranks {}x{}x{}", ranks, m, n, k), seconds,
                        2.0 * double(m) * double(n) * double(k) * ranks);
    world.barrier();
  });
  return measured;
}

// An empty kernel with one array, launched over and over.
static Json benchLaunch(int32_t device) {
  constexpr int Batches = 50, Batch = 200;
  constexpr size_t Bytes = 64;
  tilery_device_properties properties;
  check(tilery_device_describe(device, &properties));
  void *data = nullptr;
  check(tilery_device_allocate(device, Bytes, &data));
  Kernel kernel = Kernel::fromText("empty.py", "import tilery as ty\n@ty.jit\ndef empty(x):\n    pass\n",
                                   "empty");
  Memory x{data, TILERY_FP32, Bytes, false, uint32_t(device)};
  kernel.launch({}, x); // compiles
  std::vector<double> times;
  for (int batch = 0; batch < Batches; ++batch) {
    check(tilery_synchronize(nullptr, device));
    auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < Batch; ++i)
      kernel.launch({}, x);
    std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    times.push_back(taken.count() / Batch);
  }
  check(tilery_synchronize(nullptr, device));
  check(tilery_device_release(device, data, Bytes));
  std::nth_element(times.begin(), times.begin() + Batches / 2, times.end());
  fmt::print("{:<34} {:>9.2f} us\n", fmt::format("launch on {}", properties.name),
             times[Batches / 2] * 1e6);
  return {{"name", fmt::format("launch on {}", properties.name)}, {"seconds", times[Batches / 2]}};
}

int benchCommand(const std::string &output) {
  try {
    Json results = {benchMatmul(512), benchMatmul(1024), benchGathered(2, 512, 512, 512),
                    benchGathered(4, 512, 512, 512)};
    for (int32_t device = 0; device <= tilery_device_count(); ++device)
      results.push_back(benchLaunch(device));
    if (output.empty())
      return 0;
    std::ofstream file(output);
    file << Json{{"machine", Json::parse(tilery_doctor())}, {"results", results}}.dump(2) << '\n';
    return file.good() ? 0 : 1;
  } catch (const std::exception &error) {
    fmt::print(stderr, "tilery: {}\n", error.what());
    return 1;
  }
}

} // namespace tilery::cli
