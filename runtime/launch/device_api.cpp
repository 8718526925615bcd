// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// The functions of tilery_device_api: ranks, waits, signals and order. Errors never cross the
// compiled kernel's frames: they are recorded and the instance is abandoned.
#include "runtime/launch/device_api.h"

#include "runtime/base/clock.h"
#include "runtime/launch/report.h"

#include <cstring>

namespace tilery::rt {

static void checkRank(const Instance &self, int32_t rank) {
  if (rank < 0 || rank >= self.launch->size())
    raise(TILERY_LAUNCH_ERROR, "rank {} is out of range: {} has {} ranks", rank,
          self.launch->world->name(), self.launch->size());
}

void checkRemote(const Instance &self, const void *address, int64_t bytes, int32_t rank,
                 const char *what) {
  checkRank(self, rank);
  if (bytes < 0)
    raise(TILERY_LAUNCH_ERROR, "{} has a negative size of {} bytes", what, bytes);
  if (!self.launch->world->contains(address, size_t(bytes)))
    raise(TILERY_LAUNCH_ERROR, "{} ({}, {} bytes) does not lie in a symmetric object", what,
          address, bytes);
}

static int32_t axisRank(tilery_instance *abi, int32_t axis, int32_t site) {
  Instance &self = instanceOf(abi);
  int32_t result = 0;
  guarded(self, site, [&] { result = self.launch->world->axisRank(axis); });
  return result;
}

static int32_t axisSize(tilery_instance *abi, int32_t axis, int32_t site) {
  Instance &self = instanceOf(abi);
  int32_t result = 0;
  guarded(self, site, [&] { result = self.launch->world->axisSize(axis); });
  return result;
}

static void *symmAt(tilery_instance *abi, void *local, int32_t rank, int32_t site) {
  Instance &self = instanceOf(abi);
  World &world = *self.launch->world;
  if (uint32_t(rank) < uint32_t(world.size()) && world.inHeap(local)) [[likely]]
    return world.translate(local, rank);
  guarded(self, site, [&] { checkRemote(self, local, 0, rank, "the argument of symm_at"); });
  // A pointer one past the heap's end, say: still no valid address.
  return world.registeredPeer(local, 0, rank);
}

static void wait(tilery_instance *abi, const uint64_t *signal, int64_t count, uint64_t value,
                 int32_t compare, int32_t site) {
  Instance &self = instanceOf(abi);
  guarded(self, site, [&] {
    if (compare < TILERY_CMP_EQ || compare > TILERY_CMP_GE)
      raise(TILERY_LAUNCH_ERROR, "{} is not a comparison for a wait", compare);
    if (count < 0)
      raise(TILERY_LAUNCH_ERROR, "a wait for {} signals: the count must not be negative", count);
    if (count > 0)
      checkRemote(self, signal, count * 8, self.launch->rank(), "the signal of the wait");
    self.wait({signal, count, value, compare}, site);
  });
}

void updateRemoteSignal(Instance &self, const RemoteSignal &update, int32_t site) {
  World &world = *self.launch->world;
  auto *target = static_cast<uint64_t *>(world.translate(update.signal, update.rank));
  if (!self.launch->seeded()) {
    updateSignal(target, update.value, update.op);
    world.domain->ring(world.seat(update.rank));
    return;
  }
  DelayedWrites &delayed = world.domain->scheduler->delayed;
  const SourceSite *where = self.launch->site(site);
  SignalAuthor author{self.launch->seat(),
                      {self.abi.program_id[0], self.abi.program_id[1], self.abi.program_id[2]},
                      self.launch->kernelName,
                      where ? where->line : 0};
  if (self.delaysTo(update.rank)) {
    DelayedWrite write;
    write.kind = DelayedWrite::Kind::Signal;
    write.target = world.seat(update.rank);
    write.runs = {{reinterpret_cast<char *>(target), 8}};
    write.value = update.value;
    write.op = update.op;
    write.author = std::move(author);
    delayed.capture(self.writeQueue());
    delayed.add(self.writeQueue(), std::move(write));
    return;
  }
  // A signal to this very rank is a release too: what it covers has to arrive first.
  if (self.writes)
    delayed.flush(self.writes);
  updateSignal(target, update.value, update.op);
  delayed.noteSignal(target, std::move(author));
}

void traceTransfer(Instance &self, TraceKind kind, const char *name, int32_t peer, int64_t amount,
                   int64_t beginNs) {
  Trace &trace = self.launch->world->trace;
  int64_t endNs = nowNs();
  int peerSeat = self.launch->world->seat(peer);
  TraceEvent event{kind, self.row, trace.intern(name), peerSeat, beginNs, endNs, amount};
  event.kernel = self.launch->traceName;
  trace.record(event);
  trace.summary.transferNs += endNs - beginNs;
  trace.summary.notifies += kind == TraceKind::Notify;
  trace.summary.putBytes += kind == TraceKind::Put ? amount : 0;
  trace.summary.getBytes += kind == TraceKind::Get ? amount : 0;
}

static void notify(tilery_instance *abi, uint64_t *signal, int32_t rank, uint64_t value,
                   int32_t op, int32_t scope, int32_t site) {
  Instance &self = instanceOf(abi);
  guarded(self, site, [&] {
    checkRemote(self, signal, 8, rank, "the signal of the notify");
    self.switchPoint();
    int64_t beginNs = self.launch->traced ? nowNs() : 0;
    updateRemoteSignal(self, {signal, rank, value, op}, site);
    if (self.launch->traced)
      traceTransfer(self, TraceKind::Notify, self.launch->world->describeSignal(signal).c_str(),
                    rank, int64_t(value), beginNs);
  });
}

static void fence(tilery_instance *abi, int32_t) {
  Instance &self = instanceOf(abi);
  if (self.writes)
    ++self.writes->fence;
  fullFence();
}

static void release(tilery_instance *abi) {
  Instance &self = instanceOf(abi);
  if (self.writes)
    self.launch->world->domain->scheduler->delayed.flush(self.writes);
}

static void quiet(tilery_instance *abi, int32_t) {
  release(abi);
  fullFence();
}

static void barrierAll(tilery_instance *abi, int32_t site) {
  Instance &self = instanceOf(abi);
  guarded(self, site, [&] {
    World &world = *self.launch->world;
    Domain &domain = *world.domain;
    self.switchPoint();
    if (domain.scheduler)
      domain.scheduler->delayed.flushRank(world.seat());
    uint64_t epoch = ++world.deviceBarriers;
    uint64_t *arrivals = world.meeting.deviceArrivals;
    // release: pairs with the acquire in Predicate::seen.
    __atomic_store_n(arrivals + world.rank(), epoch, __ATOMIC_RELEASE);
    world.ringMembers();
    self.wait({arrivals, world.size(), epoch, TILERY_CMP_GE}, site, true);
  });
}

static void yield(tilery_instance *abi, int32_t site) { instanceOf(abi).yield(site); }

static void failInstance(tilery_instance *abi, const char *message, int32_t site) {
  guarded(instanceOf(abi), site, [&] { throw Error(TILERY_LAUNCH_ERROR, message); });
}

static void outOfBounds(tilery_instance *abi, const char *access, int64_t index, int64_t count,
                        int32_t site) {
  guarded(instanceOf(abi), site,
          [&] { throw Error(TILERY_LAUNCH_ERROR, outOfBoundsText(access, index, count)); });
}

const tilery_device_api *deviceApi() {
  static const tilery_device_api api = {
      axisRank, axisSize, symmAt,  wait,        notify,     put,          get,         fence,
      quiet,    barrierAll, yield, release,     remoteStore, remoteLoad,  failInstance, printTile,
      outOfBounds};
  return &api;
}

} // namespace tilery::rt
