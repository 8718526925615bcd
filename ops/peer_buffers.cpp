// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
#include "ops/peer_buffers.h"

#include <algorithm>

namespace tilery::ops {

std::array<tilery_place, PeerBuffers::Most> PeerBuffers::places(World &world) const {
  std::array<tilery_place, Most> found = {};
  for (size_t i = 0; i < count(); ++i)
    found[i] = world.placeOf(own[i].memory.data, size_t(std::max<int64_t>(own[i].memory.bytes, 0)));
  return found;
}

void PeerBuffers::open(World &world, std::vector<tilery_place> all) {
  addresses = world.open(all, int(count()));
  for (size_t i = all.size(); i-- > 0;)
    if (all[i].kind == TILERY_PLACE_NONE)
      unreachable = "'" + own[i % count()].name + "' of rank " + std::to_string(i / count()) + " " +
                    tilery_place_problem(&all[i]);
}

PeerBuffers::Everyones PeerBuffers::everyones(size_t buffer, int first) const {
  int ranks = int(addresses.size() / count());
  Everyones all;
  for (int i = 0; i < ranks; ++i) {
    Memory &memory = all[size_t(i)].emplace(own[buffer].memory);
    memory.data = at((first + i) % ranks, buffer);
    memory.bytes = -1;
  }
  return all;
}

} // namespace tilery::ops
