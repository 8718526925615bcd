// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// The edge from core + device to loops over vectors: arith, math, scf, vector and LLVM's
// memory operations. Choices of meaning: x / 0 is 0 and x % 0 is x; float to integer
// saturates and gives 0 for NaN; a load without `other` gives 0 where its mask is 0; fp16 and
// bf16 are computed in fp32 and rounded after each operation, sums of them once at the end.
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
