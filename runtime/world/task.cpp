// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// One step of one task.
#include "runtime/world/task.h"

namespace tilery::rt {

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
