// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Options, failure record and doorbells of a world.
#include "runtime/world/domain.h"

#include "runtime/base/futex.h"
#include "runtime/base/knobs.h"
#include "runtime/base/log.h"
#include "runtime/launch/device_failures.h"
#include "runtime/launch/device_kernel.h"
#include "runtime/trace/device_timeline.h"
#include "runtime/world/placement.h"
#include "runtime/world/seeded_scheduler.h"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace tilery::rt {

static constexpr int MaxRanks = 1024;

static void checkMesh(const WorldOptions &options) {
  int64_t product = 1;
  for (int extent : options.mesh) {
    if (extent < 1)
      raise(TILERY_CONFIG_ERROR, "mesh [{}] has an extent below 1", fmt::join(options.mesh, ", "));
    product *= extent;
  }
  if (product != options.ranks)
    raise(TILERY_CONFIG_ERROR, "mesh [{}] has {} ranks, the world has {}",
          fmt::join(options.mesh, ", "), product, options.ranks);
}

// Address space of the host costs nothing; a device's memory is taken at once.
static size_t defaultHeapBytes(const WorldOptions &options) {
  auto wanted = size_t(knobs().heapBytes);
  if (options.device == 0)
    return wanted;
  auto [driver, device] = hal::deviceNumber(options.device);
  constexpr size_t Most = size_t(1) << 30;
  size_t share = size_t(driver->properties(device).memoryBytes) / 4 / size_t(options.ranks);
  return std::min({wanted, share, Most});
}

WorldOptions resolveOptions(WorldOptions options) {
  if (options.ranks < 1 || options.ranks > MaxRanks)
    raise(TILERY_CONFIG_ERROR, "a world has 1 to {} ranks, not {}", MaxRanks, options.ranks);
  if (!options.deviceNames.empty())
    options.device = hal::deviceNumberNamed(options.deviceNames[0]);
  if (options.device != 0 && (options.seed || options.delay))
    raise(TILERY_CONFIG_ERROR, "a world on a device has no seed and no delay: the device chooses "
                               "its schedule");
  if (options.residency < 0)
    raise(TILERY_CONFIG_ERROR, "residency is {}, it must be 0 (no limit) or more",
          options.residency);
  if (options.mesh.empty())
    options.mesh = {options.ranks};
  checkMesh(options);
  if (options.heapBytes == 0)
    options.heapBytes = defaultHeapBytes(options);
  options.heapBytes = (options.heapBytes + 4095) / 4096 * 4096;
  if (options.timeoutSeconds < 0)
    options.timeoutSeconds = knobs().timeoutSeconds;
  if (options.trace.empty())
    options.trace = knobs().trace;
  options.shareDevice |= knobs().shareDevice;
  if (options.delay && !options.seed)
    options.seed = 0;
  return options;
}

Domain::Domain(WorldKind kind, WorldOptions given)
    : kind(kind), options(std::move(given)), heaps(size_t(options.ranks)) {}

LaunchGate *Domain::gateOf(const std::vector<int> &seats) {
  if (!gridsMeetInProcess())
    return nullptr;
  std::lock_guard lock(gateMutex);
  std::unique_ptr<LaunchGate> &gate = gates[seats];
  if (!gate)
    gate = std::make_unique<LaunchGate>(seats.size());
  return gate.get();
}

std::vector<hal::DeviceRef> Domain::distinctDevices() const {
  std::vector<hal::DeviceRef> found;
  for (const hal::DeviceRef &each : devices)
    if (each.driver && std::find(found.begin(), found.end(), each) == found.end())
      found.push_back(each);
  return found;
}

void Domain::openDevices() {
  for (const hal::DeviceRef &each : distinctDevices()) {
    prepareLaunches(each);
    if (!options.trace.empty())
      prepareTimelines(each, int(std::count(devices.begin(), devices.end(), each)));
    if (size() > 1) {
      each.driver->holdMemory(each.device);
      held.push_back(each);
    }
  }
}

// More than a few bring nothing, and streams that share a hardware queue wait for each other
// (hal/cuda/api.cpp asks for 32): ranks of one process that share a device have one each.
int Domain::sideStreamsOf(int rank) const {
  constexpr int most = 4;
  bool alone = kind == WorldKind::Process ||
               std::count(devices.begin(), devices.end(), device(rank)) == 1;
  return alone ? most : 1;
}

void Domain::addRank(int rank) {
  if (!onDevice()) {
    heaps[size_t(rank)] = Mapping::anonymous(options.heapBytes);
    return;
  }
  hal::DeviceRef own = device(rank);
  std::vector<hal::DeviceRef> all = distinctDevices();
  bool peers = kind == WorldKind::Process || all.size() > 1;
  Mapping::Use use = options.sharedHeap ? Mapping::Use::Host
                     : peers            ? Mapping::Use::Peers
                                        : Mapping::Use::Alone;
  Mapping heap = Mapping::onDevice(own, options.heapBytes, use);
  for (const hal::DeviceRef &each : all)
    if (each != own)
      own.driver->reach(heap.data(), each.device);
  heaps[size_t(rank)] = std::move(heap);
  // Other libraries' work in the default stream makes arguments and reads results, so that launches
  // keep its order. Ranks that share a device must not wait for each other that way.
  bool alone = kind == WorldKind::Process || std::count(devices.begin(), devices.end(), own) == 1;
  streams[size_t(rank)] = own.driver->createStream(own.device, alone);
  sideStreams.resize(size_t(size()));
  sideStreams[size_t(rank)] = std::make_unique<SideStreams>(own, sideStreamsOf(rank));
}

