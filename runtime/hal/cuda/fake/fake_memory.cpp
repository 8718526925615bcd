// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Memory of the fake libcuda: mappings of the host, large and mapped ones of nameless files, so that
// other processes can have them.
#include "runtime/hal/cuda/fake/fake_state.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <string>
#include <sys/mman.h>
#include <unistd.h>

using namespace fake;

static constexpr size_t LargePage = 2 << 20;

static Address mapAnywhere(size_t bytes, int file) {
  int flags = file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
  void *memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags | MAP_NORESERVE, file, 0);
  return memory == MAP_FAILED ? 0 : reinterpret_cast<Address>(memory);
}

static int makeFile(size_t bytes) {
  int file = memfd_create("fake-cuda", MFD_CLOEXEC);
  return ftruncate(file, off_t(bytes)) == 0 ? file : -1;
}

static int currentDevice() {
  return std::max(int(static_cast<char *>(currentContext()) - state().contexts), 0);
}

// As the driver: zero is not promised, alignment to 256 is, and more to that of its large pages.
// Pages come when they are touched.
static int allocate(Address *memory, size_t bytes) {
  if (bytes > MemoryBytes)
    return OutOfMemory;
  Allocation made = {bytes, currentDevice()};
  size_t alignment = bytes < LargePage ? 256 : LargePage;
  made.mappedBytes = bytes + alignment;
  made.file = bytes < LargePage ? -1 : makeFile(made.mappedBytes);
  made.mapped = mapAnywhere(made.mappedBytes, made.file);
  if (!made.mapped)
    return OutOfMemory;
  // Small memory never begins with a page.
  *memory = bytes < LargePage ? made.mapped + 256 : (made.mapped + alignment - 1) / alignment * alignment;
  memset(reinterpret_cast<void *>(*memory), 0xcd, std::min(bytes, LargePage));
  std::lock_guard lock(state().mutex);
  made.number = ++state().lastNumber;
  state().allocations[*memory] = made;
  return Success;
}

static int release(Address memory) {
  State &s = state();
  std::lock_guard lock(s.mutex);
  auto found = s.allocations.find(memory);
  if (found == s.allocations.end())
    return InvalidValue;
  munmap(reinterpret_cast<void *>(found->second.mapped), found->second.mappedBytes);
  if (found->second.file >= 0)
    close(found->second.file);
  s.allocations.erase(found);
  return Success;
}

// Zeros of large memory cost nothing: the tests allocate more than there may be.
static void fill(Address to, unsigned char byte, size_t bytes) {
  constexpr size_t Page = 4096, Large = size_t(1) << 26;
  Address begin = (to + Page - 1) / Page * Page, end = (to + bytes) / Page * Page;
  if (byte == 0 && bytes > Large) {
    auto *pages = reinterpret_cast<void *>(begin);
    if (madvise(pages, end - begin, MADV_REMOVE) != 0)
      madvise(pages, end - begin, MADV_DONTNEED);
    memset(reinterpret_cast<void *>(to), 0, begin - to);
    memset(reinterpret_cast<void *>(end), 0, to + bytes - end);
    return;
  }
  memset(reinterpret_cast<void *>(to), byte, bytes);
}

FAKE(cuMemFree_v2, (Address memory), return release(memory);)
FAKE(cuMemAlloc_v2, (Address * memory, size_t bytes), return allocate(memory, bytes);)
FAKE(cuMemAllocManaged, (Address * memory, size_t bytes, unsigned),
     return allocate(memory, bytes);)
FAKE(cuMemHostAlloc, (void **memory, size_t bytes, unsigned), *memory = malloc(bytes);)
FAKE(cuMemcpyAsync, (Address to, Address from, size_t bytes, Handle),
     memmove(reinterpret_cast<void *>(to), reinterpret_cast<void *>(from), bytes);)
FAKE(cuMemsetD8Async, (Address to, unsigned char byte, size_t bytes, Handle),
     fill(to, byte, bytes);)

//===-- Between devices ------------------------------------------------------------------------===//

FAKE(cuDeviceGetUuid_v2, (Uuid * uuid, Device device),
     memset(uuid->bytes, 0xfa, 15);
     uuid->bytes[15] = uint8_t(visibleDevices()[size_t(device)]);)
FAKE(cuDeviceCanAccessPeer, (int *access, Device, Device), *access = !lacks("peers");)
FAKE(cuDeviceGetP2PAttribute, (int *value, int, Device, Device), *value = !lacks("atomics");)
FAKE(cuCtxEnablePeerAccess, (Handle, unsigned), )

//===-- Mapped from pieces: a piece is a file --------------------------------------------------===//

FAKE(cuMemGetAllocationGranularity, (size_t * bytes, const MemoryProperties *, int),
     *bytes = LargePage;)

extern "C" int cuMemCreate(uint64_t *piece, size_t bytes, const MemoryProperties *properties,
                           uint64_t) {
  if (int failure = called("cuMemCreate"))
    return failure;
  if (bytes > MemoryBytes)
    return OutOfMemory;
  *piece = uint64_t(makeFile(bytes)) | uint64_t(properties->location.device) << 32;
  return Success;
}

static int fileOf(uint64_t piece) { return int(piece & 0xffffffff); }

FAKE(cuMemRelease, (uint64_t piece), close(fileOf(piece));)
FAKE(cuMemAddressReserve, (Address * memory, size_t bytes, size_t, Address, uint64_t),
     void *range = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
     if (range == MAP_FAILED) return OutOfMemory;
     *memory = reinterpret_cast<Address>(range);)
