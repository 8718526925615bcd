// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
#include "ops/peer_buffers.h"

#include "ops/op.h"

#include <algorithm>

namespace tilery::ops {

std::array<PeerBuffers::Described, PeerBuffers::Most> PeerBuffers::described(World &world) const {
  std::array<Described, Most> found = {};
  for (size_t i = 0; i < count(); ++i) {
    const Memory &memory = own[i].memory;
    found[i] = {world.placeOf(memory.data, size_t(std::max<int64_t>(memory.bytes, 0))), memory.dtype,
                own[i].strides};
  }
  return found;
}

static std::string layoutText(const PeerBuffers::Described &buffer) {
  return std::string(dtypeName(int32_t(buffer.dtype))) + " with strides [" + std::to_string(buffer.strides[0]) +
         ", " + std::to_string(buffer.strides[1]) + "]";
}

// From rank 0's; "" when there is none.
std::string PeerBuffers::differenceOf(size_t at) const {
  const Described &other = everyonesDescribed[at], &first = everyonesDescribed[at % count()];
  if (other.dtype == first.dtype && other.strides == first.strides)
    return "";
  return "is " + layoutText(other) + " and that of rank 0 " + layoutText(first);
}

void PeerBuffers::open(World &world) {
  std::vector<tilery_place> places;
  for (const Described &each : everyonesDescribed)
    places.push_back(each.place);
  addresses = world.open(places, int(count()));
  for (size_t i = places.size(); i-- > 0;) {
    std::string problem = places[i].kind == TILERY_PLACE_NONE ? tilery_place_problem(&places[i]) : differenceOf(i);
    if (!problem.empty())
      unreachable = "'" + own[i % count()].name + "' of rank " + std::to_string(i / count()) + " " + problem;
  }
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
