// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// The driver's structures for memory that several devices and processes map.
#pragma once

#include <cstdint>

namespace tilery::rt::hal::cuda {

/// CUmemLocation, CUmemAllocationProp, CUmemAccessDesc, CUuuid, CUipcMemHandle.
struct MemoryLocation {
  uint32_t type = 1; // a device
  int32_t device = 0;
};
struct MemoryProperties {
  uint32_t type = 1;        // pinned
  uint32_t handleTypes = 1; // file descriptors
  MemoryLocation location;
  void *reserved = nullptr;
  uint8_t flags[8] = {};
};
static_assert(sizeof(MemoryProperties) == 32);
inline constexpr uint32_t DescriptorHandle = 1;
struct MemoryAccess {
  MemoryLocation location;
  uint32_t flags = 3; // reads and writes
};
static_assert(sizeof(MemoryAccess) == 12);
struct Uuid {
  uint8_t bytes[16];
};
struct IpcHandle {
  unsigned char bytes[64];
};
inline constexpr unsigned IpcLazyPeerAccess = 1;

} // namespace tilery::rt::hal::cuda
