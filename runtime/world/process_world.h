// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Worlds in which each rank is a process.
#pragma once

#include "runtime/world/job.h"
#include "runtime/world/world.h"

#include <memory>

namespace tilery::rt {

/// Joins the job that the options or a launcher's variables name; without any, or for a job of
/// one rank, a world of one rank that opens no socket.
std::unique_ptr<World> joinWorld(const JobOptions &job, WorldOptions options);

} // namespace tilery::rt
