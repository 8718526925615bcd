// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Code of the fake libcuda: a module keeps its text, kernels are known by their names.
#include "runtime/hal/cuda/fake/fake_state.h"
#include "tilery/gpu_abi.h"

#include <chrono>
#include <cstring>
#include <regex>
#include <thread>

using namespace fake;

namespace {
struct Module {
  std::string text;
};
struct Function {
  std::string name;
  std::vector<size_t> parameterBytes;
};
} // namespace

extern "C" int cuModuleLoadDataEx(Handle *module, const void *code, unsigned count, int *options,
                                  void **values) {
  if (int failure = called("cuModuleLoadDataEx"))
    return failure;
  std::string text = static_cast<const char *>(code);
  if (text.find(".version") == std::string::npos) {
    for (unsigned i = 0; i < count; ++i)
      if (options[i] == ErrorLog)
        strcpy(static_cast<char *>(values[i]), "ptxas fatal: missing .version");
    return InvalidPtx;
  }
  *module = new Module{text};
  return Success;
}

extern "C" int cuModuleUnload(Handle module) {
  delete static_cast<Module *>(module);
  return called("cuModuleUnload");
}

// Bytes of ".param .u64 .ptr .align 4 x" and ".param .align 64 .b8 x[128]".
static std::vector<size_t> parametersOf(const std::string &text, const std::string &name) {
  std::vector<size_t> sizes;
  size_t begin = text.find('(', text.find(".entry " + name));
  std::string list = text.substr(begin, text.find(')', begin) - begin);
  static const std::regex entry(R"(\.param[^,.]*(\.align \d+ )?\.[a-z](\d+)[^,\[]*(\[(\d+)\])?)");
  for (std::sregex_iterator at(list.begin(), list.end(), entry), end; at != end; ++at) {
    size_t count = (*at)[4].matched ? std::stoul((*at)[4]) : 1;
    sizes.push_back(std::stoul((*at)[2]) / 8 * count);
  }
  return sizes;
}

extern "C" int cuModuleGetFunction(Handle *function, Handle module, const char *name) {
  if (int failure = called("cuModuleGetFunction"))
    return failure;
  const std::string &text = static_cast<Module *>(module)->text;
  if (text.find(".entry " + std::string(name) + "(") == std::string::npos)
    return NotFound;
  *function = new Function{name, parametersOf(text, name)}; // functions belong to the process
  return Success;
}

extern "C" int cuFuncSetAttribute(Handle, int, int) { return called("cuFuncSetAttribute"); }

extern "C" int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, Handle, int threads,
                                                           size_t shared) {
  *blocks = std::min(2048 / threads, int(233472 / (shared + 1024)));
  return called("cuOccupancyMaxActiveBlocksPerMultiprocessor");
}
extern "C" int cuOccupancyMaxActiveClusters(int *clusters, Handle, const LaunchConfig *config) {
  *clusters = 132 / int(config->grid[0] * config->grid[1] * config->grid[2]);
  return called("cuOccupancyMaxActiveClusters");
}

// The conformance suite's kernel: out[i] = first + i for instance i.
static void count(const LaunchConfig &config, void **parameters) {
  auto *out = *static_cast<uint32_t **>(parameters[0]);
  uint32_t first = *static_cast<uint32_t *>(parameters[1]);
  for (uint32_t i = 0; i < config.grid[0] * config.grid[1] * config.grid[2]; ++i)
    out[i] = first + i;
}

// Instance (3, 0, 0) fails at site 0; the context is the last parameter.
static void fail(void **parameters, size_t last, uint32_t kind) {
  auto *context = *static_cast<tilery_gpu_context **>(parameters[last]);
  *context->failure = {1, kind, 0, 0, {3, 0, 0}, context->rank, 0x1000, 8, 7, 0, 0};
}

// The clock's kernel runs beside its caller: it answers each request with the host's time, in which
// the device's is 5 s ahead.
static void answerClock(uint64_t *cell, uint64_t first, uint64_t end) {
  auto now = [] { return std::chrono::steady_clock::now().time_since_epoch(); };
  auto last = now() + std::chrono::seconds(1);
  while (first < end && now() < last) {
    if (__atomic_load_n(cell, __ATOMIC_ACQUIRE) < first)
      continue;
    cell[1] = uint64_t(std::chrono::nanoseconds(now() + std::chrono::seconds(5)).count());
    __atomic_store_n(cell + 2, first++, __ATOMIC_RELEASE);
  }
}

static void runKnown(const Function &function, const LaunchConfig &config, void **parameters) {
  size_t last = function.parameterBytes.size() - 1;
  if (function.name == "cts_count")
    count(config, parameters);
  else if (function.name == "tilery_clock" && !lacks("clock"))
    std::thread(answerClock, *static_cast<uint64_t **>(parameters[0]),
                *static_cast<uint64_t *>(parameters[1]), *static_cast<uint64_t *>(parameters[2]))
        .detach();
  else if (function.name == "fails_assertion")
    fail(parameters, last, TILERY_GPU_ASSERTION);
  else if (function.name == "fails_bounds")
    fail(parameters, last, TILERY_GPU_OUT_OF_BOUNDS);
  else if (function.name == "fails_wait")
    fail(parameters, last, TILERY_GPU_WAIT_TIMEOUT);
}

extern "C" int cuLaunchKernelEx(const LaunchConfig *config, Handle handle, void **parameters,
                                void **) {
  if (int failure = called("cuLaunchKernelEx"))
    return failure;
  auto &function = *static_cast<Function *>(handle);
  Launch launch = {function.name, *config, {1, 1, 1}, {}};
  for (uint32_t i = 0; i < config->attributeCount; ++i)
    if (config->attributes[i].id == AttributeClusterDimension)
      std::copy_n(config->attributes[i].cluster, 3, launch.cluster);
  for (size_t i = 0; i < function.parameterBytes.size(); ++i) {
    auto *bytes = static_cast<unsigned char *>(parameters[i]);
    launch.parameters.insert(launch.parameters.end(), bytes, bytes + function.parameterBytes[i]);
  }
  std::lock_guard lock(state().mutex);
  state().launches.push_back(std::move(launch));
  runKnown(function, *config, parameters);
  return Success;
}

extern "C" int32_t fake_cuda_launch_count(void) { return int32_t(state().launches.size()); }

extern "C" fake_cuda_launch fake_cuda_launch_at(int32_t index) {
  Launch &launch = state().launches.at(size_t(index));
  const uint32_t *grid = launch.config.grid, *cluster = launch.cluster;
  return {launch.kernel.c_str(),   {grid[0], grid[1], grid[2]}, launch.config.block[0],
          launch.config.sharedBytes, {cluster[0], cluster[1], cluster[2]}, launch.config.stream,
          launch.parameters.data(),  int32_t(launch.parameters.size())};
}
