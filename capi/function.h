// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// What is behind the handles of functions and compiled kernels.
#pragma once

#include "compiler/Frontend/Generator.h"
#include "compiler/Target/Cpu/Jit.h"
#include "capi/targets.h"
#include "llvm/ADT/BitVector.h"
#include "runtime/launch/kernel_image.h"
#include "tilery/tilery.h"

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

namespace tilery::capi {

struct ParameterInfo {
  std::string name;
  bool isConstexpr = false;
  bool doNotSpecialize = false;
  std::optional<frontend::Value> defaultValue;
};

} // namespace tilery::capi

/// A compiled specialisation; belongs to its function.
struct tilery_kernel {
  const tilery_function *function = nullptr;
  std::vector<tilery::frontend::ParameterSpec> specs;
  std::string key; // of the disk cache
  bool cached = false;
  const tilery::Target *target = nullptr;
  tilery::frontend::Checks checks;
  std::string object;
  tilery::KernelInfo info;
  std::unique_ptr<tilery::cpu::LoadedObject> code;
  tilery::rt::KernelImage image;
  /// Which parameters have an argument slot, in order.
  std::vector<int32_t> runTimeParameters;
  /// Which parameters' memory the kernel may write.
  llvm::BitVector written;
  std::map<std::string, std::string> texts; // by stage, made when asked for
};

struct tilery_function {
  tilery::frontend::FunctionValue value;
  std::vector<tilery::capi::ParameterInfo> parameters;
  std::string description; // JSON

  /// Specialisations by the bytes that distinguish them (specialize.h). Ranks are threads of
  /// one process, so that one compiles and the others wait for it.
  std::mutex mutex;
  std::unordered_map<std::string, std::unique_ptr<tilery_kernel>> kernels;
};

namespace tilery::capi {

/// Generates, compiles or fetches from the cache, and loads. Throws rt::Error and
/// frontend's CompileError.
std::unique_ptr<tilery_kernel> compileKernel(const tilery_function &function,
                                             std::vector<frontend::ParameterSpec> specs,
                                             const Machine &machine);

/// Text of one stage of a kernel; compiles anew for it, since launches keep none.
const std::string &kernelText(tilery_kernel &kernel, const std::string &stage);

} // namespace tilery::capi
