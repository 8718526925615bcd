// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Memory that other ranks use where it is, although it does not lie in the symmetric heap. One
// rank's view: what it has shared of its own, and what it has mapped of the others'. Its teams have
// it in common.
#pragma once

#include "runtime/hal/driver.h"
#include "tilery/tilery.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <span>
#include <utility>
#include <vector>

namespace tilery::rt {

class World;

/// tilery_place::problem.
enum PlaceProblem : int32_t { NoProblem, HostOfProcess, OtherDevice, NotExported, NotMapped };
const char *problemText(int32_t problem);

/// Allocations of this rank, one behind the other, that others use as a whole.
struct OwnRange {
  std::vector<hal::Allocation> pieces;
  char *begin = nullptr;
  size_t bytes = 0;
  /// Seats of ranks that have it mapped; within a process, that can use it.
  std::set<int> holders;
  int32_t problem = NoProblem;
  /// A recorded launch has its addresses.
  bool pinned = false;
  /// Registrations that have them.
  int held = 0;
  /// Freed, or not used for long: who has it mapped is told when ranks next exchange memory.
  bool retired = false;
  uint64_t lastUse = 0;
};

/// Memory of another rank.
struct MappedRange {
  char *begin = nullptr;
  size_t bytes = 0;
};

class PeerMemory {
public:
  /// tilery_place_of.
  tilery_place placeOf(const World &world, const void *pointer, size_t bytes);
  /// tilery_places_open; `recording`: for a launch that is recorded.
  void open(World &world, std::span<tilery_place> places, void **addresses, bool recording);
  /// Whether [address, address + bytes) is memory of this seat that open() has given addresses in.
  bool contains(const World &world, int seat, const void *address, size_t bytes);
  /// The range of this number stays mapped until as many letGo() have followed; 0: none.
  void hold(uint64_t number);
  void letGo(uint64_t number);
  /// Nobody uses what is mapped any more.
  void close(const World &world);

private:
  friend class PeerExchange;
  tilery_place placeOnDevice(const World &world, char *pointer, size_t bytes);
  OwnRange *find(const World &world, const char *pointer, size_t bytes, uint64_t &number);
  OwnRange *add(const World &world, char *pointer, size_t bytes, uint64_t &number);
  void retireLeastUsed();
  char *addressOf(const World &world, const tilery_place &place, int rank);
  void closeRetired(hal::DeviceRef where);

  std::mutex mutex;
  uint64_t lastNumber = 0, uses = 0;
  std::map<uint64_t, OwnRange> own;                       // by number
  std::map<std::pair<int, uint64_t>, MappedRange> theirs; // by seat and the number there
  std::vector<MappedRange> retired;                       // of theirs, still mapped
};

} // namespace tilery::rt
