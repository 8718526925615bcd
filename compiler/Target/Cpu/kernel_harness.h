// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Compiles a kernel from core IR text and runs it without a runtime, for tests and
// benchmarks of the CPU target.
#pragma once

#include "compiler/Pipeline/Lower.h"
#include "compiler/Target/Cpu/CpuTarget.h"
#include "compiler/Target/Cpu/Jit.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"

#include <cstdlib>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <vector>

namespace tilery::cpu {

/// A loaded kernel and the instance that it runs with.
class HarnessKernel {
public:
  /// `target` as for CpuOptions::fromName. Throws std::runtime_error.
  explicit HarnessKernel(const std::string &text, const std::string &target = "native",
                         std::vector<std::string> capture = {}) {
    mlir::DialectRegistry registry;
    registerLoweringDialects(registry);
    mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
    context.loadAllAvailableDialects();
    auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
    if (!module)
      throw std::runtime_error("the kernel does not parse");
    CpuTarget machine(take(CpuOptions::fromName(target)));
    code = take(compileModule(*module, machine, {std::move(capture)}));
    object = take(LoadedObject::load(code.object));
    entry = take(object->entry(code.kernels.at(0).name));
    scratch.reset(static_cast<char *>(
        std::aligned_alloc(64, size_t(code.kernels[0].scratchBytes + 64) / 64 * 64)));
    instance.api = &api;
    instance.scratch = scratch.get();
    for (int axis = 0; axis < 3; ++axis)
      instance.num_programs[axis] = 1;
    instance.num_ranks = 1;
  }

  /// Calls the kernel once; arguments are pointers, integers and floats.
  template <typename... Arguments>
  void operator()(Arguments... arguments) {
    uint64_t slots[sizeof...(arguments) + 1] = {slot(arguments)...};
    entry(&instance, slots);
  }

  tilery_device_api api{};
  tilery_instance instance{};
  CompiledCode code;

private:
  struct Free {
    void operator()(void *memory) const { std::free(memory); }
  };

  template <typename T>
  static T take(llvm::Expected<T> value) {
    if (!value)
      throw std::runtime_error(llvm::toString(value.takeError()));
    return std::move(*value);
  }

  template <typename T>
  static uint64_t slot(T value) {
    uint64_t bits = 0;
    if constexpr (std::is_integral_v<T>)
      bits = uint64_t(int64_t(value));
    else
      std::memcpy(&bits, &value, sizeof(value));
    return bits;
  }

  std::unique_ptr<LoadedObject> object;
  tilery_kernel_entry entry = nullptr;
  std::unique_ptr<char, Free> scratch;
};

} // namespace tilery::cpu
