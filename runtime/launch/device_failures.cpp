// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Keeps and words the failures that grids on devices report.
#include "runtime/launch/device_failures.h"

#include "runtime/base/error.h"
#include "runtime/launch/device_kernel.h"
#include "runtime/world/world.h"

#include <array>
#include <atomic>
#include <mutex>

namespace tilery::rt {

namespace {
struct Page {
  static constexpr size_t Size = 1024;
  tilery_gpu_failure *records = nullptr;
  std::array<const DeviceKernel *, Size> owners = {};
  std::array<const void *, Size> domains = {};
};

/// Only grows, so that launches read it without a lock.
class Board {
public:
  static constexpr size_t MaxPages = 256;

  tilery_gpu_failure *add(hal::DeviceRef where, const DeviceKernel &owner, const void *domain) {
    std::lock_guard lock(mutex);
    size_t index = count.load(std::memory_order_relaxed);
    if (index == MaxPages * Page::Size)
      raise(TILERY_LAUNCH_ERROR, "this process has loaded too many kernels that can fail ({})", index);
    std::unique_ptr<Page> &page = pageOf(where, index);
    page->owners[index % Page::Size] = &owner;
    page->domains[index % Page::Size] = domain;
    // release: pairs with the acquire in size(); the page is complete.
    count.store(index + 1, std::memory_order_release);
    return page->records + index % Page::Size;
  }
  size_t size() const { return count.load(std::memory_order_acquire); }
  void reserve(hal::DeviceRef where, size_t records) {
    std::lock_guard lock(mutex);
    size_t last = count.load(std::memory_order_relaxed) + records;
    if (last < MaxPages * Page::Size)
      pageOf(where, last);
  }
  void check(World *world, size_t index) {
    Page &page = *pages[index / Page::Size];
    tilery_gpu_failure &record = page.records[index % Page::Size];
    if (!hasFailed(record)) [[likely]]
      return;
    const void *domain = page.domains[index % Page::Size];
    if (!domain || (world && world->domain.get() == domain))
      raiseFailure(world, record, *page.owners[index % Page::Size]);
  }
  template <typename Action> void forEachOf(const void *domain, Action action) {
    for (size_t i = 0; i < size(); ++i)
      if (Page &page = *pages[i / Page::Size]; page.domains[i % Page::Size] == domain)
        action(page.records[i % Page::Size]);
  }
  size_t nextIndex() { return next.fetch_add(1, std::memory_order_relaxed) % size(); }

private:
  std::unique_ptr<Page> &pageOf(hal::DeviceRef where, size_t index) {
    std::unique_ptr<Page> &page = pages[index / Page::Size];
    if (!page) {
      auto fresh = std::make_unique<Page>();
      fresh->records = static_cast<tilery_gpu_failure *>(
          where.driver->allocateHost(Page::Size * sizeof(tilery_gpu_failure)));
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

tilery_gpu_failure *makeFailureRecord(hal::DeviceRef where, const DeviceKernel &owner,
                                      const void *domain) {
  return board().add(where, owner, domain);
}

void checkNextRecord(World *world) {
  if (board().size() > 0)
    board().check(world, board().nextIndex());
}

void checkAllRecords(World *world) {
  for (size_t i = 0; i < board().size(); ++i)
    board().check(world, i);
}

static std::string describePlace(const tilery_gpu_failure &record, const DeviceKernel &owner) {
  const int32_t *id = record.program_id;
  return fmt::format("rank {}, kernel '{}', program instance ({}, {}, {})", record.rank,
                     owner.image.name, id[0], id[1], id[2]);
}

static std::string describeSignal(const World *world, const tilery_gpu_failure &record) {
  if (record.address == 0)
    return "polls memory in a loop";
  auto *signal = reinterpret_cast<const uint64_t *>(record.address);
  std::string name = world ? world->describeSignal(signal) : fmt::format("at {:#x}", record.address);
  return fmt::format("signal {}: expected {} {}, seen {}", name, compareText(record.compare),
                     record.expected, record.seen);
}

static Error waitError(const World *world, const tilery_gpu_failure &record,
                       const DeviceKernel &owner, const SourceSite *where) {
  std::string at = where ? fmt::format(" at {}:{}:{}: {}", where->file, where->line, where->column,
                                       where->text)
                         : "";
  return Error(TILERY_WAIT_TIMEOUT,
               fmt::format("wait timed out after {} s\n  {}{}\n    {}", owner.lastTimeout.load(),
                           describePlace(record, owner), at, describeSignal(world, record)));
}

static std::string describeMistake(const tilery_gpu_failure &record, const DeviceKernel &owner,
                                   const World *world) {
  const std::vector<std::string> &messages = owner.code.messages;
  if (record.kind == TILERY_GPU_OUT_OF_BOUNDS)
    return fmt::format("index {} is out of bounds: there are {} elements", int64_t(record.seen),
                       int64_t(record.expected));
  if (record.kind == TILERY_GPU_BAD_RANK)
    return fmt::format("rank {} is out of range: the world has {} ranks", int64_t(record.seen),
                       world ? world->size() : 1);
  bool known = record.message >= 0 && size_t(record.message) < messages.size();
  return known ? messages[size_t(record.message)] : "an assertion failed";
}

static Error explain(const World *world, const tilery_gpu_failure &record,
                     const DeviceKernel &owner) {
  const std::vector<SourceSite> &sites = owner.image.sites;
  const SourceSite *where =
      record.site >= 0 && size_t(record.site) < sites.size() ? &sites[size_t(record.site)] : nullptr;
  if (record.kind == TILERY_GPU_WAIT_TIMEOUT)
    return waitError(world, record, owner, where);
  std::string what = describeMistake(record, owner, world);
  if (where)
    what = fmt::format("{}:{}:{}: error: {}\n        {}", where->file, where->line, where->column,
                       what, where->text);
  return Error(TILERY_LAUNCH_ERROR, what + "\n  " + describePlace(record, owner));
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
static bool take(World *world, tilery_gpu_failure &record, const DeviceKernel &owner,
                 tilery_gpu_failure &taken) {
  static std::mutex reporting;
  std::lock_guard lock(reporting);
  if (!hasFailed(record))
    return false;
  // Other instances leave as long as they see the failure, so it stays until they have gone. The
  // grids of other ranks may wait for this one.
  if (world && world->domain->sharesDevice())
    world->awaitLaunches();
  else
    owner.where.driver->synchronizeDevice(owner.where.device);
  taken = record;
  record = {};
  return true;
}

// The world fails for good, and so do its records.
[[noreturn]] static void failWorld(World &world, const tilery_gpu_failure &record,
                                   const DeviceKernel &owner) {
  if (record.reserved != EndedByHost) {
    Error error = explain(&world, record, owner);
    if (record.rank == world.rank())
      world.failWith(error);
    world.domain->fail(world.seat(record.rank), error.kind, error.message);
  }
  world.domain->raiseFailure(world.seat());
}

void raiseFailure(World *world, tilery_gpu_failure &record, const DeviceKernel &owner) {
  bool othersDepend = world && world->size() > 1 && owner.image.communicates;
  if (othersDepend || (world && record.reserved == EndedByHost))
    failWorld(*world, record, owner);
  tilery_gpu_failure taken;
  if (take(world, record, owner, taken))
    throw explain(world, taken, owner);
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
