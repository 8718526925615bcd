// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// NVIDIA GPUs: tiles become threads' registers and shared memory, then PTX, which the driver
// assembles.
#pragma once

#include "compiler/Target/Nvidia/NvidiaMachine.h"
#include "compiler/Target/Target.h"

namespace tilery::nvidia {

/// What to generate code for, and the launch options that change code.
struct NvidiaOptions {
  unsigned capability = 90;  ///< 80, 86, 89, 90, 100, 120, ...
  bool archSpecific = true;  ///< sm_90a rather than sm_90: wgmma and its like
  unsigned ptxVersion = 80;  ///< 80 = 8.0; the highest that the driver takes, up to LLVM's, where it
                             ///< is known, else what this GPU's instructions need
  unsigned numWarps = 4;
  unsigned numStages = 3;
  unsigned mostStages = 16; ///< limits loops that say how many as well
  unsigned maxRegisters = 0; ///< a thread; 0: no limit
  bool fpFusion = true;
  bool timeline = false; ///< kernels write events (gpu_abi.h)
  bool roles = true; ///< loops of products by producer and consumer warps, where they fit
  bool stagedStores = true; ///< results of products leave by copies, where they fit

  /// "sm_90a", "sm_80", ...; an error that names the known ones.
  static llvm::Expected<NvidiaOptions> fromName(llvm::StringRef arch);
  std::string arch() const;
  /// Takes the driver's newest version, within what LLVM writes and this GPU needs.
  void limitPtx(unsigned newest);
};

class NvidiaTarget : public Target {
public:
  explicit NvidiaTarget(NvidiaOptions options)
      : options(options), machine(options.capability, options.ptxVersion) {}

  llvm::StringRef name() const override { return "nvidia"; }
  llvm::StringRef tileStage() const override { return "simt"; }
  llvm::StringRef assemblyStage() const override { return "ptx"; }
  std::string description() const override;
  std::unique_ptr<Target> withLess() const override;
  void addTilePasses(mlir::OpPassManager &passes) const override;
  void addFinalPasses(mlir::OpPassManager &passes) const override;
  void describe(mlir::Operation *function, KernelInfo &info) const override;
  llvm::Expected<CompiledCode> emit(mlir::ModuleOp module,
                                    const EmitOptions &options) const override;

private:
  bool hasRoles() const;

  NvidiaOptions options;
  NvidiaMachine machine;
};

} // namespace tilery::nvidia
