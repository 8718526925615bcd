// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Worlds within one process.
#pragma once

#include "runtime/world/world.h"

namespace tilery::rt {

/// N ranks in this process, each driven by a thread of the caller.
class Group {
public:
  explicit Group(WorldOptions options);
  /// Once for each rank.
  std::unique_ptr<World> bind(int rank);
  void abort(int rank, std::string_view reason);
  int size() const { return domain->size(); }
  /// Equal for equal schedules of a seeded group; 0 without a seed.
  uint64_t scheduleHash() const;

private:
  std::shared_ptr<Domain> domain;
};

/// A world of one rank in this process.
std::unique_ptr<World> makeSingleWorld(WorldOptions options);

} // namespace tilery::rt
