// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Opens libcuda and words its errors.
#include "runtime/hal/cuda/api.h"

#include "runtime/base/knobs.h"
#include "runtime/hal/cuda/devices.h"

#include <atomic>
#include <cstdlib>
#include <dlfcn.h>
#include <link.h>

namespace tilery::rt::hal::cuda {

static Api functions;
static constexpr int OldestDriver = 12000;

static std::string libraryName() {
  const std::string &name = knobs().cudaLibrary;
  return name == "none" ? "" : name;
}

static std::string resolve(void *library, const std::string &name) {
#define TILERY_CUDA_CALL(field, symbol, parameters)                                               \
  functions.field = reinterpret_cast<decltype(functions.field)>(dlsym(library, #symbol));         \
  if (!functions.field)                                                                           \
    return fmt::format("{} has no " #symbol "; a driver for CUDA 12.0 or later is needed", name);
  TILERY_CUDA_CALLS(TILERY_CUDA_CALL)
#undef TILERY_CUDA_CALL
  return "";
}

static std::string open() {
  std::string name = libraryName();
  if (name.empty())
    return "switched off by TILERY_CUDA_LIBRARY=none";
  void *library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return dlerror();
  if (std::string missing = resolve(library, name); !missing.empty())
    return missing;
  // Ranks on one device have a stream each; streams that share a connection wait for each other.
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
  if (Result result = functions.init(0))
    return "cuInit failed: " + describe(result);
  if (Result result = functions.driverGetVersion(&functions.driverVersion))
    return "cuDriverGetVersion failed: " + describe(result);
  if (functions.driverVersion < OldestDriver)
    return fmt::format("the driver is for CUDA {}.{}; 12.0 or later is needed",
                       functions.driverVersion / 1000, functions.driverVersion % 1000 / 10);
  int count = 0;
  if (Result result = functions.deviceGetCount(&count))
    return "cuDeviceGetCount failed: " + describe(result);
  return count > 0 ? "" : "the driver is there, but no device";
}

const std::string &openError() {
  static const std::string error = open();
  return error;
}

const Api &api() { return functions; }

// How many libraries this process has opened so far.
static unsigned long long openedLibraries() {
  unsigned long long count = 0;
  dl_iterate_phdr(
      [](dl_phdr_info *info, size_t, void *result) {
        *static_cast<unsigned long long *>(result) = info->dlpi_adds;
        return 1;
      },
      &count);
  return count;
}

bool isLoaded() {
  static std::atomic<bool> seen = false;
  static std::atomic<unsigned long long> looked = 0;
  if (seen.load(std::memory_order_relaxed))
    return true;
  unsigned long long opened = openedLibraries();
  // acquire: pairs with the release below. Another thread may have looked since the first line.
  if (opened == looked.load(std::memory_order_acquire))
    return seen.load(std::memory_order_relaxed);
  std::string name = libraryName();
  void *library = name.empty() ? nullptr : dlopen(name.c_str(), RTLD_NOW | RTLD_NOLOAD);
  if (library)
    dlclose(library);
  bool usable = library && openError().empty();
  if (usable)
    seen.store(true, std::memory_order_relaxed);
  looked.store(opened, std::memory_order_release);
  return usable;
}

std::string describe(Result result) {
  const char *name = nullptr, *text = nullptr;
  if (!functions.getErrorName || functions.getErrorName(result, &name) || !name)
    return fmt::format("error {}", result);
  functions.getErrorString(result, &text);
  return text ? fmt::format("{} ({})", name, text) : name;
}

void fail(Result result, const char *call, std::string_view about) {
  std::string during = about.empty() ? "" : fmt::format(" for {}", about);
  if (result >= FirstLaunchFailure && result <= LastLaunchFailure)
    raise(TILERY_LAUNCH_ERROR,
          "kernel '{}' or one before it ended in {}, seen by {}{}\nhint: the device is lost to "
          "this process; run it again with TILERY_CHECK=1 to find the kernel",
          lastKernel(), describe(result), call, during);
  raise(result == OutOfMemory ? TILERY_LAUNCH_ERROR : TILERY_INTERNAL_ERROR,
        "{} failed{}: {}", call, during, describe(result));
}

} // namespace tilery::rt::hal::cuda
