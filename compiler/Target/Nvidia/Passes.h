// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Passes of NVIDIA GPUs.
#pragma once

#include "mlir/Pass/Pass.h"

namespace tilery::nvidia {

/// Loops of products over tiles that bulk copies can bring become producer and consumer warps:
/// SpecialiseWarps.cpp says how. `numStages`: slots of a ring, where shared memory suffices.
std::unique_ptr<mlir::Pass> createSpecialiseWarps(unsigned numWarps, unsigned numStages,
                                                  int64_t sharedBytes);

} // namespace tilery::nvidia
