// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Sparse mappings by mmap and memfd_create.
#include "runtime/world/mapping.h"

#include "runtime/base/error.h"
#include "runtime/base/log.h"

#include <cstring>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

namespace tilery::rt {

static constexpr int Access = PROT_READ | PROT_WRITE;

[[noreturn]] static void failMapping(size_t bytes, const char *what) {
  raise(TILERY_CONFIG_ERROR,
        "cannot {} {} bytes for the symmetric heap: {}\nhint: set TILERY_HEAP_BYTES to a smaller "
        "size, or raise the limit on address space (ulimit -v)",
        what, bytes, std::strerror(errno));
}

static char *map(size_t bytes, int flags, int file) {
  void *memory = mmap(nullptr, bytes, Access, flags | MAP_NORESERVE, file, 0);
  if (memory == MAP_FAILED)
    failMapping(bytes, "reserve");
  // A dump of sparse terabytes helps nobody.
  madvise(memory, bytes, MADV_DONTDUMP);
  return static_cast<char *>(memory);
}

Mapping Mapping::anonymous(size_t bytes) {
  Mapping result;
  result.memory = map(bytes, MAP_PRIVATE | MAP_ANONYMOUS, -1);
  result.bytes = bytes;
  return result;
}

Mapping Mapping::sharedFile(size_t bytes, const char *label) {
  int file = memfd_create(label, MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, off_t(bytes)) != 0) {
    if (file >= 0)
      close(file);
    failMapping(bytes, "create a shared file of");
  }
  return fromDescriptor(file, bytes);
}

Mapping Mapping::fromDescriptor(int descriptor, size_t bytes) {
  Mapping result;
  result.file = descriptor;
  result.memory = map(bytes, MAP_SHARED, descriptor);
  result.bytes = bytes;
  return result;
}

static void *allocate(hal::DeviceRef where, size_t bytes, Mapping::Use use) {
  switch (use) {
  case Mapping::Use::Alone: return where.driver->allocate(bytes, where.device);
  case Mapping::Use::Peers: return where.driver->allocateReachable(bytes, where.device);
  case Mapping::Use::Host: return where.driver->allocateShared(bytes, where.device);
  }
  return nullptr;
}

Mapping Mapping::onDevice(hal::DeviceRef where, size_t bytes, Use use) {
  Mapping result;
  result.memory = static_cast<char *>(allocate(where, bytes, use));
  result.bytes = bytes;
  result.where = where;
  result.shared = use == Use::Host;
  return result;
}

Mapping Mapping::ofPeer(hal::DeviceRef where, const hal::ExportedMemory &exported, size_t bytes) {
  Mapping result;
  result.memory = static_cast<char *>(where.driver->importMemory({&exported, 1}, where.device));
  result.bytes = bytes;
  result.where = where;
  return result;
}

// A destructor raises nothing: a lost device refuses every call.
static void giveBack(hal::DeviceRef where, void *memory, size_t bytes, bool shared) {
  try {
    shared ? where.driver->releaseShared(memory, bytes) : where.driver->release(memory, bytes);
  } catch (const Error &error) {
    log(LogLevel::Debug, error.message);
  }
}

Mapping::~Mapping() {
  if (memory && where.driver)
    giveBack(where, memory, bytes, shared);
  else if (memory)
    munmap(memory, bytes);
  if (file >= 0)
    close(file);
}

void Mapping::abandon() { memory = nullptr; }

void Mapping::discard(size_t offset, size_t length) {
  if (length == 0)
    return;
  if (where.driver) {
    where.driver->clear(memory + offset, length);
    return;
  }
  int advice = file >= 0 ? MADV_REMOVE : MADV_DONTNEED;
  if (madvise(memory + offset, length, advice) != 0)
    std::memset(memory + offset, 0, length);
}

void Mapping::swap(Mapping &other) {
  std::swap(memory, other.memory);
  std::swap(bytes, other.bytes);
  std::swap(file, other.file);
  std::swap(where, other.where);
  std::swap(shared, other.shared);
}

} // namespace tilery::rt
