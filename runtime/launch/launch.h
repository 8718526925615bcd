// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Runs a grid of program instances of a compiled kernel on this rank.
#pragma once

#include "runtime/launch/kernel_image.h"
#include "runtime/launch/transfer_plan.h"
#include "runtime/world/world.h"

namespace tilery::rt {

struct Grid {
  int64_t x = 1;
  int64_t y = 1;
  int64_t z = 1;
};

struct LaunchOptions {
  /// For each wait of the kernel; < 0: the world's, 0: none.
  double timeoutSeconds = -1;
  /// Of a device; null: the world's stream there, else the device's default one.
  void *stream = nullptr;
  /// Copies that run beside the grid.
  std::span<const tilery_transfer> transfers = {};
};

/// Returns when all program instances have finished; on a device that loads code, when the grid is
/// in the stream, and what fails in it is raised by a later launch or by synchronizeDevice.
/// `arguments` has one slot a parameter (see
/// tilery_kernel_entry). `world` may be null when the kernel does not communicate. An extent of 0
/// does nothing. Raises LaunchError (grid, residency, a failed device assertion), WaitTimeout or
/// PeerError; after a failure while it communicates, the world cannot be used any more.
void launchKernel(World *world, const KernelImage &image, const Grid &grid,
                  const uint64_t *arguments, const LaunchOptions &options = {});

/// The longest grid of a kernel whose instances wait, without a limit on residency.
inline constexpr int64_t MaxResidentInstances = 16384;

} // namespace tilery::rt
