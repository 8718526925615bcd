// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Passes shared by all machines of lanes and warps.
#pragma once

#include "compiler/Target/Simt/Machine.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Pass/Pass.h"

namespace tilery::simt {

#define GEN_PASS_DECL
#include "compiler/Target/Simt/Passes.h.inc"

/// `machine` must outlive the passes.
std::unique_ptr<mlir::Pass> createAssignLayouts(const Machine &machine, unsigned numWarps);
/// `numStages`: tiles of a loop in shared memory at a time, unless the loop says otherwise;
/// `mostStages` limits both.
std::unique_ptr<mlir::Pass> createPipelineLoads(const Machine &machine, unsigned numStages,
                                                unsigned mostStages);
std::unique_ptr<mlir::Pass> createStoreRows(const Machine &machine, unsigned numWarps);
std::unique_ptr<mlir::Pass> createLowerTiles(const Machine &machine, unsigned numWarps,
                                             bool timeline = false);

} // namespace tilery::simt
