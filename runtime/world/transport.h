// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// How bytes and signals get from one rank to another. Ranks on one host map each other's heaps;
// a network is one more implementation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace tilery::rt {

class Domain;

class Transport {
public:
  virtual ~Transport() = default;

  /// Where offset 0 of the rank's heap can be loaded and stored directly; null when it cannot.
  virtual char *base(int rank) const = 0;
  /// Offsets are from the start of the heap. Both complete before they return.
  virtual void put(int rank, size_t offset, const void *source, size_t bytes) = 0;
  virtual void get(int rank, size_t offset, void *destination, size_t bytes) = 0;
  /// After everything put before, and everything stored through `base`.
  virtual void signal(int rank, size_t offset, uint64_t value, int32_t op) = 0;
};

std::unique_ptr<Transport> makeMappedTransport(Domain &domain);
/// For heaps in memory of a device that the host does not reach; `seat` is this rank's.
std::unique_ptr<Transport> makeDeviceTransport(Domain &domain, int seat);
std::unique_ptr<Transport> makeTransport(Domain &domain, int seat);

} // namespace tilery::rt
