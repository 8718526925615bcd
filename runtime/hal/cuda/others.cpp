// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Memory that other libraries of this process have allocated: what it is part of, and how other
// devices and processes get at it. Of memory that is mapped from pieces (cuMemMap), each piece is
// an allocation.
#include "runtime/hal/cuda/devices.h"

#include <cstring>

namespace tilery::rt::hal::cuda {

// Addresses are used again, numbers are not: of an address range the one, of the piece that is
// mapped there the other (CUDA Driver API, CU_POINTER_ATTRIBUTE_BUFFER_ID and _MEMORY_BLOCK_ID).
static uint64_t numberAt(Address at) {
  uint64_t buffer = 0, block = 0;
  int which[] = {BufferId, BlockId};
  void *values[] = {&buffer, &block};
  if (api().pointerGetAttributes(2, which, values, at) != Success)
    return 0;
  return buffer * 0x9e3779b97f4a7c15ull + block;
}

Allocation CudaDriver::allocationAt(const void *address) {
  int device = deviceOf(address);
  if (device < 0)
    return {};
  Scope scope(opened(device).context);
  Address begin = 0;
  size_t bytes = 0;
  if (api().memGetAddressRange(&begin, &bytes, addressOf(address)) != Success)
    return {};
  return {reinterpret_cast<void *>(begin), bytes, numberAt(addressOf(address))};
}

/// The piece that is mapped there, which the caller gives back; 0 of other memory.
static uint64_t retainedPiece(void *memory) {
  uint64_t handle = 0;
  return api().memRetainHandle(&handle, memory) == Success ? handle : 0;
}

static Result exportInto(ExportedMemory &exported, void *memory) {
  if (uint64_t piece = retainedPiece(memory)) {
    exported.kind = FromPieces;
    Result result = api().memExport(&exported.descriptor, piece, DescriptorHandle, 0);
    api().memHandleRelease(piece);
    return result;
  }
  exported.kind = Ipc;
  IpcHandle handle;
  Result result = api().ipcGetHandle(&handle, addressOf(memory));
  std::memcpy(exported.key, handle.bytes, sizeof handle.bytes);
  return result;
}

ExportedMemory CudaDriver::exportOthers(const Allocation &memory, const DeviceState &state) {
  Scope scope(state.context);
  RelaxedCapture relaxed;
  ExportedMemory exported;
  exported.bytes = memory.bytes;
  std::strncpy(exported.owner, state.properties.identity.c_str(), sizeof exported.owner - 1);
  if (Result result = exportInto(exported, memory.begin))
    raise(TILERY_TARGET_ERROR,
          "memory of {} bytes at {} of {} cannot be shared with other processes, as it was "
          "allocated: {}",
          memory.bytes, memory.begin, state.properties.name, describe(result));
  return exported;
}

void CudaDriver::reachOthers(void *memory, int device) {
  int owner = deviceOf(memory);
  Allocation found = allocationAt(memory);
  if (owner < 0 || owner == device || found.bytes == 0)
    return; // of the host, or its own
  requireReach(*this, device, owner);
  Handle ownerContext = opened(owner).context;
  Scope scope(opened(device).context);
  uint64_t piece = retainedPiece(found.begin);
  if (!piece)
    return enableAccess(ownerContext);
  check(api().memHandleRelease(piece), "cuMemRelease");
  check(allowAccess(addressOf(found.begin), found.bytes, device), "cuMemSetAccess",
        "memory of several devices");
}

} // namespace tilery::rt::hal::cuda
