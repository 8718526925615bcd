// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// One step of one task, and reports of many.
#include "runtime/world/task.h"

#include <fmt/format.h>

namespace tilery::rt {

std::string TaskSet::describeWaits() const {
  constexpr int MaxListed = 8;
  std::string text;
  int waiting = 0;
  for (const Task *task : live)
    if (task->waiting() && ++waiting <= MaxListed)
      text += (waiting > 1 ? "\n  " : "") + task->report();
  if (waiting > MaxListed)
    text += fmt::format("\n  ... and {} more", waiting - MaxListed);
  return text;
}

void TaskSet::step(size_t index) {
  Task *task = live[index];
  task->state = TaskState::Ready;
  task->resume();
  if (task->state == TaskState::Failed)
    failed = true;
  if (task->state != TaskState::Done)
    return;
  live[index] = live.back();
  live.pop_back();
  retire(task);
}

} // namespace tilery::rt
