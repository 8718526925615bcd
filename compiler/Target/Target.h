// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// What the compiler asks of a machine it generates code for.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/Error.h"

#include <string>

namespace tilery {

/// What a lowered kernel needs from its launcher; attributes of the kernel function after
/// lowering hold it (names in Pipeline/Lower.h).
struct CompiledCode {
  /// Relocatable object; `name` of the kernel is its entry point (kernel_abi.h).
  std::string object;
  /// LLVM IR after optimisation, and assembly; filled when asked for.
  std::string llvmText, asmText;
};

class Target {
public:
  virtual ~Target() = default;
  /// "cpu"
  virtual llvm::StringRef name() const = 0;
  /// Everything of the machine that changes code: part of the cache key,
  /// "x86_64 znver5 +avx512f...".
  virtual std::string description() const = 0;
  /// Adds the passes from core + device to this target's last MLIR dialect.
  virtual void addPasses(mlir::OpPassManager &passes) const = 0;
  /// Machine code of a module that the passes produced.
  virtual llvm::Expected<CompiledCode> emit(mlir::ModuleOp module, bool wantText) const = 0;
};

} // namespace tilery
