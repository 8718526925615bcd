// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// What calls take on a device, without the time that the host needs to launch them.
#pragma once

#include "tilery/tilery.hpp"

#include <functional>

namespace tilery::ops {

/// Of one rank of a world on devices. Times are the slowest rank's, the same on all ranks.
class Stopwatch {
public:
  explicit Stopwatch(World &world);
  ~Stopwatch();
  Stopwatch(const Stopwatch &) = delete;

  /// Collective: what one of several `call`s behind each other takes. They are launched while the
  /// device is busy with other work, so that it never waits for the host.
  double microseconds(const std::function<void()> &call);
  /// An empty launch.
  void launchNothing() { hold(0); }

private:
  void hold(double microseconds);
  void synchronize();
  double timed(const std::function<void()> &call, int calls, double hostMicroseconds);

  World &world;
  int32_t device = 0;
  void *word = nullptr;
  tilery_event *begin = nullptr, *end = nullptr;
  double stepsPerMicrosecond = 0;
};

} // namespace tilery::ops
