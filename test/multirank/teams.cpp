// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// The conformance programs inside teams: overlapping ones, teams of teams, and teams of a split.
#include "test/multirank/kernels.h"

#include <algorithm>

namespace tilery::test {

static std::vector<int> counting(int from, int to) {
  std::vector<int> ranks;
  for (int rank = from; rank < to; ++rank)
    ranks.push_back(rank);
  return ranks;
}

static void runPrograms(World &team) {
  if (team.rank() < 0)
    return;
  lateProducer(team);
  signalAfterData(team);
  ring(team);
  remoteLoads(team);
  hostOperations(team);
}

static void expectOutside(World &team) {
  try {
    team.barrier();
  } catch (const Error &error) {
    require(error.message.find("does not belong to team") != std::string::npos, error.message);
    return;
  }
  require(false, "a rank outside used the team");
}

// Rank 0 and the last rank have other gaps than the rest: each team finds room on all its ranks.
static void placeMemory(World &first, World &second) {
  std::vector<std::pair<World *, int64_t *>> kept;
  for (int round = 0; round < 6; ++round) {
    World &team = round % 2 ? first : second;
    if (team.rank() < 0)
      continue;
    size_t words = 700 * size_t(round + 1);
    auto *data = static_cast<int64_t *>(team.allocate(words * 8, fmt::format("x{}", round)));
    std::fill_n(data, words, round + 1);
    kept.push_back({&team, data});
  }
  for (auto [team, data] : kept) {
    team->barrier();
    int next = (team->rank() + 1) % team->size();
    int64_t fetched = 0;
    team->get(&fetched, data, 8, next);
    require(fetched == data[0], "the peer's copy lies at another place");
    team->barrier();
  }
}

void teams(World &world) {
  int size = world.size(), rank = world.rank();
  std::vector<int> falling = counting(0, size);
  std::reverse(falling.begin(), falling.end());
  std::unique_ptr<World> reversed = world.team(falling, "reversed");
  require(reversed->rank() == size - 1 - rank && reversed->size() == size, "reversed numbers");
  std::unique_ptr<World> first = world.team(counting(0, std::max(1, size - 1)), "all but the last");
  std::unique_ptr<World> last = world.team(counting(size > 1 ? 1 : 0, size), "all but the first");
  std::unique_ptr<World> parity = world.split(rank % 2, -rank, "parity");
  require(parity->size() == (size + 1 - rank % 2) / 2, "size of a split");
  std::unique_ptr<World> single = parity->split(parity->rank(), 0, "single");
  require(single->size() == 1 && single->seat() == rank, "a team of a team");
  for (World *team : {reversed.get(), first.get(), last.get(), parity.get(), single.get()})
    runPrograms(*team);
  runPrograms(world);
  if (first->rank() < 0)
    expectOutside(*first);
  placeMemory(*first, *last);
  for (World *team : {single.get(), last.get(), first.get(), parity.get(), reversed.get()})
    team->finalize();
  runPrograms(*world.team(falling, "again"));
}

} // namespace tilery::test
