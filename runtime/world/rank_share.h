// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// What the world of one rank and all its teams have in common.
#pragma once

#include "runtime/trace/device_timeline.h"
#include "runtime/trace/trace.h"
#include "runtime/world/domain.h"
#include "runtime/world/fiber.h"
#include "runtime/world/heap_layout.h"
#include "runtime/world/peer_memory.h"
#include "runtime/world/registered.h"

#include <mutex>
#include <string>

namespace tilery::rt {

/// Written by all threads of the rank.
struct LaunchNotes {
  std::mutex mutex;
  /// Of all of them together, in seconds; infinite when a wait has no limit.
  double longestWaits = 0;
  std::string last;
};

/// What the world of one rank and all its teams have in common.
struct RankShare {
  explicit RankShare(const WorldOptions &options)
      : layout(options.heapBytes), trace(!options.trace.empty()) {}
  HeapLayout layout;
  Trace trace;
  /// What kernels on devices add to it.
  DeviceTimelines timelines;
  StackPool stacks;
  PeerMemory peers;
  RegisteredObjects registered;
  int teams = 0;
  bool finalized = false;
  /// Of a rank that shares a device, since its launches were last waited for.
  LaunchNotes launches;
};

struct SerialNumber {
  SerialNumber();
  operator uint64_t() const { return value; }
  const uint64_t value;
};

} // namespace tilery::rt
