// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// How processes map each other's memory: a collective that all ranks begin because one of them has
// brought memory that the others do not have yet.
#pragma once

#include "runtime/base/error.h"
#include "runtime/world/peer_memory.h"
#include "runtime/world/socket.h"

#include <string>

namespace tilery::rt {

class PeerExchange {
public:
  PeerExchange(World &world, PeerMemory &memory) : world(world), memory(memory) {}
  /// Collective: those of `places`, a list that all have alike, that are new become shared or none.
  /// Memory that a rank has retired is unmapped by the others, later.
  void run(std::span<tilery_place> places);

private:
  /// What a rank offers to map.
  struct Range {
    uint64_t number = 0;
    int32_t problem = NoProblem;
    std::vector<hal::ExportedMemory> pieces;
  };
  struct Message {
    /// Where it passes descriptors on; "" when it has none.
    std::string socket;
    std::vector<uint64_t> retired;
    std::vector<Range> ranges;
  };
  static std::string packed(const Message &message);
  static Message unpacked(std::string_view text);

  void exchange(std::span<tilery_place> places);
  void collect(std::span<const tilery_place> mine);
  Range exported(uint64_t number, const OwnRange &range);
  std::vector<Message> gather();
  void passDescriptors(std::vector<Message> &all);
  void serve();
  void fetch(const Descriptor &socket, Message &from);
  [[noreturn]] void fail(const std::string &why);
  template <typename Ready> void await(int descriptor, Ready ready);
  int32_t mapped(int rank, const Range &range);
  void forget(int rank, const Message &message);
  std::vector<int32_t> problemsOf(const std::vector<Message> &all, std::vector<int32_t> found);
  void conclude(int rank, uint64_t number, int32_t problem);

  World &world;
  PeerMemory &memory;
  Message own;
  std::vector<Descriptor> descriptors, fetched; // of the own pieces, and the others'
  Descriptor listener;
};

} // namespace tilery::rt
