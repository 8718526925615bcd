// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// The host's side of heaps that lie in a device's memory, where everything is a copy by the driver,
// and its waits for grids.
#include "runtime/base/clock.h"
#include "runtime/world/idle_wait.h"
#include "runtime/world/predicate.h"
#include "runtime/world/world.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <thread>

namespace tilery::rt {

namespace {
class DeviceTransport final : public Transport {
public:
  DeviceTransport(Domain &domain, int seat) : domain(domain), driver(*domain.device(seat).driver) {}

  char *base(int rank) const override { return domain.heaps[size_t(rank)].data(); }
  void put(int rank, size_t offset, const void *source, size_t bytes) override {
    driver.copy(base(rank) + offset, source, bytes);
  }
  void get(int rank, size_t offset, void *destination, size_t bytes) override {
    driver.copy(destination, base(rank) + offset, bytes);
  }
  void signal(int rank, size_t offset, uint64_t value, int32_t op) override {
    if (op != TILERY_SIGNAL_SET)
      raise(TILERY_LAUNCH_ERROR, "the host can set a signal in a device's memory, but not add to it"
                                 "\nhint: set it, or make the world with shared_heap=True");
    put(rank, offset, &value, sizeof value);
  }

private:
  Domain &domain;
  hal::Driver &driver;
};
} // namespace

std::unique_ptr<Transport> makeDeviceTransport(Domain &domain, int seat) {
  return std::make_unique<DeviceTransport>(domain, seat);
}

std::unique_ptr<Transport> makeTransport(Domain &domain, int seat) {
  return domain.hostReachesHeaps() ? makeMappedTransport(domain) : makeDeviceTransport(domain, seat);
}

void World::waitOnDevice(const Predicate &predicate, double timeout) {
  Deadline deadline = Deadline::after(timeout < 0 ? timeoutSeconds() : timeout);
  uint64_t seen = 0;
  while (true) {
    device().driver->copy(&seen, predicate.cells, sizeof seen);
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

void World::noteLaunch(const std::string &kernel, bool waits, double timeout) {
  LaunchNotes &notes = share->launches;
  std::lock_guard lock(notes.mutex);
  if (notes.last != kernel)
    notes.last = kernel;
  if (waits)
    notes.longestWaits += timeout > 0 ? timeout : std::numeric_limits<double>::infinity();
}

void World::raiseStuck(double seconds) {
  domain->stuck = true;
  failWith(Error(TILERY_LAUNCH_ERROR,
                 fmt::format("the launches of {} have not ended {:.0f} s after they were waited for; "
                             "kernel '{}' is the last of them\nhint: a loop in it waits for what "
                             "nobody does; the device computes until this process ends",
                             rankText(), seconds, share->launches.last)));
}

// The driver's own wait has no limit, and a grid in an endless loop cannot be stopped.
void World::awaitLaunches() {
  hal::Stream stream = deviceStream();
  if (!stream || domain->stuck)
    return;
  auto [driver, number] = device();
  if (!domain->gridsMeet())
    return driver->synchronize(number, stream);
  LaunchNotes &notes = share->launches;
  constexpr double MostMargin = 10;
  const double longest = notes.longestWaits, margin = std::clamp(longest, 1.0, MostMargin);
  constexpr int64_t SpinNs = 200'000;
  int64_t begin = nowNs(), failedAt = 0;
  InterruptPoll interrupted;
  while (!driver->isIdle(number, stream)) {
    int64_t now = nowNs();
    if (interrupted())
      failWith(InterruptPoll::error());
    // Waits in kernels end when the world has failed.
    if (failedAt == 0 && domain->failed())
      failedAt = now;
    double waited = double(now - (failedAt ? failedAt : begin)) * 1e-9;
    if (failedAt ? waited > MostMargin : longest > 0 && waited > longest + margin)
      raiseStuck(double(now - begin) * 1e-9);
    if (now - begin > SpinNs)
      std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  driver->synchronize(number, stream); // nothing to wait for, but what kernels printed comes out
  std::lock_guard lock(notes.mutex);
  notes.longestWaits = 0;
}

} // namespace tilery::rt
