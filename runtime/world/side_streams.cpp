// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Branches of a stream by events, which recordings understand as well.
#include "runtime/world/side_streams.h"

namespace tilery::rt {

SideStreams::Set::Set(hal::DeviceRef where, int count) : where(where) {
  begun = where.driver->createEvent(where.device, /*timed=*/false);
  for (int i = 0; i < count; ++i) {
    streams.push_back(where.driver->createStream(where.device));
    ended.push_back(where.driver->createEvent(where.device, /*timed=*/false));
  }
}

SideStreams::Set::~Set() {
  where.driver->destroyEvent(where.device, begun);
  for (hal::Event event : ended)
    where.driver->destroyEvent(where.device, event);
  for (hal::Stream stream : streams)
    where.driver->destroyStream(where.device, stream);
}

SideStreams::SideStreams(hal::DeviceRef where, int count) : where(where), count(count) {
  sets.push_back(std::make_unique<Set>(where, count));
}

// A stream that has followed one that is recorded belongs to the recording until that ends, and
// cannot follow another meanwhile.
SideStreams::Set &SideStreams::setFor(hal::Stream main) {
  auto recordingOf = [&](hal::Stream stream) {
    return where.driver->recordingOf(where.device, stream);
  };
  uint64_t recording = recordingOf(main);
  Set *unused = nullptr;
  for (auto &set : sets) {
    uint64_t other = recordingOf(set->streams.front());
    if (recording && other == recording)
      return *set;
    if (other == 0 && !unused)
      unused = set.get();
  }
  return unused ? *unused : *sets.emplace_back(std::make_unique<Set>(where, count));
}

SideStreams::Fork::Fork(SideStreams &sides, hal::Stream main)
    : lock(sides.mutex), main(main), set(sides.setFor(main)), used(set.streams.size()) {
  set.where.driver->record(set.begun, set.where.device, main);
}

hal::Stream SideStreams::Fork::stream(size_t index) {
  index %= used.size();
  hal::Stream chosen = set.streams[index];
  if (!used[index])
    set.where.driver->waitFor(set.begun, set.where.device, chosen);
  used[index] = true;
  return chosen;
}

void SideStreams::Fork::join() {
  auto [driver, device] = set.where;
  for (size_t i = 0; i < used.size(); ++i) {
    if (!used[i])
      continue;
    driver->record(set.ended[i], device, set.streams[i]);
    driver->waitFor(set.ended[i], device, main);
  }
}

} // namespace tilery::rt
