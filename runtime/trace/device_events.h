// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// From the events that kernels on a device wrote (gpu_abi.h) to what happened when on which
// multiprocessor.
#pragma once

#include "tilery/gpu_abi.h"

#include <cstdint>
#include <span>
#include <vector>

namespace tilery::rt {

/// Program instances of one launch, which are told apart by their numbers: each number runs once.
struct DeviceLaunchSpan {
  uint32_t kernel = 0;
  uint64_t beginNs = 0, endNs = 0;
  int64_t instances = 0;
};

/// An event on its row: instances that share a multiprocessor at a time have a lane each.
struct DeviceSpan {
  tilery_gpu_event event = {};
  uint32_t lane = 0;
};

struct DeviceEvents {
  std::vector<DeviceSpan> spans;
  std::vector<DeviceLaunchSpan> launches;
  /// Time in launches in which every program instance waited.
  uint64_t exposedNs = 0;
};

/// Events that are still there of the tickets from `first` to `next`, in the order of their ends.
std::vector<tilery_gpu_event> writtenEvents(std::span<const tilery_gpu_event> ring, uint64_t first,
                                            uint64_t next);

/// `complete`: none is missing, so that the first tile seen of an instance is its first. Otherwise
/// a tile whose begin is not known is left out.
DeviceEvents arrangeEvents(std::vector<tilery_gpu_event> events, bool complete);

} // namespace tilery::rt
