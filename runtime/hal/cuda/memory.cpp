// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Memory of devices. Giving it back waits for all grids of the device, and asking for more may
// (CUDA Programming Guide, "Implicit Synchronization"). Where ranks share a device, one rank's grid
// may wait for a launch that another has yet to make, so meanwhile nothing is given back and small
// allocations come from a reserve.
#include "runtime/hal/cuda/devices.h"

#include <algorithm>
#include <cstring>

namespace tilery::rt::hal::cuda {

static constexpr size_t Page = 4096, Large = size_t(2) << 20;
static constexpr size_t ReserveBytes = size_t(32) << 20, MostOfReserve = size_t(1) << 20;

static size_t roundUp(size_t value, size_t unit) { return (value + unit - 1) / unit * unit; }

void CudaDriver::zero(DeviceState &state, Address memory, size_t bytes) {
  check(api().memsetAsync(memory, 0, bytes, state.stream), "cuMemsetD8Async", "memory");
  check(api().streamSynchronize(state.stream), "cuStreamSynchronize", "memory");
}

void CudaDriver::clear(void *memory, size_t bytes) {
  if (bytes == 0)
    return;
  DeviceState &state = opened(std::max(deviceOf(memory), 0));
  Scope scope(state.context);
  RelaxedCapture relaxed;
  zero(state, addressOf(memory), bytes);
}

// Kept memory that is not more than twice too large, or a piece of the reserve.
bool CudaDriver::takeHeld(HeldMemory &held, Block &wanted) {
  if (held.holds == 0)
    return false;
  auto found = held.spare.lower_bound({wanted.managed, wanted.bytes});
  if (found != held.spare.end() && found->first.first == wanted.managed &&
      found->first.second <= 2 * wanted.bytes) {
    wanted = found->second;
    held.spare.erase(found);
    return true;
  }
  if (wanted.managed || wanted.bytes > MostOfReserve ||
      wanted.bytes > held.reserveLeft)
    return false;
  wanted.begin = held.reserve;
  wanted.reserved = true;
  held.reserve += wanted.bytes;
  held.reserveLeft -= wanted.bytes;
  return true;
}

Block CudaDriver::take(int device, size_t bytes, bool managed) {
  // The driver aligns to 256 bytes, and only large allocations to more than a page.
  size_t slack = bytes < Large ? Page : 0;
  Block block{0, roundUp(std::max<size_t>(bytes, 1), Page) + slack, device, managed, false};
  {
    std::lock_guard lock(mutex);
    if (takeHeld(heldMemory[device], block))
      return block;
  }
  Result result = managed ? api().memAllocManaged(&block.begin, block.bytes, MemAttachGlobal)
                          : api().memAlloc(&block.begin, block.bytes);
  if (result != Success)
    raise(TILERY_LAUNCH_ERROR, "cannot allocate {} bytes of memory on device {} ({}): {}", bytes,
          device, opened(device).properties.name, describe(result));
  return block;
}

void *CudaDriver::allocate(size_t bytes, int device) {
  DeviceState &state = opened(device);
  Scope scope(state.context);
  RelaxedCapture relaxed;
  Block block = take(device, bytes, false);
  zero(state, block.begin, block.bytes);
  Address aligned = roundUp(block.begin, Page);
  std::lock_guard lock(mutex);
  allocated[aligned] = block;
  return reinterpret_cast<void *>(aligned);
}

void *CudaDriver::allocateShared(size_t bytes, int device) {
  DeviceState &state = opened(device);
  Scope scope(state.context);
  RelaxedCapture relaxed;
  if (!state.concurrentManaged)
    raise(TILERY_TARGET_ERROR,
          "device {} ({}) cannot share memory with the host while it runs: it has no concurrent "
          "managed access",
          device, state.properties.name);
  Block block = take(device, bytes, true);
  zero(state, block.begin, block.bytes);
  Address aligned = roundUp(block.begin, Page);
  std::lock_guard lock(mutex);
  allocated[aligned] = block;
  return reinterpret_cast<void *>(aligned);
}

void *CudaDriver::allocateHost(size_t bytes, int device) {
  Scope scope(opened(device).context);
  RelaxedCapture relaxed;
  void *memory = nullptr;
  check(api().memHostAlloc(&memory, bytes, HostPortable | HostMapped), "cuMemHostAlloc",
        "failure records");
  std::memset(memory, 0, bytes);
  return memory;
}

void CudaDriver::release(void *memory, size_t) {
  if (!memory || releaseReachable(memory))
    return;
  Block block;
  {
    std::lock_guard lock(mutex);
    auto found = allocated.find(addressOf(memory));
    if (found == allocated.end())
      raise(TILERY_INTERNAL_ERROR, "{} is no device memory; this is a bug in tilery", memory);
    block = found->second;
    allocated.erase(found);
    HeldMemory &held = heldMemory[block.device];
    if (held.holds > 0 || block.reserved) {
      held.spare.emplace(std::pair(block.managed, block.bytes), block);
      return;
    }
  }
  Scope scope(opened(block.device).context);
  RelaxedCapture relaxed;
  check(api().memFree(block.begin), "cuMemFree");
}

void CudaDriver::holdMemory(int device) {
  Scope scope(opened(device).context);
  RelaxedCapture relaxed;
  std::lock_guard lock(mutex);
  HeldMemory &held = heldMemory[device];
  // Without a reserve, allocations may wait for grids, which is no reason to fail here.
  if (held.holds++ == 0 && held.reserve == 0 &&
      api().memAlloc(&held.reserve, ReserveBytes) == Success)
    held.reserveLeft = ReserveBytes;
}

void CudaDriver::letGoMemory(int device) {
  std::vector<Block> unused;
  std::vector<ReachableBlock> mapped;
  {
    std::lock_guard lock(mutex);
    HeldMemory &held = heldMemory[device];
    if (--held.holds > 0)
      return;
    for (auto at = held.spare.begin(); at != held.spare.end();) {
      if (!at->second.reserved)
        unused.push_back(at->second);
      at = at->second.reserved ? std::next(at) : held.spare.erase(at);
    }
    mapped.swap(held.mapped);
  }
  Scope scope(opened(device).context);
  RelaxedCapture relaxed;
  for (const Block &block : unused)
    check(api().memFree(block.begin), "cuMemFree");
  for (const ReachableBlock &block : mapped)
    unmap(block);
}

} // namespace tilery::rt::hal::cuda