FAKE(cuMemAddressFree, (Address memory, size_t bytes),
     munmap(reinterpret_cast<void *>(memory), bytes);)

extern "C" int cuMemMap(Address memory, size_t bytes, size_t, uint64_t piece, uint64_t) {
  if (int failure = called("cuMemMap"))
    return failure;
  // Nobody may use it before cuMemSetAccess.
  void *mapped = mmap(reinterpret_cast<void *>(memory), bytes, PROT_NONE,
                      MAP_SHARED | MAP_FIXED | MAP_NORESERVE, fileOf(piece), 0);
  if (mapped == MAP_FAILED)
    return InvalidValue;
  std::lock_guard lock(state().mutex);
  state().allocations[memory] = {.bytes = bytes,
                                 .device = int(piece >> 32),
                                 .number = ++state().lastNumber,
                                 .piece = piece};
  return Success;
}
FAKE(cuMemSetAccess, (Address memory, size_t bytes, const MemoryAccess *, size_t),
     mprotect(reinterpret_cast<void *>(memory), bytes, PROT_READ | PROT_WRITE);)

extern "C" int cuMemUnmap(Address memory, size_t bytes) {
  if (int failure = called("cuMemUnmap"))
    return failure;
  std::lock_guard lock(state().mutex);
  auto &all = state().allocations;
  all.erase(all.lower_bound(memory), all.lower_bound(memory + bytes));
  mmap(reinterpret_cast<void *>(memory), bytes, PROT_NONE,
       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
  return Success;
}

FAKE(cuMemExportToShareableHandle, (void *descriptor, uint64_t piece, uint32_t, uint64_t),
     *static_cast<int *>(descriptor) = fcntl(fileOf(piece), F_DUPFD_CLOEXEC, 0);)
FAKE(cuMemImportFromShareableHandle, (uint64_t * piece, void *descriptor, uint32_t),
     int file = fcntl(int(reinterpret_cast<uintptr_t>(descriptor)), F_DUPFD_CLOEXEC, 0);
     if (file < 0) return InvalidValue;
     *piece = uint64_t(file);)

//===-- Handles without files: the owner's number and that of its file -------------------------===//

namespace {
struct FakeIpc {
  int pid;
  int file;
  size_t bytes;
  size_t offset;
};
} // namespace

extern "C" int cuIpcGetMemHandle(IpcHandle *handle, Address memory) {
  if (int failure = called("cuIpcGetMemHandle"))
    return failure;
  std::lock_guard lock(state().mutex);
  const Allocation &found = state().allocations.at(memory);
  FakeIpc ipc = {getpid(), found.file, found.mappedBytes, memory - found.mapped};
  memset(handle, 0, sizeof *handle);
  memcpy(handle, &ipc, sizeof ipc);
  return found.file < 0 ? InvalidValue : Success;
}

extern "C" int cuIpcOpenMemHandle_v2(Address *memory, IpcHandle handle, unsigned) {
  if (int failure = called("cuIpcOpenMemHandle_v2"))
    return failure;
  FakeIpc ipc;
  memcpy(&ipc, &handle, sizeof ipc);
  std::string path = "/proc/" + std::to_string(ipc.pid) + "/fd/" + std::to_string(ipc.file);
  int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (ipc.pid == getpid() || file < 0) // as the driver: not within one process
    return InvalidContext;
  Address mapped = mapAnywhere(ipc.bytes, file);
  std::lock_guard lock(state().mutex);
  *memory = mapped + ipc.offset;
  state().allocations[*memory] = {
      ipc.bytes - ipc.offset, currentDevice(), file, mapped, ipc.bytes, ++state().lastNumber};
  return Success;
}
FAKE(cuIpcCloseMemHandle, (Address memory), return release(memory);)

/// The allocation that has the address, or null.
static const std::pair<const Address, Allocation> *allocationAt(Address memory) {
  const auto &all = state().allocations;
  auto after = all.upper_bound(memory);
  if (after == all.begin())
    return nullptr;
  auto found = std::prev(after);
  return memory < found->first + found->second.bytes ? &*found : nullptr;
}

extern "C" int cuMemGetAddressRange_v2(Address *begin, size_t *bytes, Address memory) {
  std::lock_guard lock(state().mutex);
  const auto *found = allocationAt(memory);
  if (!found)
    return InvalidValue;
  *begin = found->first;
  *bytes = found->second.bytes;
  return Success;
}

extern "C" int cuMemRetainAllocationHandle(uint64_t *piece, void *memory) {
  std::lock_guard lock(state().mutex);
  const auto *found = allocationAt(reinterpret_cast<Address>(memory));
  if (!found || !found->second.piece)
    return InvalidValue;
  int file = fcntl(fileOf(found->second.piece), F_DUPFD_CLOEXEC, 0);
  *piece = uint64_t(file) | (found->second.piece >> 32 << 32);
  return Success;
}

extern "C" int cuPointerGetAttributes(unsigned count, int *which, void **values, Address memory) {
  std::lock_guard lock(state().mutex);
  const auto *found = allocationAt(memory);
  bool known = found;
  for (unsigned i = 0; i < count; ++i)
    if (which[i] == DeviceOrdinal)
      *static_cast<int *>(values[i]) = known ? found->second.device : -2; // as the driver
    else if (which[i] == BufferId || which[i] == BlockId)
      *static_cast<uint64_t *>(values[i]) = known && which[i] == BufferId ? found->second.number : 0;
    else
      *static_cast<unsigned *>(values[i]) = known && which[i] == MemoryType ? MemoryTypeDevice : 0;
  return Success;
}
