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

static size_t roundUp(size_t value, size_t unit) { return (value + unit - 1) / unit * unit; }

static MemoryProperties propertiesOf(int device) {
  MemoryProperties properties;
  properties.location.device = device;
  return properties;
}

Result allowAccess(Address begin, size_t bytes, int device) {
  MemoryAccess access;
  access.location.device = device;
  return api().memSetAccess(begin, bytes, &access, 1);
}

static Result mapPieces(const ReachableBlock &block) {
  size_t mapped = 0;
  Result result = Success;
  for (const Piece &piece : block.pieces) {
    if ((result = api().memMap(block.begin + mapped, piece.bytes, 0, piece.handle, 0)) != Success)
      break;
    mapped += piece.bytes;
  }
  if (result == Success)
    result = allowAccess(block.begin, block.bytes, block.device);
  if (result != Success && mapped > 0)
    api().memUnmap(block.begin, mapped);
  return result;
}

static void giveBack(std::span<const Piece> pieces) {
  for (const Piece &piece : pieces)
    api().memHandleRelease(piece.handle);
}

/// Gives `block.pieces` addresses at which `block.device` uses them, or gives them back.
static Result map(ReachableBlock &block, size_t granularity) {
  Result result = api().memAddressReserve(&block.begin, block.bytes, granularity, 0, 0);
  if (result == Success && (result = mapPieces(block)) != Success)
    api().memAddressFree(block.begin, block.bytes);
  if (result != Success)
    giveBack(block.pieces);
  return result;
}

void unmap(const ReachableBlock &block) {
  if (!block.pieces.empty()) {
    check(api().memUnmap(block.begin, block.bytes), "cuMemUnmap");
    check(api().memAddressFree(block.begin, block.bytes), "cuMemAddressFree");
    for (const Piece &piece : block.pieces)
      check(api().memHandleRelease(piece.handle), "cuMemRelease");
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
  Piece piece = {0, bytes};
  Result result = api().memCreate(&piece.handle, bytes, &properties, 0);
  if (result != Success)
    return result;
  block.bytes = bytes;
  block.pieces = {piece};
  return map(block, granularity);
}

// Containers may forbid what the device can do.
static Result make(ReachableBlock &block, bool fromPieces) {
  if (fromPieces) {
    Result result = makePiece(block);
    if (result != NotSupported && result != NotPermitted)
      return result;
    block.pieces.clear();
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
    // What is another process's is not held: it may be waiting to be freed there.
    if (held.holds > 0 && !block.imported) {
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

void requireReach(const Driver &driver, int device, int owner) {
  if (std::string reason = driver.unreachable(device, owner); !reason.empty())
    raise(TILERY_TARGET_ERROR,
          "{}\nhint: take devices that NVLink connects (nvidia-smi topo -p2p n), or one device for "
          "all ranks",
          reason);
}

void enableAccess(Handle owner) {
  Result result = api().contextEnablePeerAccess(owner, 0);
  if (result != PeerAccessAlreadyEnabled)
    check(result, "cuCtxEnablePeerAccess");
}

void CudaDriver::reach(void *memory, int device) {
  ReachableBlock block = reachableAt(memory);
  if (block.bytes == 0)
    return reachOthers(memory, device);
  if (block.device == device)
    return;
  requireReach(*this, device, block.device);
  Handle owner = opened(block.device).context;
  Scope scope(opened(device).context);
  if (!block.pieces.empty())
    return check(allowAccess(block.begin, block.bytes, device), "cuMemSetAccess",
                 "memory of several devices");
  enableAccess(owner);
}

ExportedMemory CudaDriver::exportMemory(void *memory) {
  ReachableBlock block = reachableAt(memory);
  if (block.bytes == 0)
    if (Allocation others = allocationAt(memory); others.begin == memory && others.bytes > 0)
      return exportOthers(others, opened(deviceOf(memory)));
  if (block.begin != addressOf(memory) || block.imported)
    raise(TILERY_INTERNAL_ERROR, "{} cannot be exported; this is a bug in tilery", memory);
  DeviceState &state = opened(block.device);
  Scope scope(state.context);
  ExportedMemory exported;
  exported.bytes = block.bytes;
  std::strncpy(exported.owner, state.properties.identity.c_str(), sizeof exported.owner - 1);
  if (!block.pieces.empty()) {
    exported.kind = FromPieces;
    check(api().memExport(&exported.descriptor, block.pieces[0].handle, DescriptorHandle, 0),
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

static Result importPieces(std::span<const ExportedMemory> memory, ReachableBlock &block) {
  for (const ExportedMemory &each : memory) {
    auto file = reinterpret_cast<void *>(uintptr_t(each.descriptor));
    Piece piece = {0, each.bytes};
    if (Result result = api().memImport(&piece.handle, file, DescriptorHandle)) {
      giveBack(block.pieces);
      return result;
    }
    block.pieces.push_back(piece);
  }
  return map(block, granularityOf(block.device));
}

static Result importBlock(std::span<const ExportedMemory> memory, ReachableBlock &block) {
  if (memory[0].kind != Ipc)
    return importPieces(memory, block);
  if (memory.size() > 1) // each opens where the driver wants
    return NotSupported;
  IpcHandle handle;
  std::memcpy(handle.bytes, memory[0].key, sizeof handle.bytes);
  return api().ipcOpenHandle(&block.begin, handle, IpcLazyPeerAccess);
}

void *CudaDriver::importMemory(std::span<const ExportedMemory> memory, int device) {
  DeviceState &state = opened(device);
  requireReachOf(*this, device, memory[0].owner);
  Scope scope(state.context);
  RelaxedCapture relaxed;
  ReachableBlock block;
  for (const ExportedMemory &each : memory)
    block.bytes += each.bytes;
  block.device = device;
  block.imported = true;
  if (Result result = importBlock(memory, block))
    raise(TILERY_TARGET_ERROR, "device {} ({}) cannot map memory of {} in another process: {}",
          device, state.properties.name, memory[0].owner, describe(result));
  return keep(block);
}

} // namespace tilery::rt::hal::cuda
