// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Memory that several devices and processes use. Where the driver maps memory from pieces (CUDA
// Programming Guide, "Virtual Memory Management"), a piece has a file descriptor and stays alive as
// long as anybody maps it, also when the process that made it has died. Elsewhere memory has IPC
// handles, whose memory goes with its owner.
#include "runtime/hal/cuda/devices.h"

#include <algorithm>
#include <cstring>

namespace tilery::rt::hal::cuda {

enum Kind : uint32_t { NoKind, Piece, Ipc };

static size_t roundUp(size_t value, size_t unit) { return (value + unit - 1) / unit * unit; }

static MemoryProperties propertiesOf(int device) {
  MemoryProperties properties;
  properties.location.device = device;
  return properties;
}

static Result allowAccess(const ReachableBlock &block, int device) {
  MemoryAccess access;
  access.location.device = device;
  return api().memSetAccess(block.begin, block.bytes, &access, 1);
}

/// Gives `block.piece` addresses at which `block.device` uses it, or gives it back.
static Result map(ReachableBlock &block, size_t granularity) {
  Result result = api().memAddressReserve(&block.begin, block.bytes, granularity, 0, 0);
  if (result == Success) {
    result = api().memMap(block.begin, block.bytes, 0, block.piece, 0);
    if (result == Success && (result = allowAccess(block, block.device)) != Success)
      api().memUnmap(block.begin, block.bytes);
    if (result != Success)
      api().memAddressFree(block.begin, block.bytes);
  }
  if (result != Success)
    api().memHandleRelease(block.piece);
  return result;
}

void unmap(const ReachableBlock &block) {
  if (block.piece) {
    check(api().memUnmap(block.begin, block.bytes), "cuMemUnmap");
    check(api().memAddressFree(block.begin, block.bytes), "cuMemAddressFree");
    check(api().memHandleRelease(block.piece), "cuMemRelease");
  } else if (block.imported) {
    check(api().ipcCloseHandle(block.begin), "cuIpcCloseMemHandle");
  } else {
    check(api().memFree(block.begin), "cuMemFree");
  }
}

static size_t granularityOf(int device) {
  MemoryProperties properties = propertiesOf(device);
  size_t granularity = 0;
  constexpr int Recommended = 1;
  check(api().memGetGranularity(&granularity, &properties, Recommended),
        "cuMemGetAllocationGranularity");
  return granularity;
}

static Result makePiece(ReachableBlock &block) {
  size_t granularity = granularityOf(block.device);
  size_t bytes = roundUp(block.bytes, granularity);
  MemoryProperties properties = propertiesOf(block.device);
  Result result = api().memCreate(&block.piece, bytes, &properties, 0);
  if (result != Success)
    return result;
  block.bytes = bytes;
  return map(block, granularity);
}

// Containers may forbid what the device can do.
static Result make(ReachableBlock &block, bool fromPieces) {
  if (fromPieces) {
    Result result = makePiece(block);
    if (result != NotSupported && result != NotPermitted)
      return result;
    block.piece = 0;
  }
  constexpr size_t Large = size_t(2) << 20; // aligned to more than a page
  block.bytes = roundUp(block.bytes, Large);
  return api().memAlloc(&block.begin, block.bytes);
}

void *CudaDriver::keep(const ReachableBlock &block) {
  std::lock_guard lock(mutex);
  reachable[block.begin] = block;
  hasReachable = true;
  return reinterpret_cast<void *>(block.begin);
}

void *CudaDriver::allocateReachable(size_t bytes, int device) {
  DeviceState &state = opened(device);
  Scope scope(state.context);
  RelaxedCapture relaxed;
  ReachableBlock block;
  block.bytes = std::max<size_t>(bytes, 1);
  block.device = device;
  if (Result result = make(block, state.mapsDescriptors))
    raise(TILERY_LAUNCH_ERROR, "cannot allocate {} bytes of memory on device {} ({}): {}", bytes,
          device, state.properties.name, describe(result));
  zero(state, block.begin, block.bytes);
  return keep(block);
}

ReachableBlock CudaDriver::reachableAt(const void *address) const {
  if (!hasReachable.load(std::memory_order_acquire))
    return {};
  std::lock_guard lock(mutex);
  auto after = reachable.upper_bound(addressOf(address));
  if (after == reachable.begin())
    return {};
  const ReachableBlock &block = std::prev(after)->second;
  return addressOf(address) < block.begin + block.bytes ? block : ReachableBlock();
}

bool CudaDriver::releaseReachable(void *memory) {
  ReachableBlock block;
  {
    std::lock_guard lock(mutex);
    auto found = reachable.find(addressOf(memory));
    if (found == reachable.end())
      return false;
    block = found->second;
    reachable.erase(found);
    HeldMemory &held = heldMemory[block.device];
    if (held.holds > 0) {
      held.mapped.push_back(block);
      return true;
    }
  }
  Scope scope(opened(block.device).context);
  RelaxedCapture relaxed;
  unmap(block);
  return true;
}

std::string CudaDriver::unreachable(int device, int owner) const {
  if (device == owner)
    return "";
  int access = 0, atomics = 0;
  check(api().deviceCanAccessPeer(&access, device, owner), "cuDeviceCanAccessPeer");
  auto names = [&](const char *why) {
    return fmt::format("cuda:{} ({}) {} cuda:{} ({})", device, properties(device).name, why, owner,
                       properties(owner).name);
  };
  if (!access)
    return names("has no peer access to the memory of");
  check(api().deviceGetPeerAttribute(&atomics, NativeAtomics, device, owner),
        "cuDeviceGetP2PAttribute");
  // Signals that are added to, and barriers, would lose updates.
  return atomics ? "" : names("has no atomic operations on the memory of");
}

static void requireReach(const Driver &driver, int device, int owner) {
  if (std::string reason = driver.unreachable(device, owner); !reason.empty())
    raise(TILERY_TARGET_ERROR,
          "{}\nhint: take devices that NVLink connects (nvidia-smi topo -p2p n), or one device for "
          "all ranks",
          reason);
}

void CudaDriver::reach(void *memory, int device) {
  ReachableBlock block = reachableAt(memory);
  if (block.bytes == 0 || block.device == device)
    return; // shared with the host, or its own
  requireReach(*this, device, block.device);
  Handle owner = opened(block.device).context;
  Scope scope(opened(device).context);
  if (block.piece)
    return check(allowAccess(block, device), "cuMemSetAccess", "memory of several devices");
  Result result = api().contextEnablePeerAccess(owner, 0);
  if (result != PeerAccessAlreadyEnabled)
    check(result, "cuCtxEnablePeerAccess");
}

ExportedMemory CudaDriver::exportMemory(void *memory) {
  ReachableBlock block = reachableAt(memory);
  if (block.begin != addressOf(memory) || block.imported)
    raise(TILERY_INTERNAL_ERROR, "{} cannot be exported; this is a bug in tilery", memory);
  DeviceState &state = opened(block.device);
  Scope scope(state.context);
  ExportedMemory exported;
  exported.bytes = block.bytes;
  std::strncpy(exported.owner, state.properties.identity.c_str(), sizeof exported.owner - 1);
  if (block.piece) {
    exported.kind = Piece;
    check(api().memExport(&exported.descriptor, block.piece, DescriptorHandle, 0),
          "cuMemExportToShareableHandle", "memory of several processes");
    return exported;
  }
  exported.kind = Ipc;
  IpcHandle handle;
  check(api().ipcGetHandle(&handle, block.begin), "cuIpcGetMemHandle",
        "memory of several processes");
  std::memcpy(exported.key, handle.bytes, sizeof handle.bytes);
  return exported;
}

// A device that this process does not see (CUDA_VISIBLE_DEVICES) can be reached all the same.
static void requireReachOf(const Driver &driver, int device, const char *owner) {
  for (int other = 0; other < driver.deviceCount(); ++other)
    if (driver.properties(other).identity == owner)
      requireReach(driver, device, other);
}

static Result importBlock(const ExportedMemory &memory, ReachableBlock &block) {
  if (memory.kind == Ipc) {
    IpcHandle handle;
    std::memcpy(handle.bytes, memory.key, sizeof handle.bytes);
    return api().ipcOpenHandle(&block.begin, handle, IpcLazyPeerAccess);
  }
  auto file = reinterpret_cast<void *>(uintptr_t(memory.descriptor));
  Result result = api().memImport(&block.piece, file, DescriptorHandle);
  return result == Success ? map(block, granularityOf(block.device)) : result;
}

void *CudaDriver::importMemory(const ExportedMemory &memory, int device) {
  DeviceState &state = opened(device);
  requireReachOf(*this, device, memory.owner);
  Scope scope(state.context);
  ReachableBlock block;
  block.bytes = memory.bytes;
  block.device = device;
  block.imported = true;
  if (Result result = importBlock(memory, block))
    raise(TILERY_TARGET_ERROR, "device {} ({}) cannot map memory of {} in another process: {}",
          device, state.properties.name, memory.owner, describe(result));
  return keep(block);
}

} // namespace tilery::rt::hal::cuda
