// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// What the compiler asks of a machine it generates code for.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/Error.h"

#include <array>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace tilery {

/// A place in the user's source that compiled code names in calls to the runtime.
struct SourceSite {
  std::string file;
  int32_t line = 0, column = 0;
};

/// A number that the launcher computes from a kernel's run-time arguments: a constant, an
/// argument (sign-extended), or an operation on two of them.
struct HostExpression {
  enum class Kind { Constant, Argument, Add, Subtract, Multiply, DivideSigned, Minimum, Maximum };
  Kind kind = Kind::Constant;
  /// The constant, or the index among the run-time parameters.
  int64_t value = 0;
  std::shared_ptr<const HostExpression> lhs, rhs;
};

/// A map for bulk tensor copies that the launcher makes (gpu_abi.h). Dimensions are listed from
/// the contiguous one outwards; at most five.
struct TensorMapRecipe {
  /// Index among the run-time parameters of the pointer; 16-byte aligned when used.
  int32_t pointer = 0;
  HostExpression offsetElements;
  /// "fp32", "bf16", "i8", ...: the language's name.
  std::string element;
  /// Extents in elements; those below 1 count as 1.
  std::vector<HostExpression> extents;
  /// Elements from one index to the next; of all dimensions but the first, whose is 1.
  std::vector<HostExpression> strides;
  std::vector<int32_t> box;
  /// Bytes of the swizzle of shared memory: 0, 32, 64 or 128.
  int32_t swizzleBytes = 0;
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
  /// Run-time parameters of whose memory the kernel gets the extent, behind the other arguments.
  std::vector<int32_t> extents;
  /// Parameters that are registered memory, of which the kernel gets a table of distances, behind those.
  std::vector<int32_t> peers;

  // Of GPU kernels only.
  /// Threads of a block, all roles counted.
  int32_t threads = 0;
  /// Dynamic shared memory of a block.
  int32_t sharedBytes = 0;
  std::array<int32_t, 3> clusterExtent = {1, 1, 1};
  std::vector<TensorMapRecipe> tensorMaps;
  /// Texts of assertions, indexed by tilery_gpu_failure::message.
  std::vector<std::string> messages;
  /// May write the failure record: an assertion, a check or a wait.
  bool canFail = false;
};

struct CompiledCode {
  /// What is loaded: a relocatable object (kernel_abi.h) or, of a GPU, assembly text that the
  /// driver assembles (gpu_abi.h). Each kernel's name is its entry point.
  std::string object;
  std::vector<KernelInfo> kernels;
  /// Captured text by stage name: "core", Target::tileStage, "llvm", Target::assemblyStage;
  /// those asked for.
  std::map<std::string, std::string> text;
};

/// Which texts Target::emit returns beside the object, as text["llvm"] and text[assemblyStage].
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
  /// What users call the text after the tile passes, and the machine's own.
  virtual llvm::StringRef tileStage() const { return "vector"; }
  virtual llvm::StringRef assemblyStage() const { return "asm"; }
  /// The same machine taking less of what a kernel can have too much of, for one that did not fit;
  /// null when nothing is left to take less of.
  virtual std::unique_ptr<Target> withLess() const { return nullptr; }
  /// Functions of the runtime refuse signals and symmetric memory that do not exist.
  virtual bool runtimeChecksSignals() const { return false; }
  /// Adds the passes from core + device to loops over this target's vectors or threads.
  virtual void addTilePasses(mlir::OpPassManager &passes) const = 0;
  /// Adds the passes from there to this target's last MLIR dialect.
  virtual void addFinalPasses(mlir::OpPassManager &passes) const = 0;
  /// What only this target knows of a lowered kernel; `function` carries the passes' attributes.
  virtual void describe(mlir::Operation *function, KernelInfo &info) const {}
  /// Machine code of a module that the passes produced.
  virtual llvm::Expected<CompiledCode> emit(mlir::ModuleOp module,
                                            const EmitOptions &options) const = 0;
};

} // namespace tilery
