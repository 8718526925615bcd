// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Waits, collectives and one-sided operations of the host side.
#include "runtime/world/world.h"

#include "runtime/world/idle_wait.h"

#include <cstring>
#include <unistd.h>

namespace tilery::rt {

World::World(std::shared_ptr<Domain> shared, int rank)
    : domain(std::move(shared)), transport(makeMappedTransport(*domain)),
      trace(!domain->options.trace.empty()), self(rank), base(domain->heaps[size_t(rank)].data()),
      heapBytes(domain->options.heapBytes), layout(domain->options.heapBytes) {
  RankCell &cell = domain->control.rank(rank);
  cell.pid.store(getpid());
  cell.state.store(RankState::Live, std::memory_order_release);
}

World::~World() {
  if (finalized)
    return;
  // Whoever waits for this rank would wait in vain.
  domain->fail(self, TILERY_PEER_ERROR,
               fmt::format("rank {} left the world without finalizing it", self));
  RankCell &cell = domain->control.rank(self);
  cell.state.store(RankState::Finalized, std::memory_order_release);
  if (domain->scheduler)
    domain->scheduler->leave(self);
}

const char *World::kindText() const {
  switch (domain->kind) {
  case WorldKind::Single: return "single";
  case WorldKind::InProcess: return "in-process";
  case WorldKind::Process: return "process";
  }
  return "";
}

static int innerRanks(const std::vector<int> &mesh, int axis) {
  int inner = 1;
  for (size_t i = size_t(axis) + 1; i < mesh.size(); ++i)
    inner *= mesh[i];
  return inner;
}

static void checkAxis(const std::vector<int> &mesh, int axis) {
  if (axis < -1 || axis >= int(mesh.size()))
    raise(TILERY_LAUNCH_ERROR, "mesh axis {} is out of range: the mesh [{}] has {} axes", axis,
          fmt::join(mesh, ", "), mesh.size());
}

int World::axisRank(int axis) const {
  const std::vector<int> &mesh = domain->options.mesh;
  checkAxis(mesh, axis);
  return axis < 0 ? self : self / innerRanks(mesh, axis) % mesh[size_t(axis)];
}

int World::axisSize(int axis) const {
  checkAxis(domain->options.mesh, axis);
  return axis < 0 ? size() : domain->options.mesh[size_t(axis)];
}

void World::raiseFinalized() const {
  raise(TILERY_LAUNCH_ERROR, "this world was finalized; rank {} has left it", self);
}

void World::requireUsable() const {
  if (finalized)
    raiseFinalized();
  if (domain->failed())
    domain->raiseFailure(self);
}

void World::failWith(const Error &error) {
  domain->fail(self, error.kind, error.message);
  throw error;
}

void World::waitOn(const HostWait &wait) {
  if (domain->scheduler) {
    if (!domain->scheduler->wait(self, wait))
      domain->raiseFailure(self, wait.describe());
    return;
  }
  waitIdly(wait);
}

void World::failDeadlocked(const std::string &waits) {
  std::string text = fmt::format("deadlock: all ranks wait and nothing is in flight\n  {}{}\nhint: "
                                 "find the notify that should come before each wait; no rank will "
                                 "run it now",
                                 waits, domain->describePeers(self));
  domain->fail(Domain::EveryoneInPart, TILERY_WAIT_TIMEOUT, text);
  domain->raiseFailure(self);
}

void World::waitIdly(const HostWait &wait) {
  IdleWait idle(*domain, self);
  auto ready = [&] { return wait.predicate.holds() || domain->failed(); };
  while (!wait.predicate.holds()) {
    if (domain->failed())
      domain->raiseFailure(self, wait.describe());
    int64_t now = idle.pause(ready, wait.passive);
    if (wait.passive && idle.deadlocked(now) && !ready())
      failDeadlocked(wait.describe());
    if (wait.deadline.passed(now) && !wait.predicate.holds())
      failWith(Error(TILERY_WAIT_TIMEOUT,
                     fmt::format("wait timed out\n  {}{}\nhint: a rank that is late needs a larger "
                                 "timeout (timeout_s, TILERY_TIMEOUT_S; 0 waits for ever)",
                                 wait.describe(), domain->describePeers(self))));
  }
}

std::string World::describeSignal(const uint64_t *signal) const {
  size_t offset = size_t(reinterpret_cast<const char *>(signal) - base);
  const SymmetricObject *object = offset < heapBytes ? layout.find(offset, 8) : nullptr;
  if (!object)
    return fmt::format("at {}", static_cast<const void *>(signal));
  return fmt::format("'{}'[{}]", object->label, (offset - object->offset) / 8);
}

std::string World::describeWait(const Predicate &predicate) const {
  int64_t index = predicate.firstUnmet();
  if (index == predicate.count)
    index = 0;
  std::string text = fmt::format("signal {}: expected {} {}, seen {}",
                                 describeSignal(predicate.cells + index),
                                 compareText(predicate.compare), predicate.value,
                                 predicate.seen(index));
  if (predicate.count > 1)
    text += fmt::format(" (one of {} signals)", predicate.count);
  if (!domain->scheduler)
    return text;
  const SignalAuthor *author = domain->scheduler->delayed.lastAuthor(predicate.cells + index);
  if (!author)
    return text + "; no rank has updated it";
  if (!author->kernel)
    return text + fmt::format("; last updated by rank {} (host)", author->rank);
  return text + fmt::format("; last updated by rank {}, kernel '{}', program instance ({}, {}, {}),"
                            " line {}",
                            author->rank, *author->kernel, author->program[0], author->program[1],
                            author->program[2], author->line);
}

void World::checkRank(int rank) const {
  if (rank < 0 || rank >= size())
    raise(TILERY_LAUNCH_ERROR, "rank {} is out of range: the world has {} ranks", rank, size());
}

size_t World::checkedOffset(const void *pointer, size_t bytes, const char *what) const {
  if (!contains(pointer, bytes))
    raise(TILERY_LAUNCH_ERROR,
          "{} [{}, +{} bytes) does not lie in a symmetric object of rank {}\nhint: allocate it with "
          "tilery.empty, tilery.zeros or tilery_symmetric_alloc",
          what, pointer, bytes, self);
  return size_t(static_cast<const char *>(pointer) - base);
}

bool World::contains(const void *pointer, size_t bytes) const {
  return inHeap(pointer) && layout.find(size_t(static_cast<const char *>(pointer) - base), bytes);
}

void *World::at(void *local, int rank) const {
  checkRank(rank);
  size_t offset = checkedOffset(local, 0, "address");
  char *peer = transport->base(rank);
  if (!peer)
    raise(TILERY_LAUNCH_ERROR, "rank {} is not reachable by loads and stores from rank {}", rank,
          self);
  return peer + offset;
}

void World::notify(uint64_t *signal, int rank, uint64_t value, int32_t op) {
  requireUsable();
  checkRank(rank);
  size_t offset = checkedOffset(signal, 8, "signal");
  transport->signal(rank, offset, value, op);
}

void World::wait(const uint64_t *signal, uint64_t value, int32_t compare, double timeout) {
  requireUsable();
  checkedOffset(signal, 8, "signal");
  Predicate predicate{signal, 1, value, compare};
  waitOn({predicate, Deadline::after(timeout < 0 ? timeoutSeconds() : timeout),
          [this, predicate] {
            return fmt::format("rank {} (host) waits for {}", self, describeWait(predicate));
          },
          false});
}

void World::put(void *destination, const void *source, size_t bytes, int rank) {
  requireUsable();
  checkRank(rank);
  transport->put(rank, checkedOffset(destination, bytes, "destination of the put"), source, bytes);
  domain->ring(rank);
}

void World::get(void *destination, const void *source, size_t bytes, int rank) {
  requireUsable();
  checkRank(rank);
  transport->get(rank, checkedOffset(source, bytes, "source of the get"), destination, bytes);
}

} // namespace tilery::rt
