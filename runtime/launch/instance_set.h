// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// The program instances of one launch as a scheduler's tasks: begun lazily, in a limited number
// of slots.
#pragma once

#include "runtime/launch/instance.h"
#include "runtime/launch/transfer_plan.h"

#include <memory>
#include <vector>

namespace tilery::rt {

class InstanceSet final : public TaskSet {
public:
  InstanceSet(LaunchContext &launch, int64_t slots);
  ~InstanceSet() override;

  bool canStart() const override {
    return transfersPending || (begun < total && int64_t(live.size()) < slots);
  }
  Task *start(uint64_t choice) override;
  void retire(Task *task) override;

private:
  Instance *prepareNext(uint64_t choice);
  Task *prepareTransfers();

  LaunchContext &launch;
  /// The first task, where there are any.
  std::optional<TransferTask> transfers;
  bool transfersPending;
  const int64_t total;
  const int64_t slots;
  int64_t begun = 0;
  int64_t nextIndex = 0;
  /// The next few instances; a seeded schedule begins any of them.
  std::vector<int64_t> window;
  std::vector<std::unique_ptr<Instance>> owned;
  std::vector<Instance *> idle;
};

} // namespace tilery::rt
