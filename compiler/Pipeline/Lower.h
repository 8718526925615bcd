// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// From a module of kernels (core + device, all calls inlined) to code for one target.
#pragma once

#include "compiler/Target/Target.h"
#include "mlir/IR/DialectRegistry.h"

#include <string>
#include <vector>

namespace tilery {

/// Attributes of a kernel function. The first marks it on input, the others are results
/// of lowering.
inline constexpr llvm::StringLiteral kKernelAttr = "core.kernel";
/// On input: check every access (tilery-device-check-bounds).
inline constexpr llvm::StringLiteral kCheckBoundsAttr = "core.check_bounds";
inline constexpr llvm::StringLiteral kScratchBytesAttr = "core.scratch_bytes"; // i64
inline constexpr llvm::StringLiteral kSuspendsAttr = "core.suspends";          // unit
inline constexpr llvm::StringLiteral kCommunicatesAttr = "core.communicates";  // unit
inline constexpr llvm::StringLiteral kSitesAttr = "core.sites"; // array of [file, line, column]
inline constexpr llvm::StringLiteral kExtentsAttr = "core.extents"; // i32s: KernelInfo::extents
inline constexpr llvm::StringLiteral kPeersAttr = "device.peers";   // i32s: KernelInfo::peers
// Of kernels for lanes and warps only:
inline constexpr llvm::StringLiteral kThreadsAttr = "simt.threads";          // i32, of a block
inline constexpr llvm::StringLiteral kSharedBytesAttr = "simt.shared_bytes"; // i64
inline constexpr llvm::StringLiteral kCanFailAttr = "simt.can_fail";         // unit
inline constexpr llvm::StringLiteral kMessagesAttr = "simt.messages";        // array of strings

struct LowerOptions {
  /// Stages whose text is kept in CompiledCode::text: "core" (after target-independent
  /// simplification), "vector" or "simt" (Target::tileStage), "llvm", "asm" or "ptx"
  /// (Target::assemblyStage).
  std::vector<std::string> capture;
  /// Print the time of each pass to stderr.
  bool timePasses = false;
  /// Print the module to stderr after the pass of this flag name ("convert-core-to-vector"),
  /// or after each pass for "all".
  std::string dumpAfter;
};

/// Every dialect and interface that lowering uses; call once on a registry.
void registerLoweringDialects(mlir::DialectRegistry &registry);

/// Lowers `module` in place and emits code. User errors were reported as MLIR diagnostics;
/// the returned error then says only that lowering failed.
llvm::Expected<CompiledCode> compileModule(mlir::ModuleOp module, const Target &target,
                                           const LowerOptions &options = {});

} // namespace tilery
