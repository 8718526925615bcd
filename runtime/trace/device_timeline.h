// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// The part of a rank's timeline that its kernels on a device write themselves.
#pragma once

#include "runtime/hal/driver.h"
#include "runtime/trace/trace.h"
#include "tilery/gpu_abi.h"

#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace tilery::rt {

/// What events call by number.
struct TracedKernel {
  std::string name;
  struct Place {
    std::string at;     // "ring.py:12"
    std::string signal; // what is waited for there, in the user's words: "ready + owner"
  };
  std::vector<Place> places;
  /// Rank in the whole world of each rank of the kernel's world.
  std::vector<int> seats;
};

/// Before kernels run that wait for each other: `count` timelines can be made without asking the
/// device for anything. A LaunchError when its clock cannot be read.
void prepareTimelines(hal::DeviceRef where, int count);

/// One rank's events on one device. Its ring outlives it: a recorded graph may run kernels at any
/// time.
class DeviceTimeline {
public:
  explicit DeviceTimeline(hal::DeviceRef where);
  ~DeviceTimeline();
  DeviceTimeline(const DeviceTimeline &) = delete;

  /// In the device's memory.
  tilery_gpu_trace *ring() const { return events; }
  /// The number of the kernel in events.
  uint32_t add(TracedKernel kernel);
  /// Moves what was written since the last time to the rank's timeline, on the host's clock.
  /// Kernels of interest must have ended.
  void collect(Trace &trace);

  const hal::DeviceRef where;

private:
  int64_t onHost(uint64_t deviceNs) const;
  void give(Trace &trace, const struct DeviceSpan &span) const;

  std::mutex mutex;
  tilery_gpu_trace *events = nullptr;
  std::vector<TracedKernel> kernels;
  uint64_t collected = 0;
  hal::ClockReading first, last;
};

/// Of one rank, one for each device that it uses.
class DeviceTimelines {
public:
  /// Made when it is asked for first.
  DeviceTimeline &of(hal::DeviceRef where);
  /// Waits for all of these devices.
  void synchronize();
  void collect(Trace &trace);

private:
  std::mutex mutex;
  std::vector<std::unique_ptr<DeviceTimeline>> all;
};

} // namespace tilery::rt
