// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// What calls take on a device, without the time that the host needs to launch them.
#pragma once

#include "tilery/tilery.hpp"

#include <functional>
#include <vector>

namespace tilery::ops {

/// Of one rank of a world on devices. Times are the slowest rank's, the same on all ranks.
class Stopwatch {
public:
  explicit Stopwatch(World &world) : world(world), device(tilery_world_device(world.handle())) {}

  /// Collective: what one of several `call`s takes that follow each other in a graph, a quantile of so
  /// many rounds. The device does not rest between rounds: clocks are those of a device at work.
  double microseconds(const std::function<void()> &call, int rounds = 5, double quantile = 0.5);

private:
  double slowest(double value);

  World &world;
  int32_t device;
};

} // namespace tilery::ops
