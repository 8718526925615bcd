// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Copies that a launch starts beside its grid (tilery_transfer).
#pragma once

#include "runtime/world/fiber.h"
#include "runtime/world/side_streams.h"
#include "runtime/world/task.h"
#include "tilery/tilery.h"

#include <span>

namespace tilery::rt {

class World;

using Transfers = std::span<const tilery_transfer>;

/// A LaunchError names the transfer that cannot be made. `device` is the kernel's, in the numbering
/// of the public interface.
void checkTransfers(const World *world, int32_t device, Transfers transfers);

/// On the host. In a world with a seed and delay its writes arrive late, data before the signal;
/// then only tasks of the schedule may call it.
void makeTransfer(World &world, const tilery_transfer &transfer);

/// Puts them into side streams of the rank's device; those within the device into `main`.
void enqueueTransfers(World &world, Transfers transfers, hal::Stream main, SideStreams::Fork &fork);

/// Transfers as a task beside the program instances.
class TransferTask final : public Task {
public:
  TransferTask(World &world, Transfers transfers);
  std::string report() const override;
  int64_t number() const override { return -3; }
  void body() override;

private:
  World &world;
  const Transfers transfers;
};

} // namespace tilery::rt
