// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/launch/launch_turn.h"

#include "runtime/base/clock.h"
#include "runtime/world/idle_wait.h"
#include "runtime/world/world.h"

#include <algorithm>
#include <chrono>
#include <thread>

namespace tilery::rt {

static constexpr int64_t MostPatienceNs = 100'000'000, LeastPatienceNs = 100'000;

/// Whether all ranks but this one that are there are so far.
template <typename IsSoFar> static bool others(World &world, IsSoFar isSoFar) {
  for (int rank = 0; rank < world.size(); ++rank)
    if (rank != world.rank() && !isSoFar(world.gate->ranks[size_t(rank)]) &&
        world.domain->control.rank(world.seat(rank)).state.load() == RankState::Live)
      return false;
  return true;
}

/// Waits, briefly without giving up the processor, for `ready`, or until `enough(now)`.
template <typename Ready, typename Enough>
static bool await(World &world, Ready ready, Enough enough) {
  constexpr int64_t SpinNs = 50'000;
  int64_t begin = nowNs();
  Deadline deadline = Deadline::after(world.timeoutSeconds());
  InterruptPoll interrupted;
  while (!ready()) {
    int64_t now = nowNs();
    if (enough(now) || deadline.passed(now))
      return false;
    if (interrupted())
      world.failWith(InterruptPoll::error());
    world.requireUsable();
    if (now - begin > SpinNs)
      std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  return true;
}

// A rank that has come to a launch which all have come to is about to make it: should the driver
// now wait for the grids of those that have made theirs, it would have to wait, too.
Preparation::Preparation(World *world) {
  if (!world || !world->gate)
    return;
  count = &world->domain->preparing;
  ++*count;
  uint64_t own = world->gate->ranks[size_t(world->rank())].announced;
  auto hasMade = [own](const LaunchGate::Rank &rank) {
    return rank.made.load(std::memory_order_acquire) >= std::min(own, rank.announced.load());
  };
  try {
    await(
        *world, [&] { return others(*world, hasMade); }, [](int64_t) { return false; });
  } catch (...) {
    --*count;
    throw;
  }
}

Preparation::~Preparation() {
  if (count)
    --*count;
}

static void awaitOthers(World &world, uint64_t launches, int64_t patienceNs) {
  LaunchGate::Rank &own = world.gate->ranks[size_t(world.rank())];
  int64_t quietSince = nowNs();
  auto haveCome = [&] {
    return others(world, [launches](const LaunchGate::Rank &rank) {
      return rank.announced.load(std::memory_order_acquire) >= launches;
    });
  };
  auto isQuiet = [&](int64_t now) {
    if (world.domain->preparing.load(std::memory_order_acquire) > 0)
      quietSince = now;
    return now - quietSince >= patienceNs;
  };
  bool met = await(world, haveCome, isQuiet);
  int64_t shorter = own.patienceNs > LeastPatienceNs ? own.patienceNs / 2 : 0;
  own.patienceNs = met ? MostPatienceNs : shorter;
}

LaunchTurn::LaunchTurn(World &world, bool waits, bool fresh)
    : own(world.gate->ranks[size_t(world.rank())]) {
  uint64_t launches = own.announced.fetch_add(1) + 1;
  if (!waits)
    return;
  try {
    awaitOthers(world, launches, fresh ? MostPatienceNs : own.patienceNs.load());
  } catch (...) {
    ++own.made;
    throw;
  }
}

LaunchTurn::~LaunchTurn() { own.made.fetch_add(1, std::memory_order_release); }

} // namespace tilery::rt
