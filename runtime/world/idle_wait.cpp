// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Naps on the doorbell.
#include "runtime/world/idle_wait.h"

#include "runtime/base/futex.h"
#include "runtime/base/knobs.h"

#include <ctime>
#include <thread>

namespace tilery::rt {

// Spinning with more ranks than cores keeps the rank that would notify off the core
// (measured: 6.9 ms a hop with 8 ranks on 2 cores).
static int64_t spinTime(const Domain &domain) {
  static const int cores = int(std::max(1u, std::thread::hardware_concurrency()));
  return domain.size() > cores ? 0 : knobs().spinMicroseconds * 1000;
}

static std::atomic<int (*)()> interruptCheck;

static constexpr const char *Interrupted = "the program was interrupted";

void setInterruptCheck(int (*check)()) { interruptCheck.store(check); }

static bool interrupted() {
  int (*check)() = interruptCheck.load();
  return check && check() != 0;
}

void raiseIfInterrupted() {
  if (interrupted())
    raise(TILERY_LAUNCH_ERROR, "{}", Interrupted);
}

bool InterruptPoll::operator()() {
  constexpr int64_t Period = 100'000'000;
  timespec time;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
  int64_t now = int64_t(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
  if (now < nextNs)
    return false;
  bool first = nextNs == 0; // short launches do not reach the check, which may take a lock
  nextNs = now + Period;
  return !first && interrupted();
}

Error InterruptPoll::error() { return Error(TILERY_LAUNCH_ERROR, Interrupted); }

IdleWait::IdleWait(Domain &domain, int rank, int64_t longestNapNs)
    : domain(domain), rank(rank), cell(domain.control.rank(rank)), longestNapNs(longestNapNs),
      spinNs(spinTime(domain)) {}

// The check may take a lock of the host's language, so short waits do not reach it.
void IdleWait::checkInterrupt(int64_t now) {
  constexpr int64_t Period = 100'000'000;
  if (interruptCheckedAt == 0)
    interruptCheckedAt = now;
  if (now - interruptCheckedAt < Period)
    return;
  interruptCheckedAt = now;
  if (interrupted())
    domain.fail(rank, TILERY_LAUNCH_ERROR, Interrupted);
}

void IdleWait::sleep(uint32_t ticket, bool passive) {
  if (passive) {
    cell.stuck.store(1, std::memory_order_release);
    cell.tested.fetch_add(1, std::memory_order_release);
  } else {
    unstick();
  }
  futexWait(cell.doorbell, ticket, napNs);
  napNs = std::min(napNs * 2, longestNapNs);
}

bool IdleWait::everyoneStuck(uint64_t &resumed, std::vector<uint32_t> &tested) const {
  resumed = 0;
  tested.clear();
  for (int rank = 0; rank < domain.size(); ++rank) {
    const RankCell &other = domain.control.rank(rank);
    // A rank that has finalized will change nothing either.
    if (other.state.load(std::memory_order_acquire) == RankState::Finalized)
      continue;
    tested.push_back(other.tested.load(std::memory_order_acquire));
    resumed += other.resumed.load(std::memory_order_acquire);
    if (other.stuck.load(std::memory_order_acquire) == 0)
      return false;
  }
  return true;
}

bool IdleWait::deadlocked(int64_t now) {
  // Leaves other threads of the host, which we do not know, time to do something.
  constexpr int64_t Grace = 1'000'000'000;
  constexpr uint32_t Tests = 3;
  uint64_t resumed;
  std::vector<uint32_t> tested;
  if (!everyoneStuck(resumed, tested)) {
    stuckSince = 0;
    return false;
  }
  if (stuckSince == 0 || resumed != resumedThen || tested.size() != testedThen.size()) {
    stuckSince = now;
    resumedThen = resumed;
    testedThen = tested;
    return false;
  }
  for (size_t i = 0; i < tested.size(); ++i)
    if (tested[i] - testedThen[i] < Tests)
      return false;
  return now - stuckSince > Grace;
}

} // namespace tilery::rt
