// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Rounds over the live instances: those whose predicate holds run, the others cost one load
// each; a round in which nothing happened is idle time.
#include "runtime/launch/fiber_loop.h"

#include "runtime/world/idle_wait.h"

#include <algorithm>

namespace tilery::rt {

namespace {
class FiberLoop {
public:
  FiberLoop(LaunchContext &launch, InstanceSet &set)
      : launch(launch), domain(*launch.world->domain), set(set),
        idle(domain, launch.seat(), LongestNapNs) {}

  bool run() {
    while (!set.complete() && !set.failed) {
      if (domain.failed())
        return false;
      bool progress = runLive();
      progress |= startSome();
      if (!set.failed && interrupted()) {
        launch.error = InterruptPoll::error();
        set.failed = true;
      } else if (progress)
        busyRound();
      else
        idleRound();
    }
    return true;
  }

private:
  static constexpr int64_t LongestNapNs = 2'000'000;
  static constexpr int StartsPerRound = 8;

  bool runLive() {
    bool progress = false;
    for (size_t i = 0; i < set.live.size() && !set.failed;) {
      Task *task = set.live[i];
      if (!task->runnable()) {
        ++i;
        continue;
      }
      bool polled = task->state == TaskState::Yielded;
      set.step(i);
      bool gone = i >= set.live.size() || set.live[i] != task;
      // A polling loop that polls again has got no further.
      progress |= gone || !polled || task->state != TaskState::Yielded;
      i += gone ? 0 : 1;
    }
    return progress;
  }

  bool startSome() {
    int started = 0;
    for (; started < StartsPerRound && set.canStart() && !set.failed; ++started) {
      if (Task *task = set.start(0)) {
        set.live.push_back(task);
        set.step(set.live.size() - 1);
      }
    }
    return started > 0;
  }

  void busyRound() {
    idle.reset();
    if ((++rounds & 1023) == 0)
      checkDeadlines(nowNs());
  }

  void idleRound() {
    int64_t now = idle.pause([this] { return domain.failed() || anyHolds(); }, !anyPolls());
    if (idle.deadlocked(now) && !domain.failed() && !anyHolds())
      failDeadlocked();
    else
      checkDeadlines(now);
  }

  bool anyHolds() const {
    return std::any_of(set.live.begin(), set.live.end(), [](const Task *task) {
      return task->state == TaskState::Parked && task->runnable();
    });
  }
  bool anyPolls() const {
    return std::any_of(set.live.begin(), set.live.end(),
                       [](const Task *task) { return task->state == TaskState::Yielded; });
  }

  void failDeadlocked() {
    try {
      launch.world->failDeadlocked(set.describeWaits());
    } catch (const Error &error) {
      launch.error = error;
      set.failed = true;
    }
  }

  void checkDeadlines(int64_t now) {
    for (Task *task : set.live)
      if (task->waiting() && task->deadline.passed(now) &&
          !(task->state == TaskState::Parked && task->runnable())) {
        fail(*task);
        return;
      }
  }

  void fail(const Task &task) {
    launch.error = Error(
        TILERY_WAIT_TIMEOUT,
        fmt::format("wait timed out after {} s\n  {}{}\nhint: find the notify that should come "
                    "first; a rank that is only late needs a larger timeout (timeout_s, "
                    "TILERY_TIMEOUT_S; 0 waits for ever)",
                    launch.timeoutSeconds, task.report(), domain.describePeers(launch.seat())));
    set.failed = true;
  }

  LaunchContext &launch;
  Domain &domain;
  InstanceSet &set;
  IdleWait idle;
  InterruptPoll interrupted;
  uint64_t rounds = 0;
};
} // namespace

bool runFibers(LaunchContext &launch, InstanceSet &instances) {
  return FiberLoop(launch, instances).run();
}

} // namespace tilery::rt
