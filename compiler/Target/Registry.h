// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Targets by name; the one place of the compiler that lists the vendors' folders.
#pragma once

#include "compiler/Target/Target.h"
#include "mlir/IR/DialectRegistry.h"

#include <memory>
#include <string>
#include <vector>

namespace tilery {

/// What a launch or the command line says about the code beyond the machine. A target takes
/// what it has a use for; what it took is part of its description().
struct TargetOptions {
  int32_t numWarps = 4, numStages = 3, numCtas = 1;
  /// Registers a thread may use, 0: the target chooses.
  int32_t maxRegisters = 0;
  bool fpFusion = true, debug = false;
  /// Kernels on devices write what happens in them to the timeline (gpu_abi.h).
  bool timeline = false;
  /// Newest version of the assembly language that the machine's driver takes, major * 10 +
  /// minor; 0: the oldest that has what the target needs.
  int32_t assemblyVersion = 0;
  /// Of "cpu" only: "native", "avx512" or "avx2".
  std::string cpu = "native";
};

/// The dialects that targets lower through.
void registerTargetDialects(mlir::DialectRegistry &registry);

/// Makes the passes of targets known to tilery-opt.
void registerTargetPasses();

/// "cpu", "sm_90a", ...: what makeTarget takes.
std::vector<std::string> targetNames();

/// The error lists the names when there is no such target, or says what the machine lacks.
llvm::Expected<std::unique_ptr<Target>> makeTarget(llvm::StringRef name,
                                                   const TargetOptions &options);

} // namespace tilery
