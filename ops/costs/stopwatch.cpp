// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Events around launches that are queued behind a kernel which only takes time.
#include "ops/costs/stopwatch.h"

#include "ops/kernels.h"

#include <algorithm>
#include <array>
#include <chrono>

namespace tilery::ops {

Stopwatch::Stopwatch(World &world)
    : world(world), device(tilery_world_device(world.handle())) {
  check(tilery_device_allocate(device, sizeof(int32_t), &word));
  check(tilery_event_create(device, &begin));
  check(tilery_event_create(device, &end));
  constexpr int64_t steps = 200'000;
  auto held = [&] {
    kernel("costs", "hold").launchOn(world.handle(), {}, Memory{word, TILERY_INT32, 4}, steps);
  };
  held(); // compiles and loads it
  stepsPerMicrosecond = double(steps) / std::max(timed(held, 1, 0), 1.0);
}

Stopwatch::~Stopwatch() {
  tilery_synchronize(world.handle(), device);
  tilery_event_destroy(begin);
  tilery_event_destroy(end);
  tilery_device_release(device, word, sizeof(int32_t));
}

void Stopwatch::hold(double microseconds) {
  auto steps = int64_t(microseconds * stepsPerMicrosecond);
  kernel("costs", "hold").launchOn(world.handle(), {}, Memory{word, TILERY_INT32, 4}, steps);
}

void Stopwatch::synchronize() { check(tilery_synchronize(world.handle(), device)); }

// The first call meets the other ranks, whose work before it may take longer.
double Stopwatch::timed(const std::function<void()> &call, int calls, double hostMicroseconds) {
  if (stepsPerMicrosecond > 0)
    hold(hostMicroseconds);
  call();
  check(tilery_event_record(begin, world.handle()));
  for (int i = 0; i < calls; ++i)
    call();
  check(tilery_event_record(end, world.handle()));
  synchronize();
  double elapsed = 0;
  check(tilery_event_elapsed(begin, end, &elapsed));
  return elapsed / calls;
}

double Stopwatch::microseconds(const std::function<void()> &call) {
  using Clock = std::chrono::steady_clock;
  constexpr int rounds = 3, mostCalls = 16, leastCalls = 3;
  constexpr double wanted = 1500, longestHold = 20'000;
  call();
  synchronize();
  Clock::time_point start = Clock::now();
  double first = 0;
  for (double each : world.allGather(timed(call, leastCalls, 0)))
    first = std::max(first, each);
  double perCall = std::chrono::duration<double, std::micro>(Clock::now() - start).count() / leastCalls;
  int calls = std::clamp(int(wanted / std::max(first, 1.0)), leastCalls, mostCalls);
  std::array<double, rounds> times{};
  for (double &time : times)
    time = timed(call, calls, std::min(2 * perCall * (calls + 1), longestHold));
  std::array<double, rounds> slowest{};
  for (const auto &ofRank : world.allGather(times))
    for (int i = 0; i < rounds; ++i)
      slowest[size_t(i)] = std::max(slowest[size_t(i)], ofRank[size_t(i)]);
  std::ranges::sort(slowest);
  return slowest[rounds / 2];
}

} // namespace tilery::ops
