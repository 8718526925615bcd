// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Loads and stores to heaps that this process maps.
#include "runtime/world/domain.h"
#include "runtime/world/predicate.h"
#include "runtime/world/transport.h"

#include <cstring>

namespace tilery::rt {

namespace {
class MappedTransport final : public Transport {
public:
  explicit MappedTransport(Domain &domain) : domain(domain) {}

  char *base(int rank) const override { return domain.heaps[size_t(rank)].data(); }
  void put(int rank, size_t offset, const void *source, size_t bytes) override {
    if (bytes)
      std::memmove(base(rank) + offset, source, bytes);
  }
  void get(int rank, size_t offset, void *destination, size_t bytes) override {
    if (bytes)
      std::memmove(destination, base(rank) + offset, bytes);
  }
  void signal(int rank, size_t offset, uint64_t value, int32_t op) override {
    updateSignal(reinterpret_cast<uint64_t *>(base(rank) + offset), value, op);
    domain.ring(rank);
  }

private:
  Domain &domain;
};
} // namespace

std::unique_ptr<Transport> makeMappedTransport(Domain &domain) {
  return std::make_unique<MappedTransport>(domain);
}

} // namespace tilery::rt
