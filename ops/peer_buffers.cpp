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

int64_t PeerBuffers::alignment() const {
  uintptr_t bits = 16;
  for (void *address : addresses)
    bits |= reinterpret_cast<uintptr_t>(address);
  return int64_t(bits & -bits);
}

} // namespace tilery::ops
