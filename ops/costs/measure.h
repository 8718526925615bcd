// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Calibration: runs the operators' own forms at a few sizes and keeps what they take.
#pragma once

#include "ops/costs/calibration.h"
#include "tilery/tilery.hpp"

namespace tilery::ops {

/// Collective: the figures of the world's devices, the same on all ranks, which are kept for later
/// processes. Throws a LaunchError in a world on the host or of one rank.
Calibration measureCosts(World &world);

} // namespace tilery::ops
