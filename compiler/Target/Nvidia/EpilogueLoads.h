// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Tiles that a kernel loads behind its products: residuals, parts of sums. Without help all
// instances ask for them at about the same time, when there is nothing else to do.
#pragma once

#include "compiler/Target/Nvidia/RingPlan.h"

namespace tilery::nvidia {

/// A load that follows a loop of products in the same iteration of a loop around both.
struct EpilogueLoad {
  Load load;
  Attribute map;       ///< recipe for the launcher
  Operation *products; ///< the first loop of products before it; the coordinates are known there
};

std::vector<EpilogueLoad> epilogueLoads(const RingPlan &plan);

} // namespace tilery::nvidia
