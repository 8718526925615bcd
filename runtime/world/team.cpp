// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Teams: worlds of some ranks of another world. Algorithm of their creation, which is collective
// over the parent: 1) all ranks agree on who belongs to which team; 2) the ranks of each team agree
// on an offset at which all of them have room; 3) there, in the heap of the team's rank 0, lies the
// meeting place: memory of the heap is zero, and zero is its initial state.
#include "runtime/world/world.h"

#include <algorithm>
#include <cstring>
#include <tuple>

namespace tilery::rt {

static std::vector<int> seatsOf(const World &parent, const std::vector<int> &ranks) {
  std::vector<int> seats;
  for (int rank : ranks)
    seats.push_back(parent.seat(rank));
  return seats;
}

static int placeIn(const std::vector<int> &ranks, int rank) {
  auto found = std::find(ranks.begin(), ranks.end(), rank);
  return found == ranks.end() ? -1 : int(found - ranks.begin());
}

static std::vector<int> extended(std::vector<int> lineage, int number) {
  lineage.push_back(number);
  return lineage;
}

World::World(const World &parent, const std::vector<int> &ranks, std::string_view label)
    : domain(parent.domain), transport(makeTransport(*domain, parent.ownSeat)), share(parent.share),
      trace(share->trace), stacks(share->stacks), members(seatsOf(parent, ranks)),
      self(placeIn(ranks, parent.self)), ownSeat(parent.ownSeat), label(label),
      number(++share->teams), lineage(extended(parent.lineage, number)), base(parent.base),
      heapBytes(parent.heapBytes), layout(share->layout) {
  gate = domain->gateOf(members);
}

static CollectiveHeader headerOf(std::span<const int> ranks, std::string_view label) {
  uint64_t number = 0;
  for (int rank : ranks)
    number = number * 0x100000001b3ull + uint64_t(rank) + 1;
  std::string listed = fmt::format("{}", fmt::join(ranks.first(std::min(ranks.size(), size_t(16))),
                                                   ", "));
  return makeHeader(CollectiveKind::Team, label, {ranks.size(), number}, listed);
}

static void checkTeam(const World &parent, std::span<const int> ranks, std::string_view label) {
  if (ranks.empty())
    raise(TILERY_LAUNCH_ERROR, "team '{}' has no ranks", label);
  std::vector<bool> taken(size_t(parent.size()), false);
  for (int rank : ranks) {
    if (rank < 0 || rank >= parent.size())
      raise(TILERY_LAUNCH_ERROR, "rank {} of team '{}' is out of range: {} has {} ranks", rank, label,
            parent.name(), parent.size());
    if (taken[size_t(rank)])
      raise(TILERY_LAUNCH_ERROR, "rank {} occurs twice in team '{}' of ranks [{}]", rank, label,
            fmt::join(ranks, ", "));
    taken[size_t(rank)] = true;
  }
}

std::unique_ptr<World> World::team(std::span<const int> ranks, std::string_view label) {
  // Agreement comes first: a rank that is wrong alone must not leave the others waiting.
  collective(headerOf(ranks, label), nullptr, 0);
  checkTeam(*this, ranks, label);
  return makeTeam({{ranks.begin(), ranks.end()}}, label);
}

namespace {
struct Choice {
  int color;
  int key;
};
} // namespace

// The ranks of each color, colors in rising order.
static std::vector<std::vector<int>> teamsOf(const std::vector<Choice> &choices) {
  std::vector<int> order = allRanks(int(choices.size()));
  std::sort(order.begin(), order.end(), [&](int a, int b) {
    const Choice &left = choices[size_t(a)], &right = choices[size_t(b)];
    return std::tuple(left.color, left.key, a) < std::tuple(right.color, right.key, b);
  });
  std::vector<std::vector<int>> teams;
  int color = -1;
  for (int rank : order) {
    if (choices[size_t(rank)].color < 0)
      continue;
    if (teams.empty() || choices[size_t(rank)].color != color)
      teams.emplace_back();
    color = choices[size_t(rank)].color;
    teams.back().push_back(rank);
  }
  return teams;
}

std::unique_ptr<World> World::split(int color, int key, std::string_view label) {
  Choice mine{color, key};
  collective(makeHeader(CollectiveKind::Split, label), &mine, sizeof(mine));
  std::vector<Choice> choices(static_cast<size_t>(size()));
  for (int rank = 0; rank < size(); ++rank)
    std::memcpy(&choices[size_t(rank)], meeting.mailbox(rank, hostEpoch).payload, sizeof(mine));
  return makeTeam(teamsOf(choices), label);
}

std::unique_ptr<World> World::makeTeam(const std::vector<std::vector<int>> &teams,
                                       std::string_view name) {
  std::vector<int> ranks;
  for (const std::vector<int> &team : teams)
    if (placeIn(team, self) >= 0)
      ranks = team;
  bool inside = !ranks.empty();
  size_t bytes = inside ? Meeting::bytes(int(ranks.size())) : 0;
  size_t offset = agreeOnPlace(makeHeader(CollectiveKind::Place, name), bytes, inside, teams);
  if (offset == HeapLayout::NoSpace)
    raiseNoSpace(bytes, fmt::format("team {}", name));
  // Without a team of its own, a rank reports the one that the others made.
  bool one = teams.size() == 1;
  std::unique_ptr<World> made(new World(*this, inside || !one ? ranks : teams[0], name));
  if (!inside)
    return made;
  layout.add({offset, bytes, fmt::format("team {}", name), made->number});
  made->meetingOffset = offset;
  made->meeting = Meeting(domain->hostMemory(made->members[0]) + offset, int(ranks.size()));
  return made;
}

// The meeting place has room on every rank, though the ranks meet at rank 0's; on a device the cells
// that each rank's host part would use there are the kernels'.
uint64_t *World::deviceBarrierCells() const {
  if (!domain->onDevice())
    return nullptr;
  size_t cells = whole() ? 0 : meetingOffset + Meeting::deviceArrivalsOffset(size());
  return reinterpret_cast<uint64_t *>(base + cells);
}

// Collective over the team: its symmetric objects, and then its meeting place, are given back.
void World::disband() {
  barrier();
  share->registered.forgetAll(*this);
  for (const SymmetricObject &object : layout.of(number)) {
    if (object.offset == meetingOffset && self == 0)
      continue; // the others still read it
    domain->discard(ownSeat, object.offset, object.reserved());
    layout.free(object.offset);
  }
  uint64_t *departures = meeting.departures;
  // release: pairs with the acquire in Predicate::seen; our last read of the meeting place is done.
  __atomic_fetch_add(departures, 1, __ATOMIC_RELEASE);
  domain->ring(members[0]);
  finalized = true;
  if (self == 0) {
    waitOn({Predicate{departures, 1, uint64_t(size()), TILERY_CMP_EQ},
            Deadline::after(timeoutSeconds()),
            [this] { return rankText() + " waits for the others to leave " + name(); }});
    const SymmetricObject *place = layout.startingAt(meetingOffset);
    domain->discard(ownSeat, meetingOffset, place->reserved());
  }
  layout.free(meetingOffset);
}

} // namespace tilery::rt
