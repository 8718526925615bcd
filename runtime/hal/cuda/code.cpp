// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// PTX to machine code by the driver, loading it, launching it.
#include "runtime/hal/cuda/devices.h"

#include "runtime/base/log.h"

#include <atomic>
#include <set>

namespace tilery::rt::hal::cuda {

static std::atomic<const char *> latest = "";

const char *lastKernel() { return latest.load(std::memory_order_relaxed); }

// Names of kernels outlive the kernels, for errors that come late.
static const char *keepName(const std::string &name) {
  static std::mutex mutex;
  static std::set<std::string> names;
  std::lock_guard lock(mutex);
  return names.insert(name).first->c_str();
}

namespace {
/// What the driver says while it makes machine code; options are passed as the driver wants them,
/// numbers as pointers.
class JitLog {
public:
  std::string errors() const { return errorLog; }
  std::string notes() const { return infoLog; }

private:
  static constexpr size_t LogBytes = 8192;
  char infoLog[LogBytes] = "", errorLog[LogBytes] = "";

public:
  int options[5] = {InfoLog, InfoLogBytes, ErrorLog, ErrorLogBytes, LogVerbose};
  void *values[5] = {infoLog, reinterpret_cast<void *>(LogBytes), errorLog,
                     reinterpret_cast<void *>(LogBytes),
                     reinterpret_cast<void *>(uintptr_t(logEnabled(LogLevel::Debug)))};
};
} // namespace

[[noreturn]] static void failAssembly(Result result, const std::string &kernel,
                                      const std::string &log, const DeviceProperties &device) {
  std::string said = log.empty() ? "" : "\n" + log;
  if (result == UnsupportedPtxVersion)
    raise(TILERY_TARGET_ERROR,
          "the driver of '{}' takes no newer PTX than {}.{}, and kernel '{}' needs it{}\nhint: "
          "update the driver",
          device.name, device.assemblyVersion / 10, device.assemblyVersion % 10, kernel, said);
  raise(TILERY_INTERNAL_ERROR,
        "the driver does not assemble kernel '{}' for {}: {}{}\nthis is a bug in tilery", kernel,
        device.target, describe(result), said);
}

// The whole module at once, not through the driver's linker (cuLinkAddData), although that one would
// hand out the machine code for our own cache: its assembler allows for functions of other modules,
// ignores setmaxnreg and runs wgmma one by one. The driver keeps machine code in a cache of its own.
static Handle loadModule(std::string_view code, const std::string &name,
                         const DeviceProperties &device) {
  std::string terminated(code); // the driver reads to the terminator
  auto said = std::make_unique<JitLog>();
  Handle module = nullptr;
  Result result =
      api().moduleLoadDataEx(&module, terminated.data(), 5, said->options, said->values);
  if (result != Success)
    failAssembly(result, name, said->errors(), device);
  if (std::string notes = said->notes(); !notes.empty())
    log(LogLevel::Debug, fmt::format("kernel '{}': {}", name, notes));
  return module;
}

static void allowShared(const CudaKernel &kernel, const DeviceProperties &device) {
  constexpr int32_t Always = 48 << 10; // more must be asked for
  if (kernel.shape.sharedBytes > device.sharedBytes)
    raise(TILERY_LAUNCH_ERROR,
          "kernel '{}' needs {} bytes of shared memory, {} has {} for a program instance\nhint: "
          "choose smaller tiles or fewer stages (num_stages)",
          kernel.name, kernel.shape.sharedBytes, device.name, device.sharedBytes);
  if (kernel.shape.sharedBytes > Always)
    check(api().functionSetAttribute(kernel.function, MaxDynamicSharedBytes,
                                     kernel.shape.sharedBytes),
          "cuFuncSetAttribute", kernel.name);
}

static void allowCluster(CudaKernel &kernel, const DeviceState &state) {
  auto [x, y, z] = kernel.shape.cluster;
  kernel.clustered = x * y * z > 1;
  if (!kernel.clustered)
    return;
  if (!state.hasClusters)
    raise(TILERY_TARGET_ERROR, "kernel '{}' needs clusters of program instances, {} has none",
          kernel.name, state.properties.name);
  constexpr int Portable = 8;
  if (x * y * z > Portable)
    check(api().functionSetAttribute(kernel.function, NonPortableClusterAllowed, 1),
          "cuFuncSetAttribute", kernel.name);
}

LoadedKernel *CudaDriver::load(int device, std::string_view code, const std::string &name,
                               const KernelShape &shape) {
  DeviceState &state = opened(device);
  Scope scope(state.context);
  RelaxedCapture relaxed;
  auto kernel = std::make_unique<CudaKernel>();
  kernel->device = device;
  kernel->context = state.context;
  kernel->name = keepName(name);
  kernel->shape = shape;
  kernel->module = loadModule(code, name, state.properties);
  try {
    check(api().moduleGetFunction(&kernel->function, kernel->module, name.c_str()),
          "cuModuleGetFunction", name);
    allowShared(*kernel, state.properties);
    allowCluster(*kernel, state);
  } catch (...) {
    api().moduleUnload(kernel->module);
    throw;
  }
  return kernel.release();
}

void CudaDriver::unload(LoadedKernel *loaded) {
  std::unique_ptr<CudaKernel> kernel(static_cast<CudaKernel *>(loaded));
  if (!kernel)
    return;
  Scope scope(kernel->context);
  RelaxedCapture relaxed;
  api().moduleUnload(kernel->module);
}

static void setShape(LaunchConfig &config, LaunchAttribute &cluster, const CudaKernel &kernel) {
  config.block[0] = uint32_t(kernel.shape.threads);
  config.block[1] = config.block[2] = 1;
  config.sharedBytes = uint32_t(kernel.shape.sharedBytes);
  if (!kernel.clustered)
    return;
  cluster.id = AttributeClusterDimension;
  for (int axis = 0; axis < 3; ++axis)
    cluster.cluster[axis] = uint32_t(kernel.shape.cluster[size_t(axis)]);
  config.attributes = &cluster;
  config.attributeCount = 1;
}

int64_t CudaDriver::residentInstances(const LoadedKernel &loaded) {
  auto &kernel = static_cast<const CudaKernel &>(loaded);
  DeviceState &state = opened(kernel.device);
  Scope scope(kernel.context);
  int count = 0;
  if (!kernel.clustered) {
    check(api().occupancyBlocks(&count, kernel.function, kernel.shape.threads,
                                size_t(kernel.shape.sharedBytes)),
          "cuOccupancyMaxActiveBlocksPerMultiprocessor", kernel.name);
    return int64_t(count) * state.properties.processors;
  }
  auto [x, y, z] = kernel.shape.cluster;
  LaunchConfig config = {{uint32_t(x), uint32_t(y), uint32_t(z)}, {}, 0, nullptr, nullptr, 0};
  LaunchAttribute cluster = {};
  setShape(config, cluster, kernel);
  check(api().occupancyClusters(&count, kernel.function, &config), "cuOccupancyMaxActiveClusters",
        kernel.name);
  return int64_t(count) * x * y * z;
}

void CudaDriver::launch(const DeviceLaunch &given) {
  auto &kernel = static_cast<const CudaKernel &>(*given.kernel);
  Scope scope(kernel.context);
  LaunchConfig config = {{given.grid[0], given.grid[1], given.grid[2]}, {}, 0, given.stream,
                         nullptr, 0};
  LaunchAttribute cluster;
  setShape(config, cluster, kernel);
  latest.store(kernel.name, std::memory_order_relaxed);
  check(api().launchKernelEx(&config, kernel.function, given.parameters, nullptr),
        "cuLaunchKernelEx", kernel.name);
}

} // namespace tilery::rt::hal::cuda
