// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// The x86-64 CPU target: tiles become loops over vectors, device operations calls through
// the runtime's table (include/tilery/kernel_abi.h).
#pragma once

#include "compiler/Target/Target.h"

namespace tilery::cpu {

/// The machine to generate code for.
struct CpuOptions {
  std::string cpu;      ///< LLVM's processor name, "znver5"
  std::string features; ///< LLVM's feature string, "+avx2,+fma,..."
  unsigned vectorBits = 256;
  bool hasBf16Dot = false; ///< AVX512-BF16's vdpbf16ps
  bool fpFusion = true;    ///< a * b + c may be rounded once

  /// This machine with everything it has.
  static llvm::Expected<CpuOptions> fromHost();
  /// "native", "avx512" (the common server subset, no bf16 dot) or "avx2"; an error that
  /// names the choices, or the feature that this machine lacks.
  static llvm::Expected<CpuOptions> fromName(llvm::StringRef name);
};

class CpuTarget : public Target {
public:
  explicit CpuTarget(CpuOptions options) : options(std::move(options)) {}

  llvm::StringRef name() const override { return "cpu"; }
  std::string description() const override;
  bool runtimeChecksSignals() const override { return true; }
  void addTilePasses(mlir::OpPassManager &passes) const override;
  void addFinalPasses(mlir::OpPassManager &passes) const override;
  llvm::Expected<CompiledCode> emit(mlir::ModuleOp module,
                                    const EmitOptions &options) const override;

private:
  CpuOptions options;
};

} // namespace tilery::cpu
