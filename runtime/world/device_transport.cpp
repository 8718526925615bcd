// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// The host's side of heaps that lie in a device's memory: everything is a copy by the driver.
#include "runtime/base/clock.h"
#include "runtime/world/predicate.h"
#include "runtime/world/world.h"

#include <chrono>
#include <thread>

namespace tilery::rt {

namespace {
class DeviceTransport final : public Transport {
public:
  explicit DeviceTransport(Domain &domain) : domain(domain) {}

  char *base(int rank) const override { return domain.heaps[size_t(rank)].data(); }
  void put(int rank, size_t offset, const void *source, size_t bytes) override {
    domain.device.driver->copy(base(rank) + offset, source, bytes);
  }
  void get(int rank, size_t offset, void *destination, size_t bytes) override {
    domain.device.driver->copy(destination, base(rank) + offset, bytes);
  }
  void signal(int rank, size_t offset, uint64_t value, int32_t op) override {
    if (op != TILERY_SIGNAL_SET)
      raise(TILERY_LAUNCH_ERROR, "the host can set a signal in a device's memory, but not add to it"
                                 "\nhint: set it, or make the world with shared_heap=True");
    put(rank, offset, &value, sizeof value);
  }

private:
  Domain &domain;
};
} // namespace

std::unique_ptr<Transport> makeDeviceTransport(Domain &domain) {
  return std::make_unique<DeviceTransport>(domain);
}

std::unique_ptr<Transport> makeTransport(Domain &domain) {
  return domain.hostReachesHeaps() ? makeMappedTransport(domain) : makeDeviceTransport(domain);
}

void World::waitOnDevice(const Predicate &predicate, double timeout) {
  Deadline deadline = Deadline::after(timeout < 0 ? timeoutSeconds() : timeout);
  uint64_t seen = 0;
  while (true) {
    domain->device.driver->copy(&seen, predicate.cells, sizeof seen);
    if (compareSignal(seen, predicate.value, predicate.compare))
      return;
    requireUsable();
    if (deadline.passed(nowNs()))
      failWith(Error(TILERY_WAIT_TIMEOUT,
                     fmt::format("wait timed out\n  {} (host) waits for signal {}: expected {} {}, "
                                 "seen {}",
                                 rankText(), describeSignal(predicate.cells),
                                 compareText(predicate.compare), predicate.value, seen)));
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
}

} // namespace tilery::rt
