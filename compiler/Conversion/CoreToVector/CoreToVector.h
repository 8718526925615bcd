// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// The edge from core + device to loops over vectors: arith, math, scf, vector and LLVM's
// memory operations.
#pragma once

#include "mlir/Pass/Pass.h"

#include <memory>

namespace tilery {

struct CoreToVectorOptions {
  unsigned vectorBits = 512;
  bool hasBf16Dot = false;
};

std::unique_ptr<mlir::Pass> createCoreToVectorPass(const CoreToVectorOptions &options = {});

/// Makes the pass known to tilery-opt as `convert-core-to-vector`.
void registerCoreToVectorPass();

} // namespace tilery
