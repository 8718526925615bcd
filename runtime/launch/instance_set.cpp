// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Slots and stacks of the program instances of one launch.
#include "runtime/launch/instance_set.h"

namespace tilery::rt {

static constexpr size_t WindowSize = 64;

/// Instances with their scratch memory, kept by the rank's thread from launch to launch.
static thread_local std::vector<std::unique_ptr<Instance>> keptInstances;
static constexpr size_t MaxKept = 256;

InstanceSet::InstanceSet(LaunchContext &launch, int64_t slots)
    : launch(launch), transfersPending(!launch.transfers.empty()),
      total(int64_t(launch.grid[0]) * launch.grid[1] * launch.grid[2]), slots(slots) {
  owned.swap(keptInstances);
  for (size_t i = owned.size(); i-- > 0;) {
    owned[i]->row = uint32_t(i + 1);
    idle.push_back(owned[i].get());
  }
}

InstanceSet::~InstanceSet() {
  // Instances still live have failed or been abandoned: their stacks are simply taken back.
  for (Task *task : live)
    launch.world->stacks.give(task->retire());
  if (owned.size() > MaxKept)
    owned.resize(MaxKept);
  keptInstances.swap(owned);
}

Task *InstanceSet::start(uint64_t choice) {
  // The caller may be another rank's thread: the error is this launch's.
  try {
    return transfersPending ? prepareTransfers() : prepareNext(choice);
  } catch (const Error &error) {
    launch.error = error;
    failed = true;
    return nullptr;
  }
}

Instance *InstanceSet::prepareNext(uint64_t choice) {
  // Nothing is counted before everything that can fail is done.
  if (idle.empty()) {
    owned.push_back(std::make_unique<Instance>());
    owned.back()->row = uint32_t(owned.size());
    idle.push_back(owned.back().get());
  }
  Instance *instance = idle.back();
  while (window.size() < (launch.seeded() ? WindowSize : 1) && nextIndex < total)
    window.push_back(nextIndex++);
  size_t pick = choice % window.size();
  instance->begin(launch, window[pick]);
  instance->onFiber = true;
  instance->prepare(launch.world->stacks.take());
  window[pick] = window.back();
  window.pop_back();
  idle.pop_back();
  ++begun;
  return instance;
}

Task *InstanceSet::prepareTransfers() {
  transfers.emplace(*launch.world, launch.transfers);
  transfers->prepare(launch.world->stacks.take());
  transfersPending = false;
  return &*transfers;
}

void InstanceSet::retire(Task *task) {
  launch.world->stacks.give(task->retire());
  if (transfers && task == &*transfers)
    return;
  idle.push_back(static_cast<Instance *>(task));
}

} // namespace tilery::rt
