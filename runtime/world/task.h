// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// What a scheduler sees of program instances: tasks that are ready, parked on a predicate, or
// done, and the set of tasks of one launch on one rank.
#pragma once

#include "runtime/base/clock.h"
#include "runtime/world/fiber.h"
#include "runtime/world/predicate.h"

#include <string>
#include <vector>

namespace tilery::rt {

enum class TaskState : uint8_t { Ready, Yielded, Parked, Done, Failed };

class Task : public Fiber {
public:
  TaskState state = TaskState::Ready;
  /// Meaningful while parked.
  Predicate predicate;
  /// When the wait, or the polling, has lasted too long.
  Deadline deadline;
  /// For the seeded scheduler, which runs the tasks of all ranks.
  int rank = 0;

  bool waiting() const { return state == TaskState::Parked || state == TaskState::Yielded; }
  bool runnable() const {
    return state == TaskState::Ready || state == TaskState::Yielded ||
           (state == TaskState::Parked && predicate.holds());
  }
  /// Kernel, program instance, source line, signal, expected and seen: lines of a report.
  virtual std::string report() const = 0;
  /// Identifies the program instance in the hash of a schedule.
  virtual int64_t number() const = 0;
};

class TaskSet {
public:
  virtual ~TaskSet() = default;
  /// True while there are program instances not begun and a slot for one.
  virtual bool canStart() const = 0;
  /// Begins one more; `choice` is random, for schedules that pick any of the next few. Null, and
  /// `failed`, when there is no memory for it.
  virtual Task *start(uint64_t choice) = 0;
  /// Takes a finished task's stack and slot.
  virtual void retire(Task *task) = 0;

  bool complete() const { return live.empty() && !canStart(); }
  bool failed = false;
  std::vector<Task *> live;

  /// The reports of the first few that wait.
  std::string describeWaits() const;
  /// Runs one task until it suspends; takes it out of `live` when it is done.
  void step(size_t index);
};

} // namespace tilery::rt
