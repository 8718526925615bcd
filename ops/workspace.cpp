// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Workspaces are kept by world and key. A world that is gone leaves entries behind; they are
// recognised by a random cookie at the start of their memory, which fresh memory cannot hold.
#include "ops/workspace.h"

#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <utility>

namespace tilery::ops {

namespace {

constexpr int64_t kHeader = 64;

int64_t aligned(int64_t bytes) { return (bytes + 63) / 64 * 64; }

struct Kept {
  std::mutex mutex;
  std::map<std::pair<tilery_world *, std::string>, std::unique_ptr<Workspace>> entries;
};

Kept &kept() {
  static Kept &all = *new Kept; // outlives static destruction
  return all;
}

} // namespace

static bool holds(World &world, const void *memory, const uint64_t (&cookie)[2]) {
  uint64_t seen[2] = {};
  check(tilery_get(world.handle(), seen, memory, sizeof(seen), world.rank()));
  return std::memcmp(seen, cookie, sizeof(seen)) == 0;
}

bool Workspace::serves(World &world, const WorkspaceNeed &need) const {
  return base && tilery_symmetric_contains(world.handle(), base, size_t(bytes)) &&
         holds(world, base, cookie) && stageBytes >= need.stageBytes &&
         resultBytes >= need.resultBytes;
}

void Workspace::allocate(World &world, const WorkspaceNeed &need) {
  int64_t ranks = world.size(), words = ranks * need.slots;
  stageBytes = aligned(std::max(need.stageBytes, stageBytes));
  resultBytes = aligned(std::max(need.resultBytes, resultBytes));
  int64_t sizes[] = {kHeader,   need.instances * 8, words * 8,      ranks * 8,
                     words * 8, words * 8,          2 * stageBytes, 2 * resultBytes};
  bytes = 0;
  for (int64_t size : sizes)
    bytes += aligned(size);
  void *data = nullptr;
  check(tilery_symmetric_alloc(world.handle(), size_t(bytes), need.key.c_str(), &data));
  base = static_cast<char *>(data);
  char *next = base;
  auto take = [&](int index) { return std::exchange(next, next + aligned(sizes[index])); };
  auto signals = [&](int index) { return Memory{take(index), TILERY_SIGNAL, sizes[index], true}; };
  take(0);
  epochs = {take(1), TILERY_INT64, sizes[1], true};
  seen = {take(2), TILERY_INT64, sizes[2], true};
  entered = signals(3);
  ready = signals(4);
  done = signals(5);
  stageData = take(6);
  resultData = take(7);
  std::random_device random;
  for (uint64_t &word : cookie)
    word = uint64_t(random()) << 32 | random() | 1;
  // Through the world: the memory may be a device's.
  check(tilery_put(world.handle(), base, cookie, sizeof(cookie), world.rank()));
}

Workspace &workspace(World &world, const WorkspaceNeed &need) {
  Workspace *entry = nullptr;
  {
    std::lock_guard lock(kept().mutex);
    auto &slot = kept().entries[{world.handle(), need.key}];
    if (!slot)
      slot = std::make_unique<Workspace>();
    entry = slot.get();
  }
  if (entry->serves(world, need))
    return *entry;
  bool alive = entry->base &&
               tilery_symmetric_contains(world.handle(), entry->base, size_t(entry->bytes)) &&
               holds(world, entry->base, entry->cookie);
  if (alive) { // too small: all ranks see the same sizes
    check(tilery_symmetric_free(world.handle(), entry->base));
    entry->base = nullptr;
  } else {
    *entry = Workspace();
  }
  entry->allocate(world, need);
  return *entry;
}

void discardWorkspace(World &world, const std::string &key) {
  std::lock_guard lock(kept().mutex);
  kept().entries.erase({world.handle(), key});
}

} // namespace tilery::ops
