// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// The reproducible schedule of an in-process world: one step at a time over all ranks, drawn
// from a seed.
#pragma once

#include "runtime/base/clock.h"
#include "runtime/base/random.h"
#include "runtime/world/delayed_writes.h"
#include "runtime/world/task.h"

#include <condition_variable>
#include <functional>
#include <mutex>
#include <vector>

namespace tilery::rt {

class Domain;

/// A wait of the host side of a rank.
struct HostWait {
  Predicate predicate;
  Deadline deadline;
  /// For reports: "rank 1 (host) waits for ...".
  std::function<std::string()> describe;
  /// Counts for deadlocks among unseeded ranks: false where another thread of the host may end it.
  bool passive = true;
};

/// Algorithm. Each rank's thread runs user code until it blocks here, in a launch or a wait.
///  1) Nothing is chosen while any thread is outside: its next request is not known yet.
///  2) The thread that blocks last drives: it draws a rank and then one of that rank's runnable
///     program instances (or its satisfied host wait, or a delayed write) and runs that one step.
///  3) When the draw releases a rank, driving ends, until that rank's thread blocks again.
///  4) When nothing can run and nothing is in flight, all are deadlocked.
class SeededScheduler {
public:
  SeededScheduler(Domain &domain, uint64_t seed);

  /// Both return false when the world has failed.
  bool wait(int rank, const HostWait &wait);
  bool run(int rank, TaskSet &tasks);

  /// The rank will not come back: it has finalized, or its thread is gone.
  void leave(int rank);
  /// Lets all threads see that the world has failed.
  void failureHappened();

  /// Equal for equal schedules.
  uint64_t hash() const { return scheduleHash; }

  DelayedWrites delayed;

private:
  struct Seat {
    enum class Kind { Outside, Waiting, Running, Gone };
    Kind kind = Kind::Outside;
    const HostWait *wait = nullptr;
    TaskSet *tasks = nullptr;
    std::condition_variable wake;
  };

  bool block(int rank, Seat::Kind kind, const HostWait *wait, TaskSet *tasks);
  bool everyoneBlocked() const { return blocked == present; }
  void drive();
  bool choose();
  bool stepRank(int rank);
  bool stepTasks(int rank, TaskSet &tasks);
  void release(int rank);
  void note(int rank, int64_t what);
  void checkDeadlines();
  bool expired(const Seat &seat, int64_t now, std::string &report) const;
  void reportDeadlock();
  void collectReports(const Seat &seat, std::vector<std::string> &reports) const;

  Domain &domain;
  std::mutex mutex;
  std::vector<Seat> seats;
  int present;
  int blocked = 0;
  Random random;
  uint64_t scheduleHash = 0xcbf29ce484222325ull;
  uint64_t steps = 0;
};

} // namespace tilery::rt
