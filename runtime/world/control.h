// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// The memory through which the ranks of a world coordinate: doorbells and the failure record of all,
// and for the world and each team a meeting place with barrier cells and mailboxes. It lies in shared memory in the process world, so it holds
// no pointers, and all-zero bytes are its initial state.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tilery::rt {

enum class RankState : uint32_t { Absent = 0, Live, Finalized, Dead };

/// A short text that others may read at any time; torn reads only garble a report.
class SharedText {
public:
  void set(std::string_view text);
  std::string get() const;

private:
  static constexpr size_t Words = 12;
  std::atomic<uint64_t> words[Words];
};

struct alignas(64) RankCell {
  /// Futex word that the rank's thread sleeps on.
  std::atomic<uint32_t> doorbell;
  std::atomic<uint32_t> sleeping;
  std::atomic<RankState> state;
  std::atomic<int32_t> pid;
  /// 1 while all that the rank could run waits for predicates that do not hold.
  std::atomic<uint32_t> stuck;
  /// How often it has come unstuck, and how often it has tested its predicates in vain.
  std::atomic<uint32_t> resumed;
  std::atomic<uint32_t> tested;
  /// What the rank does now, for the reports of the others.
  SharedText activity;
};

struct FailureRecord {
  /// 0: none; 1: being written; 2: can be read.
  std::atomic<uint32_t> stage;
  int32_t rank; // a rank, Everyone or EveryoneInPart
  int32_t kind;
  char text[8180];
};

enum class CollectiveKind : uint32_t {
  Barrier = 1,
  AllGather,
  Allocate,
  Free,
  Launch,
  Finalize,
  Team,
  Split,
  Place,
  Register,
  Unregister,
  Collect
};

struct CollectiveHeader {
  CollectiveKind kind;
  uint32_t reserved;
  uint64_t values[3];
  char label[64];
  /// Element type and shape of an allocation; may be empty.
  char type[64];
};

/// Names are cut to what fits.
CollectiveHeader makeHeader(CollectiveKind kind, std::string_view label = "",
                            std::array<uint64_t, 3> values = {}, std::string_view type = "");

struct Mailbox {
  static constexpr size_t PayloadBytes = 16384;
  CollectiveHeader header;
  alignas(64) unsigned char payload[PayloadBytes];
};

/// Where the ranks of the world, or of one team, meet.
class Meeting {
public:
  Meeting() = default;
  Meeting(void *memory, int size);
  static size_t bytes(int size);
  /// Of deviceArrivals in the memory.
  static size_t deviceArrivalsOffset(int size);

  Mailbox &mailbox(int index, uint64_t epoch) const { return boxes[(epoch & 1) * size + index]; }

  /// How many host collectives, and device barriers, each rank has reached.
  uint64_t *hostArrivals = nullptr;
  uint64_t *deviceArrivals = nullptr;
  /// How many have left it for good.
  uint64_t *departures = nullptr;

private:
  int size = 0;
  Mailbox *boxes = nullptr;
};

/// Addresses inside the block, which starts at `memory`.
class Control {
public:
  Control() = default;
  Control(void *memory, int size);
  static size_t bytes(int size);

  RankCell &rank(int index) const { return ranks[index]; }

  FailureRecord *failure = nullptr;
  Meeting everyone;

private:
  RankCell *ranks = nullptr;
};

} // namespace tilery::rt
