// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// How a rank's thread idles: a short spin, then sleep on its doorbell. Compiled kernels also
// change memory by plain atomics that ring no bell, so sleep is cut into naps. Ranks that all idle
// find out that they are deadlocked.
#pragma once

#include "runtime/base/clock.h"
#include "runtime/world/domain.h"

#include <algorithm>
#include <vector>

namespace tilery::rt {

/// Waits ask `check` now and then; when it is not 0 their world fails as interrupted. Null: no one.
void setInterruptCheck(int (*check)());
/// For waits before there is a world: a LaunchError when the program was interrupted.
void raiseIfInterrupted();

/// For threads that compute: asks the interrupt check too, about ten times a second. Cheap enough
/// to be called before each program instance.
class InterruptPoll {
public:
  /// Whether the program was interrupted.
  bool operator()();
  static Error error();

private:
  int64_t nextNs = 0;
};

class IdleWait {
public:
  /// `longestNapNs` bounds how late a change without a ring is noticed.
  IdleWait(Domain &domain, int rank, int64_t longestNapNs = 4'000'000);
  ~IdleWait() { unstick(); }
  IdleWait(const IdleWait &) = delete;

  /// Idles once, unless `ready()`; returns the time. `passive`: the rank does nothing until
  /// `ready()`, so it counts for the detection of deadlocks.
  template <typename Ready> int64_t pause(Ready ready, bool passive = true) {
    int64_t now = nowNs();
    if (idleSince == 0)
      idleSince = now;
    if (now - idleSince < spinNs)
      spin();
    else
      nap(ready, passive);
    checkInterrupt(now);
    return now;
  }
  /// Something happened: spin again next time.
  void reset() {
    idleSince = 0;
    napNs = FirstNapNs;
    unstick();
  }

  /// All ranks are passive, and have been for long enough that each has tested its predicates
  /// again in vain since: nobody is left who could change anything.
  bool deadlocked(int64_t now);

private:
  static constexpr int64_t FirstNapNs = 50'000;

  static void spin() {
    for (int i = 0; i < 32; ++i)
      __builtin_ia32_pause();
  }
  template <typename Ready> void nap(Ready ready, bool passive) {
    uint32_t ticket = cell.doorbell.load(std::memory_order_acquire);
    cell.sleeping.store(1, std::memory_order_relaxed);
    // Pairs with the fence in Domain::ring.
    fullFence();
    if (!ready())
      sleep(ticket, passive);
    cell.sleeping.store(0, std::memory_order_relaxed);
  }
  void sleep(uint32_t ticket, bool passive);
  void checkInterrupt(int64_t now);
  void unstick() {
    if (cell.stuck.load(std::memory_order_relaxed) == 0)
      return;
    cell.resumed.fetch_add(1, std::memory_order_release);
    cell.stuck.store(0, std::memory_order_release);
  }
  bool everyoneStuck(uint64_t &resumed, std::vector<uint32_t> &tested) const;

  Domain &domain;
  const int rank;
  RankCell &cell;
  int64_t longestNapNs;
  int64_t spinNs;
  int64_t idleSince = 0;
  int64_t interruptCheckedAt = 0;
  int64_t stuckSince = 0;
  uint64_t resumedThen = 0;
  std::vector<uint32_t> testedThen;
  int64_t napNs = FirstNapNs;
};

} // namespace tilery::rt
