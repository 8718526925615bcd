// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Which registered object is meant, and tables of distances.
#include "runtime/world/registered.h"

#include "runtime/launch/device_kernel.h"
#include "runtime/world/world.h"

#include <algorithm>
#include <mutex>

namespace tilery::rt {

static bool holds(const RegisteredObject &object, const char *first, size_t bytes) {
  return object.begin <= first && first + bytes <= object.begin + object.bytes;
}

RegisteredObject *RegisteredObjects::find(const void *pointer, size_t bytes,
                                          std::span<const int> teams) {
  if (count.load(std::memory_order_acquire) == 0) // asked for each argument of a launch
    return nullptr;
  auto *first = static_cast<char *>(const_cast<void *>(pointer));
  std::shared_lock lock(mutex);
  for (size_t i = teams.size(); i-- > 0;) {
    auto after = objects.upper_bound({teams[i], first});
    if (after == objects.begin())
      continue;
    auto &[key, object] = *std::prev(after);
    if (key.first == teams[i] && holds(object, first, bytes))
      return &object;
  }
  return nullptr;
}

std::vector<RegisteredObject *> RegisteredObjects::where(const Wanted &wanted) {
  std::vector<RegisteredObject *> found;
  std::shared_lock lock(mutex);
  for (auto &[key, object] : objects)
    if (wanted(object))
      found.push_back(&object);
  return found;
}

RegisteredObject *RegisteredObjects::first(const Wanted &wanted) {
  std::vector<RegisteredObject *> found = where(wanted);
  return found.empty() ? nullptr : found.front();
}

RegisteredObject *RegisteredObjects::overlapping(const void *pointer, size_t bytes, int team) {
  auto *begin = static_cast<const char *>(pointer);
  return first([&](const RegisteredObject &object) {
    return object.team == team && object.begin < begin + bytes &&
           begin < object.begin + object.bytes;
  });
}

RegisteredObject *RegisteredObjects::startingAt(const void *pointer, int team) {
  std::shared_lock lock(mutex);
  auto found = objects.find({team, static_cast<char *>(const_cast<void *>(pointer))});
  return found == objects.end() ? nullptr : &found->second;
}

RegisteredObject *RegisteredObjects::ofSerial(uint64_t serial, int team) {
  return first([&](const RegisteredObject &object) {
    return object.team == team && object.serial == serial;
  });
}

void RegisteredObjects::insert(RegisteredObject object) {
  std::unique_lock lock(mutex);
  objects.emplace(Key(object.team, object.begin), std::move(object));
  count.store(objects.size(), std::memory_order_release);
}

std::vector<uint64_t> RegisteredObjects::dropped(int team) {
  std::vector<uint64_t> serials;
  for (const RegisteredObject *object :
       where([&](const RegisteredObject &each) { return each.team == team && each.dropped; }))
    serials.push_back(object->serial);
  std::sort(serials.begin(), serials.end());
  return serials;
}

const void *RegisteredObjects::distances(World &world, const void *local) {
  RegisteredObject *object = find(local, 0, world.lineage);
  if (!object)
    raise(TILERY_INTERNAL_ERROR, "{} is not registered; this is a bug in tilery", local);
  {
    std::shared_lock lock(mutex);
    if (auto found = object->tables.find(world.serial); found != object->tables.end())
      return found->second;
  }
  std::vector<int64_t> distances;
  for (int seat : world.seats())
    distances.push_back(object->addresses[size_t(seat)] - object->begin);
  std::unique_lock lock(mutex);
  void *&table = object->tables[world.serial];
  if (table)
    return table;
  size_t bytes = distances.size() * sizeof(int64_t);
  table = tables.take(world.device(), bytes);
  world.device().driver->copy(table, distances.data(), bytes);
  return table;
}

void *DistanceTables::take(hal::DeviceRef where, size_t bytes) {
  std::lock_guard lock(mutex);
  auto found = spare.find(bytes);
  if (found == spare.end())
    return takeLaunchMemory(where, bytes);
  void *table = found->second;
  spare.erase(found);
  return table;
}

void DistanceTables::giveBack(void *table, size_t bytes) {
  std::lock_guard lock(mutex);
  spare.emplace(bytes, table);
}

} // namespace tilery::rt
