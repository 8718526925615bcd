// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Where a rank's buffer lies for the others. Memory is known by its allocation's number, which no
// later allocation at the same address has, so that a call with known memory asks the driver for
// nothing else.
#include "runtime/world/peer_memory.h"

#include "runtime/base/error.h"
#include "runtime/base/log.h"
#include "runtime/world/peer_exchange.h"
#include "runtime/world/world.h"

#include <algorithm>

namespace tilery::rt {

// What a rank shares at most: mappings are cheap, but not free, and each piece is a descriptor on
// its way.
static constexpr size_t MostRanges = 256, MostPieces = 64;

const char *problemText(int32_t problem) {
  switch (problem) {
  case HostOfProcess:
    return "is memory of the host that only its own process has";
  case OtherDevice:
    return "is not memory of the device that the rank uses";
  case NotExported:
    return "was allocated in a way that its driver shares with no other process or device";
  case NotMapped:
    return "is memory that another rank's process cannot map";
  }
  return "";
}

static tilery_place none(PlaceProblem problem) { return {TILERY_PLACE_NONE, problem, 0, 0}; }
static tilery_place sameEverywhere(const void *pointer) {
  return {TILERY_PLACE_PROCESS, 0, 0, reinterpret_cast<uintptr_t>(pointer)};
}

tilery_place PeerMemory::placeOf(const World &world, const void *pointer, size_t bytes) {
  const Domain &domain = *world.domain;
  if (bytes == 0 || world.size() == 1)
    return sameEverywhere(pointer);
  const Mapping &heap = domain.heaps[size_t(world.seat())];
  auto *first = static_cast<const char *>(pointer);
  if (heap.contains(first) && heap.contains(first + bytes - 1))
    return {TILERY_PLACE_HEAP, 0, 0, uint64_t(first - heap.data())};
  if (domain.onDevice())
    return placeOnDevice(world, const_cast<char *>(first), bytes);
  return domain.kind == WorldKind::Process ? none(HostOfProcess) : sameEverywhere(pointer);
}

static bool isLive(hal::DeviceRef where, const OwnRange &range, const char *pointer, size_t bytes) {
  return std::all_of(range.pieces.begin(), range.pieces.end(), [&](const hal::Allocation &piece) {
    auto *begin = static_cast<char *>(piece.begin);
    bool touched = begin < pointer + bytes && pointer < begin + piece.bytes;
    return !touched || where.driver->allocationAt(begin).number == piece.number;
  });
}

OwnRange *PeerMemory::find(const World &world, const char *pointer, size_t bytes,
                           uint64_t &number) {
  for (auto &[each, range] : own) {
    bool inside = range.begin <= pointer && pointer + bytes <= range.begin + range.bytes;
    if (range.retired || !inside)
      continue;
    if (!isLive(world.device(), range, pointer, bytes)) {
      range.retired = true;
      continue;
    }
    number = each;
    range.lastUse = ++uses;
    return &range;
  }
  return nullptr;
}

static std::vector<hal::Allocation> piecesOf(hal::DeviceRef where, const char *pointer,
                                             size_t bytes) {
  std::vector<hal::Allocation> pieces;
  for (const char *at = pointer; at < pointer + bytes;) {
    hal::Allocation piece = where.driver->allocationAt(at);
    if (piece.bytes == 0 || piece.number == 0 || pieces.size() == MostPieces)
      return {};
    pieces.push_back(piece);
    at = static_cast<char *>(piece.begin) + piece.bytes;
  }
  return pieces;
}

void PeerMemory::retireLeastUsed() {
  auto used =
      std::count_if(own.begin(), own.end(), [](auto &each) { return !each.second.retired; });
  if (size_t(used) < MostRanges)
    return;
  OwnRange *least = nullptr;
  for (auto &[number, range] : own)
    if (!range.retired && !range.pinned && range.held == 0 && (!least || range.lastUse < least->lastUse))
      least = &range;
  if (least)
    least->retired = true;
}

OwnRange *PeerMemory::add(const World &world, char *pointer, size_t bytes, uint64_t &number) {
  std::vector<hal::Allocation> pieces = piecesOf(world.device(), pointer, bytes);
  if (pieces.empty())
    return nullptr;
  retireLeastUsed();
  bool within = world.domain->kind != WorldKind::Process; // nobody has to be told
  std::erase_if(own, [&](auto &each) {
    return each.second.retired && (within || each.second.holders.empty());
  });
  number = ++lastNumber;
  OwnRange &range = own[number];
  range.begin = static_cast<char *>(pieces.front().begin);
  range.bytes =
      size_t(static_cast<char *>(pieces.back().begin) + pieces.back().bytes - range.begin);
  range.pieces = std::move(pieces);
  range.lastUse = ++uses;
  return &range;
}

/// Within a process: grids of all ranks' devices may use it.
static int32_t reachFrom(const World &world, const OwnRange &range) {
  hal::DeviceRef where = world.device();
  try {
    for (int seat : world.seats())
      if (world.domain->device(seat) != where && !range.holders.contains(seat))
        for (const hal::Allocation &piece : range.pieces)
          where.driver->reach(piece.begin, world.domain->device(seat).device);
    return NoProblem;
  } catch (const Error &error) {
    log(LogLevel::Debug, error.message);
    return NotExported;
  }
}

tilery_place PeerMemory::placeOnDevice(const World &world, char *pointer, size_t bytes) {
  hal::DeviceRef where = world.device();
  if (where.driver->deviceOf(pointer) != where.device)
    return none(OtherDevice);
  std::lock_guard lock(mutex);
  uint64_t number = 0;
  OwnRange *range = find(world, pointer, bytes, number);
  if (!range)
    range = add(world, pointer, bytes, number);
  if (!range)
    return none(NotExported);
  bool within = world.domain->kind != WorldKind::Process;
  bool known = std::all_of(world.seats().begin(), world.seats().end(), [&](int seat) {
    return seat == world.seat() || range->holders.contains(seat);
  });
  if (within && !known && !range->problem) {
    range->problem = reachFrom(world, *range);
    range->holders.insert(world.seats().begin(), world.seats().end());
  }
  if (range->problem)
    return none(PlaceProblem(range->problem));
  if (within)
    return sameEverywhere(pointer);
  return {known ? TILERY_PLACE_SHARED : TILERY_PLACE_NEW, 0, number,
          uint64_t(pointer - range->begin)};
}

char *PeerMemory::addressOf(const World &world, const tilery_place &place, int rank) {
  switch (place.kind) {
  case TILERY_PLACE_HEAP:
    return world.domain->heaps[size_t(world.seat(rank))].data() + place.offset;
  case TILERY_PLACE_PROCESS:
    return reinterpret_cast<char *>(place.offset);
  case TILERY_PLACE_SHARED:
    return rank == world.rank() ? own.at(place.number).begin + place.offset
                                : theirs.at({world.seat(rank), place.number}).begin + place.offset;
  }
  return nullptr;
}

void PeerMemory::open(World &world, std::span<tilery_place> places, void **addresses,
                      bool recording) {
  auto isNew = [](const tilery_place &place) { return place.kind == TILERY_PLACE_NEW; };
  if (std::any_of(places.begin(), places.end(), isNew)) {
    if (!recording)
      closeRetired(world.device());
    PeerExchange(world, *this).run(places);
  }
  std::lock_guard lock(mutex);
  size_t count = places.size() / size_t(world.size());
  for (size_t i = 0; i < places.size(); ++i) {
    int rank = int(i / count);
    addresses[i] = addressOf(world, places[i], rank);
    if (recording && rank == world.rank() && places[i].kind == TILERY_PLACE_SHARED)
      own.at(places[i].number).pinned = true;
  }
}

bool PeerMemory::contains(const World &world, int seat, const void *address, size_t bytes) {
  const Domain &domain = *world.domain;
  auto *first = static_cast<const char *>(address);
  if (domain.kind != WorldKind::Process || domain.heaps[size_t(seat)].contains(first))
    return true; // the process's own memory is not checked, as that of arguments is not
  std::lock_guard lock(mutex);
  return std::any_of(theirs.begin(), theirs.end(), [&](const auto &each) {
    const MappedRange &range = each.second;
    return each.first.first == seat && range.begin <= first &&
           first + bytes <= range.begin + range.bytes;
  });
}

void PeerMemory::hold(uint64_t number) {
  std::lock_guard lock(mutex);
  if (number)
    ++own.at(number).held;
}

void PeerMemory::letGo(uint64_t number) {
  std::lock_guard lock(mutex);
  if (auto found = own.find(number); found != own.end())
    --found->second.held;
}

// Grids that were launched before may still use it. Other libraries' streams are not known here.
void PeerMemory::closeRetired(hal::DeviceRef where) {
  std::vector<MappedRange> unused;
  {
    std::lock_guard lock(mutex);
    unused.swap(retired);
  }
  if (unused.empty())
    return;
  where.driver->synchronizeDevice(where.device);
  for (const MappedRange &range : unused)
    where.driver->release(range.begin, range.bytes);
}

void PeerMemory::close(const World &world) {
  {
    std::lock_guard lock(mutex);
    for (auto &[key, range] : theirs)
      retired.push_back(range);
    theirs.clear();
    own.clear();
  }
  if (world.domain->stuck || !world.device().driver)
    return;
  try {
    closeRetired(world.device());
  } catch (const Error &error) { // of a lost device, which has been reported
    log(LogLevel::Debug, error.message);
  }
}

} // namespace tilery::rt
