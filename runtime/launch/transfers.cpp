// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// put, get, and element-wise remote accesses of compiled kernels.
#include "runtime/base/clock.h"
#include "runtime/launch/device_api.h"

#include <cstring>

namespace tilery::rt {

static DelayedWrites &delayedOf(Instance &self) {
  return self.launch->world->domain->scheduler->delayed;
}

static void putLater(Instance &self, char *target, const void *source, size_t bytes, int32_t rank,
                     bool late) {
  DelayedWrite write;
  write.kind = late ? DelayedWrite::Kind::LatePut : DelayedWrite::Kind::Data;
  write.target = self.launch->world->seat(rank);
  write.runs = {{target, bytes}};
  write.source = static_cast<const char *>(source);
  if (!late)
    write.bytes.assign(write.source, write.source + bytes);
  delayedOf(self).add(self.writeQueue(), std::move(write));
}

static void moveBytes(Instance &self, void *destination, const void *source, size_t bytes,
                      int32_t rank, bool nbi) {
  World &world = *self.launch->world;
  auto *target = static_cast<char *>(world.translate(destination, rank));
  bool delayed = self.delaysTo(rank) || (self.launch->routed && nbi);
  if (delayed && bytes > 0) {
    putLater(self, target, source, bytes, rank, nbi);
    return;
  }
  if (self.writes)
    delayedOf(self).flushOverlapping(self.writes, target, target + bytes);
  if (bytes > 0)
    std::memmove(target, source, bytes);
}

void put(tilery_instance *abi, void *destination, const void *source, int64_t bytes, int32_t rank,
         uint64_t *signal, uint64_t value, int32_t op, int32_t nbi, int32_t site) {
  Instance &self = instanceOf(abi);
  guarded(self, site, [&] {
    if (bytes != 0)
      checkRemote(self, destination, bytes, rank, "the destination of the put");
    if (signal)
      checkRemote(self, signal, 8, rank, "the signal of the put");
    self.switchPoint();
    int64_t beginNs = self.launch->traced ? nowNs() : 0;
    moveBytes(self, destination, source, size_t(bytes), rank, nbi != 0);
    if (signal)
      updateRemoteSignal(self, {signal, rank, value, op}, site);
    if (self.launch->traced)
      traceTransfer(self, TraceKind::Put, "put", rank, bytes, beginNs);
  });
}

void get(tilery_instance *abi, void *destination, const void *source, int64_t bytes, int32_t rank,
         int32_t nbi, int32_t site) {
  Instance &self = instanceOf(abi);
  guarded(self, site, [&] {
    if (bytes == 0)
      return;
    checkRemote(self, source, bytes, rank, "the source of the get");
    self.switchPoint();
    int64_t beginNs = self.launch->traced ? nowNs() : 0;
    auto *from = static_cast<const char *>(
        self.launch->world->translate(const_cast<void *>(source), rank));
    if (self.writes)
      delayedOf(self).flushOverlapping(self.writes, from, from + bytes);
    std::memmove(destination, from, size_t(bytes));
    if (self.launch->traced)
      traceTransfer(self, TraceKind::Get, "get", rank, bytes, beginNs);
  });
}

namespace {
/// Collects the elements of one store that go to one rank.
class StoreBuilder {
public:
  explicit StoreBuilder(Instance &self) : self(self) {}

  void add(char *address, const char *value, size_t bytes) {
    int rank = rankOf(address);
    if (rank < 0 || rank == self.launch->seat()) {
      std::memcpy(address, value, bytes);
      return;
    }
    if (rank != write.target)
      flush(rank);
    if (!write.runs.empty() && write.runs.back().destination + write.runs.back().bytes == address)
      write.runs.back().bytes += bytes;
    else
      write.runs.push_back({address, bytes});
    write.bytes.insert(write.bytes.end(), value, value + bytes);
  }
  void flush(int nextRank = -1) {
    if (!write.runs.empty())
      delayedOf(self).add(self.writeQueue(), std::move(write));
    write = DelayedWrite();
    write.target = nextRank;
  }

private:
  int rankOf(const char *address) {
    Domain &domain = *self.launch->world->domain;
    if (write.target >= 0 && domain.heaps[size_t(write.target)].contains(address))
      return write.target;
    return domain.rankOf(address);
  }
  Instance &self;
  DelayedWrite write = [] {
    DelayedWrite none;
    none.target = -1;
    return none;
  }();
};
} // namespace

void remoteStore(tilery_instance *abi, const uint64_t *addresses, const void *values,
                 const uint8_t *mask, int64_t count, int32_t elementBytes, int32_t site) {
  Instance &self = instanceOf(abi);
  guarded(self, site, [&] {
    self.switchPoint();
    auto bytes = size_t(elementBytes);
    auto *value = static_cast<const char *>(values);
    if (!self.launch->routed) {
      for (int64_t i = 0; i < count; ++i)
        if (!mask || mask[i])
          std::memcpy(reinterpret_cast<void *>(addresses[i]), value + size_t(i) * bytes, bytes);
      return;
    }
    StoreBuilder builder(self);
    for (int64_t i = 0; i < count; ++i)
      if (!mask || mask[i])
        builder.add(reinterpret_cast<char *>(addresses[i]), value + size_t(i) * bytes, bytes);
    builder.flush();
  });
}

/// An instance sees its own writes.
static void flushLoaded(Instance &self, const uint64_t *addresses, const uint8_t *mask,
                        int64_t count, size_t bytes) {
  uint64_t low = UINT64_MAX, high = 0;
  for (int64_t i = 0; i < count; ++i)
    if (!mask || mask[i]) {
      low = std::min(low, addresses[i]);
      high = std::max(high, addresses[i] + bytes);
    }
  if (low < high)
    delayedOf(self).flushOverlapping(self.writes, reinterpret_cast<void *>(low),
                                     reinterpret_cast<void *>(high));
}

void remoteLoad(tilery_instance *abi, const uint64_t *addresses, void *values, const uint8_t *mask,
                int64_t count, int32_t elementBytes, int32_t site) {
  Instance &self = instanceOf(abi);
  guarded(self, site, [&] {
    self.switchPoint();
    auto bytes = size_t(elementBytes);
    if (self.writes)
      flushLoaded(self, addresses, mask, count, bytes);
    auto *value = static_cast<char *>(values);
    for (int64_t i = 0; i < count; ++i)
      if (!mask || mask[i])
        std::memcpy(value + size_t(i) * bytes, reinterpret_cast<void *>(addresses[i]), bytes);
  });
}

} // namespace tilery::rt
