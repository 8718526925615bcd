// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Memory that the user made and the ranks of a team have registered: an object on all of them, like one
// of the symmetric heap, whose addresses on the ranks have nothing to do with each other.
#pragma once

#include "runtime/hal/driver.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tilery::rt {

class World;

struct RegisteredObject {
  char *begin = nullptr;
  size_t bytes = 0;
  std::string label;
  int team = 0; ///< World::number
  /// Of the team's registrations, alike on all ranks.
  uint64_t serial = 0;
  /// By seat: where this process has each rank's; null of ranks that are not in the team.
  std::vector<char *> addresses;
  /// What PeerMemory holds for it; 0: nothing.
  uint64_t range = 0;
  /// This rank needs it no more, and has yet to tell the others.
  bool dropped = false;
  /// Distances from this rank's memory to each rank's, in the device's memory, for kernels of the
  /// world of that serial number.
  std::map<uint64_t, void *> tables;
};

/// Small pieces of the device's memory with distances to registered memory; used again, because giving
/// memory back may wait for grids.
class DistanceTables {
public:
  void *take(hal::DeviceRef where, size_t bytes);
  void giveBack(void *table, size_t bytes);

private:
  std::mutex mutex;
  std::multimap<size_t, void *> spare;
};

/// Those of one rank, in its world and teams. Objects stay where they are until they are removed.
class RegisteredObjects {
public:
  /// Collective: memory that the user made, of this rank, becomes an object of all ranks, which bring as
  /// much of the same type. It must stay until the end. `recording`: in a stream that is recorded.
  void add(World &world, void *pointer, size_t bytes, std::string_view label, std::string_view type,
           bool recording);
  /// Collective. False, and no collective, when nothing of this team begins there.
  bool end(World &world, const void *pointer);
  /// Not collective: this rank needs it no more. Its memory must stay until collect() names it, or the
  /// world ends. False: nothing begins there.
  bool drop(const World &world, const void *pointer);
  /// Collective: ends what all ranks have dropped; where it began.
  std::vector<void *> collect(World &world);
  /// Of the world or team, which is at its end.
  void forgetAll(World &world);

  /// The object of the last of these teams that has one with [pointer, pointer + bytes), or null.
  RegisteredObject *find(const void *pointer, size_t bytes, std::span<const int> teams);
  /// For kernels of this world on its device: bytes from this rank's registered memory to each rank's.
  const void *distances(World &world, const void *local);

private:
  RegisteredObject *overlapping(const void *pointer, size_t bytes, int team);
  RegisteredObject *startingAt(const void *pointer, int team);
  RegisteredObject *ofSerial(uint64_t serial, int team);
  void insert(RegisteredObject object);
  /// Serial numbers of those that this rank has dropped, the oldest first.
  std::vector<uint64_t> dropped(int team);
  void forget(World &world, const RegisteredObject &object);

  std::shared_mutex mutex; // of the objects' tables too
  using Key = std::pair<int, char *>; // team, begin
  std::map<Key, RegisteredObject> objects;
  std::map<int, uint64_t> lastSerials; // by team
  DistanceTables tables;
  std::atomic<size_t> count = 0;
  using Wanted = std::function<bool(const RegisteredObject &)>;
  RegisteredObject *first(const Wanted &wanted);
  std::vector<RegisteredObject *> where(const Wanted &wanted);
};

} // namespace tilery::rt
