// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/launch/device_workspace.h"

#include <bit>
#include <map>
#include <mutex>
#include <tuple>

namespace tilery::rt {

namespace {
struct Workspace {
  void *memory = nullptr;
  size_t bytes = 0;
};
struct Workspaces {
  std::mutex mutex;
  std::map<std::tuple<hal::Driver *, int, hal::Stream, uint64_t>, Workspace> made;
};
} // namespace

void *deviceWorkspace(hal::DeviceRef where, hal::Stream stream, size_t bytes) {
  static Workspaces all;
  uint64_t recording = where.driver->recordingOf(where.device, stream);
  std::lock_guard lock(all.mutex);
  Workspace &found = all.made[{where.driver, where.device, stream, recording}];
  if (found.bytes < bytes) {
    // The smaller one stays: launches under way and recordings use it.
    size_t size = std::bit_ceil(bytes);
    found = {where.driver->allocate(size, where.device), size};
  }
  return found.memory;
}

} // namespace tilery::rt
