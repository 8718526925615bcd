// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Registration of memory that the user made. Algorithm: 1) all ranks agree on size and type, and tell
// where theirs lies or why it cannot be registered; 2) what other processes have to map they map
// (PeerMemory); 3) each rank notes the addresses of all. Nobody gives an object up alone: what one
// rank drops stays until all ranks have dropped it.
#include "runtime/base/log.h"
#include "runtime/world/placement.h"
#include "runtime/world/world.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>

namespace tilery::rt {

namespace {

constexpr size_t Alignment = 16; // of the widest access, which compiled code derives from one rank's

enum class Refusal : int32_t { None, Empty, InHeap, OtherDevice, Overlaps, NotShared };

/// What a rank tells of its memory.
struct Offer {
  Refusal refusal = Refusal::None;
  uint64_t address = 0;
  uint64_t bytes = 0;
  tilery_place place = {};
  /// What it overlaps; or the device that it is on, and the one of the rank's symmetric memory.
  char other[64] = {}, wanted[64] = {};
};

std::string whyNot(const Offer &offer) {
  switch (offer.refusal) {
  case Refusal::Empty: return "has no elements";
  case Refusal::InHeap: return "lies in the symmetric heap\nhint: it is symmetric already, pass it as it is";
  case Refusal::OtherDevice:
    return fmt::format("is in memory of {}, but symmetric memory of this world is that of {}\nhint: move "
                       "it there, or make the world with the device= that it is on",
                       offer.other, offer.wanted);
  case Refusal::Overlaps:
    return fmt::format("has memory in common with '{}', which is registered\nhint: register the whole "
                       "once, and pass parts of it",
                       offer.other);
  case Refusal::NotShared:
    return fmt::format("{}\nhint: {}", problemText(offer.place.problem),
                       offer.place.problem == HostOfProcess
                           ? "allocate it with ty.zeros, or let the ranks be threads of one process "
                             "(ty.spawn)"
                           : "allocate it with ty.zeros, with torch outside of a pool of "
                             "cudaMallocAsync, or with cudaMalloc");
  case Refusal::None: break;
  }
  return "";
}

} // namespace

template <size_t Size> static void put(char (&field)[Size], std::string_view text) {
  std::memcpy(field, text.data(), std::min(text.size(), Size - 1));
}

static bool isRefused(const Offer &offer) { return offer.refusal != Refusal::None; }

static Offer offerOf(World &world, const RegisteredObject *taken, void *pointer, size_t bytes) {
  Offer offer;
  offer.address = reinterpret_cast<uint64_t>(pointer);
  offer.bytes = bytes;
  if (bytes == 0) {
    offer.refusal = Refusal::Empty;
    return offer;
  }
  if (world.inHeap(pointer)) {
    offer.refusal = Refusal::InHeap;
    return offer;
  }
  if (int32_t device = hal::deviceNumberOf(pointer); device != world.deviceNumber()) {
    offer.refusal = Refusal::OtherDevice;
    put(offer.other, deviceText(hal::deviceNumber(device)));
    put(offer.wanted, deviceText(world.device()));
    return offer;
  }
  if (taken) {
    offer.refusal = Refusal::Overlaps;
    put(offer.other, taken->label);
    return offer;
  }
  try {
    offer.place = world.share->peers.placeOf(world, pointer, bytes);
  } catch (const Error &error) { // the others wait
    log(LogLevel::Debug, error.message);
    offer.place = {TILERY_PLACE_NONE, NotExported, 0, 0};
  }
  if (offer.place.kind == TILERY_PLACE_NONE)
    offer.refusal = Refusal::NotShared;
  return offer;
}

/// Alike on all ranks.
static void requireOffers(const World &world, std::string_view label,
                          const std::vector<Offer> &offers) {
  auto rankText = [&](size_t rank) {
    return rt::rankText(int(rank), world.teamLabel(), world.seat(int(rank)));
  };
  for (size_t rank = 0; rank < offers.size(); ++rank)
    if (isRefused(offers[rank]))
      raise(TILERY_LAUNCH_ERROR, "'{}' cannot be registered: on {} it {}", label, rankText(rank),
            whyNot(offers[rank]));
  for (size_t rank = 1; rank < offers.size(); ++rank)
    if ((offers[rank].address ^ offers[0].address) % Alignment)
      raise(TILERY_LAUNCH_ERROR,
            "'{}' cannot be registered: it lies {} bytes behind a multiple of {} on {}, but {} on {}\nhint: "
            "kernels access memory of all ranks alike, so its alignment must be the same",
            label, offers[0].address % Alignment, Alignment, rankText(0),
            offers[rank].address % Alignment, rankText(rank));
  if (world.domain->kind == WorldKind::Process)
    return;
  for (size_t a = 0; a < offers.size(); ++a)
    for (size_t b = a + 1; b < offers.size(); ++b)
      if (offers[a].address < offers[b].address + offers[b].bytes &&
          offers[b].address < offers[a].address + offers[a].bytes)
        raise(TILERY_LAUNCH_ERROR,
              "'{}' cannot be registered: {} and {} bring the same memory\nhint: each rank registers "
              "memory of its own",
              label, rankText(a), rankText(b));
}

void RegisteredObjects::add(World &world, void *pointer, size_t bytes, std::string_view label,
                            std::string_view type, bool recording) {
  Offer mine = offerOf(world, overlapping(pointer, bytes, world.number), pointer, bytes);
  std::vector<Offer> offers(size_t(world.size()));
  world.collective(makeHeader(CollectiveKind::Register, label, {bytes}, type), nullptr, 0);
  world.allGather(&mine, offers.data(), sizeof mine);
  requireOffers(world, label, offers);
  std::vector<tilery_place> places;
  for (const Offer &offer : offers)
    places.push_back(offer.place);
  std::vector<void *> addresses(places.size());
  PeerMemory &peers = world.share->peers;
  peers.open(world, places, addresses.data(), recording);
  for (size_t rank = 0; rank < offers.size(); ++rank) {
    offers[rank].place = places[rank];
    if (places[rank].kind == TILERY_PLACE_NONE)
      offers[rank].refusal = Refusal::NotShared;
  }
  requireOffers(world, label, offers);
  RegisteredObject made;
  made.begin = static_cast<char *>(pointer);
  made.bytes = bytes;
  made.label = label;
  made.team = world.number;
  made.serial = ++lastSerials[world.number];
  made.addresses.resize(size_t(world.domain->size()));
  for (size_t rank = 0; rank < addresses.size(); ++rank)
    made.addresses[size_t(world.seat(int(rank)))] = static_cast<char *>(addresses[rank]);
  if (const tilery_place &own = places[size_t(world.rank())]; own.kind == TILERY_PLACE_SHARED)
    made.range = own.number;
  peers.hold(made.range);
  if (world.domain->kind != WorldKind::Process)
    world.domain->registered.add({made.begin, bytes, world.seat()});
  insert(std::move(made));
}

//===-- The end --------------------------------------------------------------------------------===//

// Nobody's grid uses it any more.
void RegisteredObjects::forget(World &world, const RegisteredObject &object) {
  world.share->peers.letGo(object.range);
  world.domain->registered.remove(object.begin, world.seat());
  size_t ranks = size_t(std::count_if(object.addresses.begin(), object.addresses.end(),
                                      [](const char *address) { return address != nullptr; }));
  std::unique_lock lock(mutex);
  for (auto [owner, table] : object.tables)
    if (owner == world.serial) // those of teams have other sizes, and are few
      tables.giveBack(table, ranks * sizeof(int64_t));
  objects.erase({object.team, object.begin});
  count.store(objects.size(), std::memory_order_release);
}

bool RegisteredObjects::end(World &world, const void *pointer) {
  RegisteredObject *object = startingAt(pointer, world.number);
  if (!object)
    return false;
  world.awaitLaunches(); // nobody's grid uses it once all ranks are here
  world.collective(makeHeader(CollectiveKind::Unregister, object->label, {object->serial}), nullptr, 0);
  forget(world, *object);
  return true;
}

bool RegisteredObjects::drop(const World &world, const void *pointer) {
  // Finalizers of a language may run on any thread, while the rank's own ends the object.
  std::unique_lock lock(mutex);
  auto found = objects.find({world.number, static_cast<char *>(const_cast<void *>(pointer))});
  if (found == objects.end())
    return false;
  found->second.dropped = true;
  return true;
}

std::vector<void *> RegisteredObjects::collect(World &world) {
  struct List {
    uint64_t count = 0;
    std::array<uint64_t, 32> serials = {};
    bool has(uint64_t serial) const {
      return std::find(serials.begin(), serials.begin() + count, serial) != serials.begin() + count;
    }
  };
  List mine;
  for (uint64_t serial : dropped(world.number))
    if (mine.count < mine.serials.size())
      mine.serials[mine.count++] = serial;
  if (mine.count > 0)
    world.awaitLaunches(); // nobody's grid uses it once all ranks are here
  world.collective(makeHeader(CollectiveKind::Collect), &mine, sizeof mine);
  std::vector<List> all(size_t(world.size()));
  for (size_t rank = 0; rank < all.size(); ++rank)
    std::memcpy(&all[rank], world.meeting.mailbox(int(rank), world.hostEpoch).payload, sizeof mine);
  std::vector<void *> ended;
  for (size_t i = 0; i < mine.count; ++i) {
    uint64_t serial = mine.serials[i];
    if (!std::all_of(all.begin(), all.end(), [&](const List &list) { return list.has(serial); }))
      continue;
    RegisteredObject *object = ofSerial(serial, world.number);
    ended.push_back(object->begin);
    forget(world, *object);
  }
  return ended;
}

void RegisteredObjects::forgetAll(World &world) {
  for (RegisteredObject *object : where([&](const RegisteredObject &each) {
         return world.whole() || each.team == world.number;
       }))
    forget(world, *object);
}

} // namespace tilery::rt
