// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Keeps and words the failures that grids on devices report.
#include "runtime/launch/device_failures.h"

#include "runtime/base/error.h"
#include "runtime/launch/device_kernel.h"
#include "runtime/launch/report.h"
#include "runtime/world/world.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>

namespace tilery::rt {

static bool hasSeat(const RecordOwner &owner, int seat) {
  return std::find(owner.seats.begin(), owner.seats.end(), seat) != owner.seats.end();
}

namespace {
struct Page {
  static constexpr size_t Size = 1024;
  tilery_gpu_failure *memory = nullptr;
  std::array<LaunchRecord, Size> records = {};
};

/// Only grows, so that launches read it without a lock.
class Board {
public:
  static constexpr size_t MaxPages = 256;

  LaunchRecord &add(hal::DeviceRef where, RecordOwner owner) {
    std::lock_guard lock(mutex);
    size_t index = count.load(std::memory_order_relaxed);
    if (index == MaxPages * Page::Size)
      raise(TILERY_LAUNCH_ERROR, "this process has loaded too many kernels that can fail ({})", index);
    std::unique_ptr<Page> &page = pageOf(where, index);
    LaunchRecord &record = page->records[index % Page::Size];
    record = {page->memory + index % Page::Size, std::move(owner)};
    // release: pairs with the acquire in size(); the page is complete.
    count.store(index + 1, std::memory_order_release);
    return record;
  }
  size_t size() const { return count.load(std::memory_order_acquire); }
  void reserve(hal::DeviceRef where, size_t records) {
    std::lock_guard lock(mutex);
    size_t last = count.load(std::memory_order_relaxed) + records;
    if (last < MaxPages * Page::Size)
      pageOf(where, last);
  }
  void check(World *world, size_t index) {
    LaunchRecord &record = at(index);
    if (!hasFailed(record)) [[likely]]
      return;
    if (!record.owner.domain || (world && world->domain.get() == record.owner.domain &&
                                 hasSeat(record.owner, world->seat())))
      raiseFailure(world, record);
  }
  template <typename Action> void forEachOf(const void *domain, Action action) {
    for (size_t i = 0; i < size(); ++i)
      if (LaunchRecord &record = at(i); record.owner.domain == domain)
        action(*record.failure);
  }
  size_t nextIndex() { return next.fetch_add(1, std::memory_order_relaxed) % size(); }

private:
  LaunchRecord &at(size_t index) {
    return pages[index / Page::Size]->records[index % Page::Size];
  }
  std::unique_ptr<Page> &pageOf(hal::DeviceRef where, size_t index) {
    std::unique_ptr<Page> &page = pages[index / Page::Size];
    if (!page) {
      auto fresh = std::make_unique<Page>();
      fresh->memory = static_cast<tilery_gpu_failure *>(
          where.driver->allocateHost(Page::Size * sizeof(tilery_gpu_failure), where.device));
      page = std::move(fresh);
    }
    return page;
  }

