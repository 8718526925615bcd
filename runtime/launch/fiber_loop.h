// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// The scheduler of an unseeded rank: its thread runs its own program instances.
#pragma once

#include "runtime/launch/instance_set.h"

namespace tilery::rt {

/// Until all are done. Returns false when the world failed meanwhile; a failed instance is in
/// `launch.error`.
bool runFibers(LaunchContext &launch, InstanceSet &instances);

} // namespace tilery::rt
