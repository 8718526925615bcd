// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Host-side collectives. All are rounds of one kind: every rank fills its mailbox, arrives, waits
// until all have arrived, and reads. Mailboxes alternate, so one barrier a round is enough: a
// rank that is a round ahead writes to the other set.
#include "runtime/world/world.h"

#include <algorithm>
#include <cstring>

namespace tilery::rt {

template <size_t Size> static void put(char (&field)[Size], std::string_view text) {
  std::memcpy(field, text.data(), std::min(text.size(), Size - 1));
}

CollectiveHeader makeHeader(CollectiveKind kind, std::string_view label,
                            std::array<uint64_t, 3> values, std::string_view type) {
  CollectiveHeader header = {};
  header.kind = kind;
  std::copy(values.begin(), values.end(), header.values);
  put(header.label, label);
  put(header.type, type);
  return header;
}

static std::string describe(const CollectiveHeader &header) {
  switch (header.kind) {
  case CollectiveKind::Barrier: return "barrier";
  case CollectiveKind::AllGather:
    return header.label[0] ? header.label : fmt::format("all-gather of {} bytes", header.values[0]);
  case CollectiveKind::Allocate:
    return fmt::format("allocation of {} bytes for '{}'{}{}", header.values[0], header.label,
                       header.type[0] ? ", " : "", header.type);
  case CollectiveKind::Free:
    return fmt::format("free of '{}' at offset {}", header.label, header.values[0]);
  case CollectiveKind::Finalize: return "finalize";
  case CollectiveKind::Launch:
    return fmt::format("launch of '{}' with grid ({}, {}, {})", header.label, header.values[0],
                       header.values[1], header.values[2]);
  case CollectiveKind::Team:
    return fmt::format("team '{}' of ranks [{}]{}", header.label, header.type,
                       header.values[0] > 16 ? " and more" : "");
  case CollectiveKind::Split: return fmt::format("split '{}'", header.label);
  case CollectiveKind::Place: return fmt::format("placement of team '{}'", header.label);
  case CollectiveKind::Register:
    return fmt::format("registration of {} bytes as '{}'{}{}", header.values[0], header.label,
                       header.type[0] ? ", " : "", header.type);
  case CollectiveKind::Unregister:
    return fmt::format("end of registration {} of '{}'", header.values[0], header.label);
  case CollectiveKind::Collect: return "registration, which first ends dropped ones";
  }
  return "?";
}

void World::checkAgreement(const CollectiveHeader &mine) const {
  bool agree = true;
  for (int rank = 0; rank < size(); ++rank) {
    const CollectiveHeader &theirs = meeting.mailbox(rank, hostEpoch).header;
    agree &= std::memcmp(&mine, &theirs, sizeof(mine)) == 0;
  }
  if (agree)
    return;
  std::string text;
  for (int rank = 0; rank < size(); ++rank)
    text += fmt::format("\n  rank {}: {}", rank,
                        describe(meeting.mailbox(rank, hostEpoch).header));
  raise(TILERY_LAUNCH_ERROR,
        "the ranks{} disagree about a collective operation:{}\nhint: all ranks must make the same "
        "calls with the same sizes and types in the same order",
        whole() ? "" : " of " + name(), text);
}

std::string World::describeMissing(const Predicate &predicate, const std::string &what) const {
  std::vector<int> missing;
  for (int rank = 0; rank < size(); ++rank)
    if (!compareSignal(predicate.seen(rank), predicate.value, predicate.compare))
      missing.push_back(rank);
  return fmt::format("{} (host) waits in {} for {}", rankText(), what, ranksText(missing));
}

void World::arrive(double timeout, const std::string &what) {
  uint64_t *arrivals = meeting.hostArrivals;
  ++hostEpoch;
  // release: pairs with the acquire in Predicate::seen, so that peers see our mailbox.
  __atomic_store_n(arrivals + self, hostEpoch, __ATOMIC_RELEASE);
  ringMembers();
  Predicate predicate{arrivals, size(), hostEpoch, TILERY_CMP_GE};
  RankCell &cell = domain->control.rank(ownSeat);
  cell.activity.set(fmt::format("waits in {}{}", what, whole() ? "" : " of " + name()));
  waitOn({predicate, Deadline::after(timeout < 0 ? timeoutSeconds() : timeout),
          [=, this] { return describeMissing(predicate, what); }});
  cell.activity.set("");
}

void World::ringMembers() {
  if (domain->scheduler)
    return;
  for (int seat : members)
    domain->ring(seat);
}

void World::collective(CollectiveHeader header, const void *payload, size_t bytes,
                       double timeout) {
  requireUsable();
  // arrive() advances the epoch; readers use the advanced one.
  Mailbox &box = meeting.mailbox(self, hostEpoch + 1);
  box.header = header;
  if (bytes)
    std::memcpy(box.payload, payload, bytes);
  arrive(timeout, describe(header));
  checkAgreement(header);
}

void World::barrier(double timeout) {
  awaitLaunches();
  collective(makeHeader(CollectiveKind::Barrier), nullptr, 0, timeout);
}

void World::allGather(const void *sent, void *received, size_t bytes, std::string_view purpose) {
  size_t done = 0;
  do {
    size_t part = std::min(bytes - done, Mailbox::PayloadBytes);
    collective(makeHeader(CollectiveKind::AllGather, purpose, {bytes, done}),
               static_cast<const char *>(sent) + done, part);
    for (int rank = 0; rank < size(); ++rank)
      if (part)
        std::memcpy(static_cast<char *>(received) + size_t(rank) * bytes + done,
                    meeting.mailbox(rank, hostEpoch).payload, part);
    done += part;
  } while (done < bytes);
}

void *World::allocate(size_t bytes, std::string_view label, std::string_view type) {
  CollectiveHeader header = makeHeader(CollectiveKind::Allocate, label, {bytes}, type);
  size_t offset = agreeOnPlace(header, bytes, true, {allRanks(size())});
  if (offset == HeapLayout::NoSpace)
    raiseNoSpace(bytes, label);
  layout.add({offset, bytes, std::string(label), number});
  return base + offset;
}

void World::raiseNoSpace(size_t bytes, std::string_view what) const {
  raise(TILERY_LAUNCH_ERROR,
        "symmetric object '{}' of {} bytes does not fit: the heap of each rank has {} bytes, of "
        "which {} are used\nhint: set heap_bytes or TILERY_HEAP_BYTES",
        what, bytes, heapBytes, layout.usedBytes());
}

// Ranks in different teams have different gaps. Each proposes its first fit at or after the highest
// proposal of the round before; proposals only grow, so they meet, at the latest at NoSpace.
size_t World::agreeOnPlace(CollectiveHeader header, size_t bytes, bool takesPart,
                           const std::vector<std::vector<int>> &teams) {
  size_t mine = takesPart ? layout.place(bytes) : 0;
  for (bool agreed = false; !agreed;) {
    collective(header, &mine, sizeof(mine));
    agreed = true;
    for (const std::vector<int> &team : teams) {
      size_t least = HeapLayout::NoSpace, most = 0;
      bool inside = false;
      for (int rank : team) {
        size_t theirs;
        std::memcpy(&theirs, meeting.mailbox(rank, hostEpoch).payload, sizeof(theirs));
        least = std::min(least, theirs);
        most = std::max(most, theirs);
        inside |= rank == self;
      }
      agreed &= least == most;
      if (inside)
        mine = most == HeapLayout::NoSpace ? most : layout.place(bytes, most);
    }
  }
  return mine;
}

void World::free(void *pointer) {
  requireUsable();
  if (!inHeap(pointer) && share->registered.end(*this, pointer))
    return;
  size_t offset = size_t(static_cast<char *>(pointer) - base);
  const SymmetricObject *object = inHeap(pointer) ? layout.startingAt(offset) : nullptr;
  if (!object || object->team != number)
    raise(TILERY_LAUNCH_ERROR, "{} is not the start of a symmetric object of {}",
          static_cast<const void *>(pointer), rankText());
  awaitLaunches(); // nobody's grid uses it once all ranks are here
  collective(makeHeader(CollectiveKind::Free, object->label, {offset}), nullptr, 0);
  // Nobody uses it any more, and it is zero again before anybody can get it: allocate() is a
  // collective that we have yet to reach.
  domain->discard(ownSeat, offset, object->reserved());
  layout.free(offset);
}

void World::agreeOnLaunch(std::string_view kernel, const int64_t grid[3]) {
  collective(makeHeader(CollectiveKind::Launch, kernel,
                        {uint64_t(grid[0]), uint64_t(grid[1]), uint64_t(grid[2])}),
             nullptr, 0);
}

} // namespace tilery::rt
