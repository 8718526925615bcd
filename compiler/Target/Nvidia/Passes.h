// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Passes of NVIDIA GPUs.
#pragma once

#include "compiler/Target/Simt/IR/Simt.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Pass/Pass.h"

namespace tilery::nvidia {

#define GEN_PASS_DECL
#include "compiler/Target/Nvidia/Passes.h.inc"

/// Loops of products over tiles that bulk copies can bring become producer and consumer warps:
/// SpecialiseWarps.cpp says how. `numStages`: slots of a ring, where shared memory suffices.
std::unique_ptr<mlir::Pass> createSpecialiseWarps(unsigned numWarps, unsigned numStages,
                                                  int64_t sharedBytes);
/// Results of products leave by bulk copies where tensor maps describe their stores.
std::unique_ptr<mlir::Pass> createStoreTiles(unsigned numWarps, int64_t sharedBytes);

/// Makes these passes and those of Simt (for an sm_90a) known to tilery-opt, and the pipelines
/// `tilery-nvidia-tiles` and `tilery-nvidia-threads` for any GPU.
void registerPasses();

} // namespace tilery::nvidia
