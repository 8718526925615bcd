// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Workspaces are kept by world and key. A world that is gone leaves entries behind, which nobody finds
// again, and its memory goes with it.
#include "ops/workspace.h"

#include <map>
#include <memory>
#include <mutex>
#include <utility>

namespace tilery::ops {

namespace {

int64_t aligned(int64_t bytes) { return (bytes + 63) / 64 * 64; }

struct Kept {
  std::mutex mutex;
  std::map<std::pair<uint64_t, std::string>, std::unique_ptr<Workspace>> entries;
};

Kept &kept() {
  static Kept &all = *new Kept; // outlives static destruction
  return all;
}

} // namespace

bool Workspace::serves(const WorkspaceNeed &need) const {
  return base && slots >= need.slots && stageBytes >= need.stageBytes &&
         resultBytes >= need.resultBytes;
}

void Workspace::allocate(World &world, const WorkspaceNeed &need) {
  // Twice as large at least, so that what is left behind stays less than what is used.
  auto grown = [](int64_t needed, int64_t had) { return needed > had ? std::max(needed, 2 * had) : had; };
  buffers = need.buffers;
  slots = grown(need.slots, slots);
  int64_t ranks = world.size(), words = ranks * slots;
  stageBytes = aligned(grown(need.stageBytes, stageBytes));
  resultBytes = aligned(grown(need.resultBytes, resultBytes));
  int64_t sizes[] = {need.instances * 8, ranks * 8, words * 8, words * 8, buffers * stageBytes,
                     buffers * resultBytes};
  int64_t bytes = 0;
  for (int64_t size : sizes)
    bytes += aligned(size);
  void *data = nullptr;
  check(tilery_symmetric_alloc(world.handle(), size_t(bytes), need.key.c_str(), &data));
  base = static_cast<char *>(data);
  char *next = base;
  auto take = [&](int index) { return std::exchange(next, next + aligned(sizes[index])); };
  auto signals = [&](int index) { return Memory{take(index), TILERY_SIGNAL, sizes[index], true}; };
  epochs = {take(0), TILERY_INT64, sizes[0], true};
  entered = signals(1);
  ready = signals(2);
  done = signals(3);
  stageData = take(4);
  resultData = take(5);
}

Workspace &workspace(World &world, const WorkspaceNeed &need) {
  Workspace *entry = nullptr;
  {
    std::lock_guard lock(kept().mutex);
    auto &slot = kept().entries[{tilery_world_serial(world.handle()), need.key}];
    if (!slot)
      slot = std::make_unique<Workspace>();
    entry = slot.get();
  }
  // All ranks see the same sizes. What is too small stays: recorded launches may use it.
  if (!entry->serves(need))
    entry->allocate(world, need);
  return *entry;
}

void discardWorkspace(World &world, const std::string &key) {
  std::lock_guard lock(kept().mutex);
  kept().entries.erase({tilery_world_serial(world.handle()), key});
}

} // namespace tilery::ops