void Domain::discard(int seat, size_t offset, size_t bytes) {
  heaps[size_t(seat)].discard(offset, bytes);
  if (!hostReachesHeaps())
    hostParts[size_t(seat)].discard(offset, bytes);
}

Domain::~Domain() {
  if (!onDevice())
    return;
  forgetFailures(this);
  if (stuck) {
    for (Mapping &heap : heaps)
      heap.abandon();
    for (auto &streams : sideStreams)
      (void)streams.release();
    return;
  }
  try {
    sideStreams.clear();
    for (size_t rank = 0; rank < streams.size(); ++rank)
      if (streams[rank])
        devices[rank].driver->destroyStream(devices[rank].device, streams[rank]);
    heaps.clear();
    for (const hal::DeviceRef &each : held)
      each.driver->letGoMemory(each.device);
  } catch (const Error &error) { // of a lost device, which has been reported
    log(LogLevel::Debug, error.message);
  }
}

std::vector<int> allRanks(int size) {
  std::vector<int> ranks(size_t(size), 0);
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

void fullFence() {
#if defined(__SANITIZE_THREAD__)
  static std::atomic<int> word;
  word.fetch_add(1);
#else
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

void Domain::ring(int rank) {
  RankCell &cell = control.rank(rank);
  // Pairs with the fence in Doorbell::sleep: either we see it asleep, or it sees our write.
  fullFence();
  if (cell.sleeping.load(std::memory_order_relaxed) == 0)
    return;
  cell.doorbell.fetch_add(1, std::memory_order_release);
  futexWakeAll(cell.doorbell);
}

void Domain::ringAll() {
  for (int rank = 0; rank < size(); ++rank)
    ring(rank);
}

void Domain::fail(int rank, tilery_status kind, std::string_view text) {
  FailureRecord &record = *control.failure;
  uint32_t none = 0;
  if (!record.stage.compare_exchange_strong(none, 1)) {
    futexWakeAll(record.stage); // who has written it may have died before
    return;
  }
  record.rank = rank;
  record.kind = kind;
  size_t length = std::min(text.size(), sizeof(record.text) - 1);
  std::memcpy(record.text, text.data(), length);
  record.text[length] = 0;
  record.stage.store(2, std::memory_order_release);
  futexWakeAll(record.stage); // of other processes, see PeerWatch
  ringAll();
  if (onDevice())
    endWaits(this);
  if (scheduler)
    scheduler->failureHappened();
}

void Domain::raiseFailure(int self, const std::string &waitingFor) const {
  const FailureRecord &record = *control.failure;
  // The writer may be between the two stages; it may also have died there.
  for (int i = 0; i < 1000 && record.stage.load(std::memory_order_acquire) != 2; ++i)
    usleep(100);
  if (record.stage.load(std::memory_order_acquire) != 2)
    raise(TILERY_PEER_ERROR, "another rank failed");
  auto kind = static_cast<tilery_status>(record.kind);
  // Its own wait may have been found expired by the thread that drives a seeded schedule.
  bool duringOperation = !waitingFor.empty();
  if (record.rank == EveryoneInPart && duringOperation)
    raise(kind, "{}\n  meanwhile {}", record.text, waitingFor);
  if (record.rank < 0 || (record.rank == self && duringOperation))
    throw Error(kind, record.text);
  if (record.rank == self)
    raise(kind, "this world failed earlier: {}", record.text);
  std::string suffix = waitingFor.empty() ? "" : "\n  meanwhile " + waitingFor;
  // A peer that died is said to have died, not to have failed.
  if (kind == TILERY_PEER_ERROR)
    raise(TILERY_PEER_ERROR, "{}{}", record.text, suffix);
  raise(TILERY_PEER_ERROR, "rank {} failed: {}: {}{}", record.rank, kindName(kind), record.text,
        suffix);
}

int Domain::rankOf(const void *pointer) const {
  for (size_t rank = 0; rank < heaps.size(); ++rank)
    if (heaps[rank].contains(pointer))
      return int(rank);
  return registered.ownerOf(pointer);
}

void OwnedMemory::add(Range range) {
  std::lock_guard lock(mutex);
  ranges.push_back(range);
}

void OwnedMemory::remove(const char *begin, int seat) {
  std::lock_guard lock(mutex);
  auto found = std::find_if(ranges.begin(), ranges.end(), [&](const Range &range) {
    return range.begin == begin && range.seat == seat;
  });
  if (found != ranges.end())
    ranges.erase(found);
}

int OwnedMemory::ownerOf(const void *pointer) const {
  std::lock_guard lock(mutex);
  for (const Range &range : ranges)
    if (size_t(static_cast<const char *>(pointer) - range.begin) < range.bytes)
      return range.seat;
  return -1;
}

static std::string describeRank(const RankCell &cell) {
  switch (cell.state.load(std::memory_order_relaxed)) {
  case RankState::Absent: return "has not joined the world";
  case RankState::Finalized: return "has finalized";
  case RankState::Dead: return "is dead";
  case RankState::Live: break;
  }
  std::string activity = cell.activity.get();
  return activity.empty() ? "is outside tilery" : activity;
}

std::string Domain::describePeers(int self) const {
  constexpr int MaxListed = 16;
  std::string text;
  int listed = 0;
  for (int rank = 0; rank < size(); ++rank) {
    if (rank == self)
      continue;
    if (++listed > MaxListed)
      return text + fmt::format("\n  ... and {} more ranks", size() - 1 - MaxListed);
    text += fmt::format("\n  rank {} {}", rank, describeRank(control.rank(rank)));
  }
  return text;
}

} // namespace tilery::rt
