// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Waits, collectives and one-sided operations of the host side.
#include "runtime/world/world.h"

#include "runtime/world/idle_wait.h"

#include <algorithm>
#include <cstring>
#include <unistd.h>

namespace tilery::rt {

World::World(std::shared_ptr<Domain> shared, int rank)
    : domain(std::move(shared)), transport(makeTransport(*domain, rank)),
      share(std::make_shared<RankShare>(domain->options)), trace(share->trace),
      stacks(share->stacks), meeting(domain->control.everyone), members(allRanks(domain->size())),
      self(rank), ownSeat(rank), base(domain->heaps[size_t(rank)].data()),
      heapBytes(domain->options.heapBytes), layout(share->layout) {
  gate = domain->gateOf(members);
  RankCell &cell = domain->control.rank(rank);
  cell.pid.store(getpid());
  if (domain->onDevice()) // first of all objects, so that it lies at the heap's begin
    layout.add({0, size_t(size()) * sizeof(uint64_t), "barrier cells", number});
  if (trace.on())
    startTrace();
  cell.state.store(RankState::Live, std::memory_order_release);
}

World::~World() {
  if (finalized || !whole())
    return;
  share->finalized = true;
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

std::string World::name() const { return whole() ? "the world" : fmt::format("team '{}'", label); }

std::string rankText(int rank, std::string_view team, int seat) {
  return team.empty() ? fmt::format("rank {}", rank)
                      : fmt::format("rank {} of team '{}' (rank {} of the world)", rank, team, seat);
}

std::string World::rankText() const { return rt::rankText(self, teamLabel(), ownSeat); }

std::string World::ranksText(const std::vector<int> &ranks) const {
  if (whole())
    return fmt::format("ranks {}", fmt::join(ranks, ", "));
  std::vector<int> seats;
  for (int rank : ranks)
    seats.push_back(seat(rank));
  return fmt::format("ranks {} of {} (ranks {} of the world)", fmt::join(ranks, ", "), name(),
                     fmt::join(seats, ", "));
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

// A team has one axis.
static std::vector<int> meshOf(const World &world) {
  return world.whole() ? world.domain->options.mesh : std::vector<int>{world.size()};
}

int World::axisRank(int axis) const {
  std::vector<int> mesh = meshOf(*this);
  checkAxis(mesh, axis);
  return axis < 0 ? self : self / innerRanks(mesh, axis) % mesh[size_t(axis)];
}

int World::axisSize(int axis) const {
  std::vector<int> mesh = meshOf(*this);
  checkAxis(mesh, axis);
  return axis < 0 ? size() : mesh[size_t(axis)];
}

void World::raiseFinalized() const {
  if (finalized && !whole())
    raise(TILERY_LAUNCH_ERROR, "{} was finalized; rank {} has left it", name(), self);
  raise(TILERY_LAUNCH_ERROR, "this world was finalized; rank {} has left it", ownSeat);
}

void World::requireUsable() const {
  if (finalized || share->finalized)
    raiseFinalized();
  if (domain->failed())
    domain->raiseFailure(ownSeat);
  if (self < 0)
    raise(TILERY_LAUNCH_ERROR, "rank {} of the world does not belong to {}{}", ownSeat, name(),
          members.empty() ? "" : fmt::format(" (ranks {} of the world)", fmt::join(members, ", ")));
}

void World::failWith(const Error &error) {
  domain->fail(ownSeat, error.kind, error.message);
  throw error;
}

void World::waitOn(const HostWait &wait) {
  if (domain->scheduler) {
    if (!domain->scheduler->wait(ownSeat, wait))
      domain->raiseFailure(ownSeat, wait.describe());
    return;
  }
  waitIdly(wait);
}

void World::failDeadlocked(const std::string &waits) {
  std::string text = fmt::format("deadlock: all ranks wait and nothing is in flight\n  {}{}\nhint: "
                                 "find the notify that should come before each wait; no rank will "
                                 "run it now",
                                 waits, domain->describePeers(ownSeat));
  domain->fail(Domain::EveryoneInPart, TILERY_WAIT_TIMEOUT, text);
  domain->raiseFailure(ownSeat);
}

static uint64_t nextSerial() {
  static std::atomic<uint64_t> last = 0;
  return ++last;
}

SerialNumber::SerialNumber() : value(nextSerial()) {}

hal::Stream World::deviceStream() const {
  return domain->streams.empty() ? nullptr : domain->streams[size_t(ownSeat)];
}

int32_t World::deviceNumber() const {
  hal::DeviceRef own = device();
  return own.driver ? hal::numberOf(*own.driver, own.device) : 0;
}

int World::ranksOnDevice() const {
  if (!domain->onDevice())
    return 1;
  const std::vector<int> &groups = domain->deviceGroups;
  return int(std::count_if(members.begin(), members.end(), [&](int each) {
    return groups[size_t(each)] == groups[size_t(ownSeat)];
  }));
}

void World::waitIdly(const HostWait &wait) {
  IdleWait idle(*domain, ownSeat);
  auto ready = [&] { return wait.predicate.holds() || domain->failed(); };
  while (!wait.predicate.holds()) {
    if (domain->failed())
      domain->raiseFailure(ownSeat, wait.describe());
    int64_t now = idle.pause(ready, wait.passive);
    if (wait.passive && idle.deadlocked(now) && !ready())
      failDeadlocked(wait.describe());
    if (wait.deadline.passed(now) && !wait.predicate.holds())
      failWith(Error(TILERY_WAIT_TIMEOUT,
                     fmt::format("wait timed out\n  {}{}\nhint: a rank that is late needs a larger "
                                 "timeout (timeout_s, TILERY_TIMEOUT_S; 0 waits for ever)",
                                 wait.describe(), domain->describePeers(ownSeat))));
  }
}

std::string World::describeSignal(const uint64_t *signal) const {
  // A device's report has the address of the rank that failed; objects lie at one offset on all.
  int owner = domain->rankOf(signal);
  const char *heap = owner < 0 ? base : domain->heaps[size_t(owner)].data();
  size_t offset = size_t(reinterpret_cast<const char *>(signal) - heap);
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
  const char *numbering = whole() ? "" : " of the world";
  if (!author->kernel)
    return text + fmt::format("; last updated by rank {}{} (host)", author->rank, numbering);
  return text + fmt::format("; last updated by rank {}{}, kernel '{}', program instance "
                            "({}, {}, {}), line {}",
                            author->rank, numbering, *author->kernel, author->program[0], author->program[1],
                            author->program[2], author->line);
}

void World::checkRank(int rank) const {
  if (rank < 0 || rank >= size())
    raise(TILERY_LAUNCH_ERROR, "rank {} is out of range: {} has {} ranks", rank, name(), size());
}

size_t World::checkedOffset(const void *pointer, size_t bytes, const char *what) const {
  if (!inHeap(pointer) || !contains(pointer, bytes))
    raise(TILERY_LAUNCH_ERROR,
          "{} [{}, +{} bytes) does not lie in a symmetric object of {}\nhint: allocate it with "
          "tilery.empty, tilery.zeros or tilery_symmetric_alloc",
          what, pointer, bytes, rankText());
  return size_t(static_cast<const char *>(pointer) - base);
}

bool World::contains(const void *pointer, size_t bytes) const {
  if (!inHeap(pointer))
    return registered(pointer, bytes) != nullptr;
  const SymmetricObject *object =
      layout.find(size_t(static_cast<const char *>(pointer) - base), bytes);
  return object && std::find(lineage.begin(), lineage.end(), object->team) != lineage.end();
}

std::string World::whyNotContained(const void *pointer, size_t bytes) const {
  const SymmetricObject *object =
      layout.find(size_t(static_cast<const char *>(pointer) - base), bytes);
  if (!object)
    return "does not lie in one live symmetric object\nhint: was it freed?";
  return fmt::format("is '{}', which belongs to a team, not to {}\nhint: only the ranks of that "
                     "team have it; launch on that team",
                     object->label, name());
}

void *World::at(void *local, int rank) const {
  checkRank(rank);
  if (void *peer = registeredPeer(local, 0, rank))
    return peer;
  size_t offset = checkedOffset(local, 0, "address");
  char *peer = transport->base(seat(rank));
  if (!peer)
    raise(TILERY_LAUNCH_ERROR, "rank {} is not reachable by this transport: it cannot load from and "
                               "store to memory of {}",
          rank, rankText());
  return peer + offset;
}

void World::notify(uint64_t *signal, int rank, uint64_t value, int32_t op) {
  requireUsable();
  checkRank(rank);
  size_t offset = checkedOffset(signal, 8, "signal");
  transport->signal(seat(rank), offset, value, op);
}

void World::wait(const uint64_t *signal, uint64_t value, int32_t compare, double timeout) {
  requireUsable();
  checkedOffset(signal, 8, "signal");
  if (!domain->hostReachesHeaps())
    return waitOnDevice({signal, 1, value, compare}, timeout);
  Predicate predicate{signal, 1, value, compare};
  waitOn({predicate, Deadline::after(timeout < 0 ? timeoutSeconds() : timeout),
          [this, predicate] {
            return fmt::format("{} (host) waits for {}", rankText(), describeWait(predicate));
          },
          false});
}

void World::put(void *destination, const void *source, size_t bytes, int rank) {
  requireUsable();
  checkRank(rank);
  if (void *peer = registeredPeer(destination, bytes, rank))
    return copyTo(peer, source, bytes);
  transport->put(seat(rank), checkedOffset(destination, bytes, "destination of the put"), source,
                 bytes);
  domain->ring(seat(rank));
}

const RegisteredObject *World::registered(const void *pointer, size_t bytes) const {
  return share->registered.find(pointer, bytes, lineage);
}

void *World::registeredPeer(const void *local, size_t bytes, int rank) const {
  const RegisteredObject *object = registered(local, bytes);
  if (!object)
    return nullptr;
  return object->addresses[size_t(seat(rank))] + (static_cast<const char *>(local) - object->begin);
}

void World::copyTo(void *destination, const void *source, size_t bytes) {
  if (device().driver)
    return device().driver->copy(destination, source, bytes);
  if (bytes > 0)
    std::memmove(destination, source, bytes);
}

void World::get(void *destination, const void *source, size_t bytes, int rank) {
  requireUsable();
  checkRank(rank);
  if (void *peer = registeredPeer(source, bytes, rank))
    return copyTo(destination, peer, bytes);
  transport->get(seat(rank), checkedOffset(source, bytes, "source of the get"), destination, bytes);
}

} // namespace tilery::rt
