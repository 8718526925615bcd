// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// What the fake libcuda remembers.
#pragma once

#include "runtime/hal/cuda/api.h"
#include "runtime/hal/cuda/fake/fake_cuda.h"

#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace fake {

using namespace tilery::rt::hal::cuda;

inline constexpr int MaxDevices = 8;
inline constexpr size_t MemoryBytes = size_t(64) << 30;
inline constexpr int CaptureUnsupported = 900, NotFound = 500;

struct Stream {
  int capturing = 0;
};
struct Allocation {
  size_t bytes;
  int device;
  /// Of memory that other processes may map, else -1.
  int file = -1;
  Address mapped = 0; // where the mapping begins that this is part of
  size_t mappedBytes = 0;
  uint64_t number = 0; // of no other
  uint64_t piece = 0;  // that is mapped
};
struct Launch {
  std::string kernel;
  LaunchConfig config;
  uint32_t cluster[3];
  std::vector<unsigned char> parameters;
};

struct State {
  std::recursive_mutex mutex;
  std::string calls;
  std::map<std::string, int> failures;
  std::map<Address, Allocation> allocations;
  std::vector<Launch> launches;
  char contexts[MaxDevices] = {};
  double clock = 0;
  uint64_t lastNumber = 0;
  Handle busy = &clock; // the stream that is never done
};

State &state();
/// Notes the call; the result that a test wants of it, else 0.
int called(const char *symbol);
/// The machine's numbers of the devices that this process sees (CUDA_VISIBLE_DEVICES).
const std::vector<int> &visibleDevices();
/// FAKE_CUDA_LACKS names it: "vmm", "peers", "atomics", "clock".
bool lacks(const char *feature);
inline Handle &currentContext() {
  static thread_local Handle context = nullptr;
  return context;
}
inline int &captureMode() {
  static thread_local int mode = 0;
  return mode;
}

} // namespace fake

#define FAKE(symbol, parameters, ...)                                                             \
  extern "C" int symbol parameters {                                                              \
    if (int failure = called(#symbol))                                                            \
      return failure;                                                                             \
    __VA_ARGS__                                                                                   \
    return Success;                                                                               \
  }
