// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// What the compiler asks of a machine it generates code for.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/Error.h"

#include <map>
#include <string>
#include <vector>

namespace tilery {

/// A place in the user's source that compiled code names in calls to the runtime.
struct SourceSite {
  std::string file;
  int32_t line = 0, column = 0;
};

/// What a lowered kernel needs from its launcher (attributes of the lowered function hold
/// it; their names are in Pipeline/Lower.h).
struct KernelInfo {
  std::string name;
  int64_t scratchBytes = 0;
  /// May suspend its fiber: it waits, meets a barrier or polls memory.
  bool suspends = false;
  /// Uses ranks, symmetric memory or signals.
  bool communicates = false;
  /// Indexed by the `site` of runtime calls.
  std::vector<SourceSite> sites;
};

struct CompiledCode {
  /// Relocatable object; each kernel's name is its entry point (kernel_abi.h).
  std::string object;
  std::vector<KernelInfo> kernels;
  /// Captured text by stage name: "core", "vector", "llvm", "asm"; those asked for.
  std::map<std::string, std::string> text;
};

/// Which texts Target::emit returns beside the object.
struct EmitOptions {
  bool llvmText = false, asmText = false;
};

class Target {
public:
  virtual ~Target() = default;
  /// "cpu"
  virtual llvm::StringRef name() const = 0;
  /// Everything of the machine that changes code: part of the cache key,
  /// "x86_64 znver5 +avx512f...".
  virtual std::string description() const = 0;
  /// Adds the passes from core + device to loops over this target's vectors or threads.
  virtual void addTilePasses(mlir::OpPassManager &passes) const = 0;
  /// Adds the passes from there to this target's last MLIR dialect.
  virtual void addFinalPasses(mlir::OpPassManager &passes) const = 0;
  /// Machine code of a module that the passes produced.
  virtual llvm::Expected<CompiledCode> emit(mlir::ModuleOp module,
                                            const EmitOptions &options) const = 0;
};

} // namespace tilery