  std::mutex mutex;
  std::atomic<size_t> count = 0, next = 0;
  std::array<std::unique_ptr<Page>, MaxPages> pages;
};

Board &board() {
  static Board &all = *new Board; // devices may write as long as the process lives
  return all;
}
} // namespace

LaunchRecord &makeLaunchRecord(hal::DeviceRef where, RecordOwner owner) {
  return board().add(where, std::move(owner));
}

void checkNextRecord(World *world) {
  if (board().size() > 0)
    board().check(world, board().nextIndex());
}

void checkAllRecords(World *world) {
  for (size_t i = 0; i < board().size(); ++i)
    board().check(world, i);
}

static std::string describePlace(const tilery_gpu_failure &failure, const RecordOwner &owner) {
  const int32_t *id = failure.program_id;
  bool known = failure.rank >= 0 && size_t(failure.rank) < owner.seats.size();
  int seat = known ? owner.seats[size_t(failure.rank)] : failure.rank;
  return fmt::format("{}, kernel '{}', program instance ({}, {}, {})",
                     rankText(failure.rank, owner.team, seat), owner.kernel->image.name, id[0], id[1],
                     id[2]);
}

static std::string describeSignal(const World *world, const tilery_gpu_failure &failure) {
  if (failure.address == 0)
    return "polls memory in a loop";
  auto *signal = reinterpret_cast<const uint64_t *>(failure.address);
  std::string name = world ? world->describeSignal(signal) : fmt::format("at {:#x}", failure.address);
  return fmt::format("signal {}: expected {} {}, seen {}", name, compareText(failure.compare),
                     failure.expected, failure.seen);
}

static Error waitError(const World *world, const tilery_gpu_failure &failure,
                       const RecordOwner &owner, const SourceSite *where) {
  std::string at = where ? fmt::format(" at {}:{}:{}: {}", where->file, where->line, where->column,
                                       where->text)
                         : "";
  return Error(TILERY_WAIT_TIMEOUT,
               fmt::format("wait timed out after {} s\n  {}{}\n    {}",
                           owner.kernel->lastTimeout.load(), describePlace(failure, owner), at,
                           describeSignal(world, failure)));
}

static std::string describeMistake(const tilery_gpu_failure &failure, const RecordOwner &owner) {
  if (failure.kind == TILERY_GPU_BAD_RANK)
    return fmt::format("rank {} is out of range: {} has {} ranks", int64_t(failure.seen),
                       owner.team.empty() ? "the world" : fmt::format("team '{}'", owner.team),
                       std::max<size_t>(owner.seats.size(), 1));
  const std::vector<std::string> &messages = owner.kernel->code.messages;
  bool known = failure.message >= 0 && size_t(failure.message) < messages.size();
  std::string text = known ? messages[size_t(failure.message)] : "an assertion failed";
  return failure.kind == TILERY_GPU_OUT_OF_BOUNDS
             ? outOfBoundsText(text, int64_t(failure.seen), int64_t(failure.expected))
             : text;
}

static Error explain(const World *world, const tilery_gpu_failure &failure,
                     const RecordOwner &owner) {
  const std::vector<SourceSite> &sites = owner.kernel->image.sites;
  const SourceSite *where =
      failure.site >= 0 && size_t(failure.site) < sites.size() ? &sites[size_t(failure.site)] : nullptr;
  if (failure.kind == TILERY_GPU_WAIT_TIMEOUT)
    return waitError(world, failure, owner, where);
  return Error(TILERY_LAUNCH_ERROR, locatedText(describeMistake(failure, owner), where,
                                                describePlace(failure, owner)));
}

void prepareRecords(hal::DeviceRef where) { board().reserve(where, Page::Size / 2); }

// Marks what the host has written, so that it is not taken for the cause.
static constexpr int32_t EndedByHost = 1;

void endWaits(const void *domain) {
  board().forEachOf(domain, [](tilery_gpu_failure &record) {
    uint32_t unclaimed = 0;
    if (!__atomic_compare_exchange_n(&record.claimed, &unclaimed, 1, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_RELAXED))
      return;
    record.reserved = EndedByHost;
    // release: pairs with the polling loads of the grids, and with the acquire in hasFailed.
    __atomic_store_n(&record.kind, uint32_t(TILERY_GPU_WAIT_TIMEOUT), __ATOMIC_RELEASE);
  });
}

void forgetFailures(const void *domain) {
  board().forEachOf(domain, [](tilery_gpu_failure &record) { record = {}; });
}

// The record once the grid has gone; nothing when another thread was quicker.
static bool take(World *world, LaunchRecord &record, tilery_gpu_failure &taken) {
  static std::mutex reporting;
  std::lock_guard lock(reporting);
  if (!hasFailed(record))
    return false;
  // Other instances leave as long as they see the failure, so it stays until they have gone. The
  // grids of other ranks may wait for this one.
  hal::DeviceRef where = record.owner.kernel->where;
  if (world && world->domain->gridsMeet())
    world->awaitLaunches();
  else
    where.driver->synchronizeDevice(where.device);
  taken = *record.failure;
  *record.failure = {};
  return true;
}

// The world fails for good, and so do its records.
[[noreturn]] static void failWorld(World &world, const LaunchRecord &record) {
  const tilery_gpu_failure &failure = *record.failure;
  if (failure.reserved != EndedByHost) {
    Error error = explain(&world, failure, record.owner);
    int seat = record.owner.seats.at(size_t(failure.rank));
    if (seat == world.seat())
      world.failWith(error);
    world.domain->fail(seat, error.kind, error.message);
  }
  world.domain->raiseFailure(world.seat());
}

void raiseFailure(World *world, LaunchRecord &record) {
  bool othersDepend =
      world && record.owner.seats.size() > 1 && record.owner.kernel->image.communicates;
  if (othersDepend || (world && record.failure->reserved == EndedByHost))
    failWorld(*world, record);
  tilery_gpu_failure taken;
  if (take(world, record, taken))
    throw explain(world, taken, record.owner);
}

void leaveDevice(World &world) {
  if (!world.deviceStream() || !world.whole())
    return;
  if (!world.domain->failed())
    return synchronize(&world, 0);
  try {
    world.awaitLaunches();
  } catch (const Error &) { // the world has failed of something else
  }
}

} // namespace tilery::rt
