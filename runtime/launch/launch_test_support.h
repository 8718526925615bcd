// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// What tests of launches share: the error of an action, the recorder behind the fake libcuda, worlds on its
// device.
#pragma once

#include "runtime/base/error.h"
#include "runtime/base/knobs.h"
#include "runtime/hal/cuda/fake/fake_cuda.h"
#include "runtime/world/world.h"

#include <dlfcn.h>
#include <string>

namespace tilery::rt::test {

template <typename Action> Error errorOf(Action action) {
  try {
    action();
  } catch (const Error &error) {
    return error;
  }
  return Error(TILERY_OK, "no error");
}

template <typename Function> Function *symbol(const char *name) {
  static void *library = dlopen(knobs().cudaLibrary.c_str(), RTLD_NOW);
  return reinterpret_cast<Function *>(dlsym(library, name));
}
inline std::string calls() { return symbol<decltype(fake_cuda_calls)>("fake_cuda_calls")(); }
inline void reset() { symbol<decltype(fake_cuda_reset)>("fake_cuda_reset")(); }

inline WorldOptions onDevice(int ranks) {
  WorldOptions options;
  options.ranks = ranks;
  options.device = 1;
  options.heapBytes = 1 << 20;
  return options;
}

} // namespace tilery::rt::test
