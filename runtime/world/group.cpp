// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Worlds within one process.
#include "runtime/world/group.h"

#include "runtime/base/knobs.h"
#include "runtime/world/placement.h"

namespace tilery::rt {

static void placeOnDevices(Domain &domain) {
  std::vector<int32_t> numbers = placeRanks(domain.options);
  if (numbers[0] == 0)
    return;
  for (int32_t number : numbers)
    domain.devices.push_back(hal::deviceNumber(number));
  domain.deviceGroups = numbers;
  domain.streams.resize(numbers.size());
  domain.openDevices();
  if (domain.hostReachesHeaps())
    return;
  for (int rank = 0; rank < domain.size(); ++rank)
    domain.hostParts.push_back(Mapping::anonymous(domain.options.heapBytes));
}

static std::shared_ptr<Domain> makeLocalDomain(WorldKind kind, WorldOptions options) {
  auto domain = std::make_shared<Domain>(kind, resolveOptions(std::move(options)));
  domain->controlMemory = Mapping::anonymous(Control::bytes(domain->size()));
  domain->control = Control(domain->controlMemory.data(), domain->size());
  placeOnDevices(*domain);
  for (int rank = 0; rank < domain->size(); ++rank)
    domain->addRank(rank);
  if (domain->options.seed)
    domain->scheduler = std::make_unique<SeededScheduler>(*domain, *domain->options.seed);
  return domain;
}

Group::Group(WorldOptions options) {
  bool onHost = options.device == 0 && options.deviceNames.empty();
  if (!options.seed && knobs().seed >= 0 && onHost)
    options.seed = uint64_t(knobs().seed);
  domain = makeLocalDomain(WorldKind::InProcess, std::move(options));
}

std::unique_ptr<World> Group::bind(int rank) {
  if (rank < 0 || rank >= size())
    raise(TILERY_CONFIG_ERROR, "rank {} is out of range: the group has {} ranks", rank, size());
  if (domain->control.rank(rank).state.load() != RankState::Absent)
    raise(TILERY_CONFIG_ERROR, "rank {} of the group is bound already", rank);
  return std::make_unique<World>(domain, rank);
}

void Group::abort(int rank, std::string_view reason) {
  domain->fail(rank, TILERY_LAUNCH_ERROR, reason);
}

uint64_t Group::scheduleHash() const {
  return domain->scheduler ? domain->scheduler->hash() : 0;
}

std::unique_ptr<World> makeSingleWorld(WorldOptions options) {
  options.ranks = 1;
  return std::make_unique<World>(makeLocalDomain(WorldKind::Single, std::move(options)), 0);
}

std::string World::describeJson() const {
  const WorldOptions &options = domain->options;
  std::string team = whole() ? "null" : quoteJson(label);
  std::vector<int> mesh = whole() ? options.mesh : std::vector<int>{size()};
  return fmt::format(R"({{"rank":{},"size":{},"mesh":[{}],"kind":"{}","heap":{{"bytes":{},)"
                     R"("used":{}}},"timeout_s":{},"trace":{},"team":{},"ranks":[{}],"device":{},"shared_heap":{}}})",
                     self, size(), fmt::join(mesh, ","), kindText(), options.heapBytes,
                     layout.usedBytes(), options.timeoutSeconds, quoteJson(options.trace), team,
                     fmt::join(members, ","), deviceNumber(), options.sharedHeap);
}

} // namespace tilery::rt
