// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Remote writes and signals that have been issued and not yet arrived. The seeded scheduler
// delivers them late and out of order, but never outside the memory model (docs: a signal
// arrives after all earlier operations of its instance, overlapping writes keep their order,
// `fence` orders the writes to one rank).
#pragma once

#include "runtime/base/random.h"

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace tilery::rt {

/// Who last updated a signal, for the deadlock report.
struct SignalAuthor {
  int rank = -1;
  int32_t program[3] = {0, 0, 0};
  std::shared_ptr<const std::string> kernel; // null: the host
  int line = 0;
};

struct MemoryRun {
  char *destination;
  size_t bytes;
};

struct DelayedWrite {
  enum class Kind { Data, LatePut, Signal };
  Kind kind = Kind::Data;
  int target = 0;
  uint32_t fence = 0;
  const char *low = nullptr, *high = nullptr;
  // Data: bytes of all runs, one after another.
  std::vector<MemoryRun> runs;
  std::vector<char> bytes;
  // LatePut: read when it is delivered or captured, as an asynchronous engine would.
  const char *source = nullptr;
  // Signal.
  uint64_t value = 0;
  int32_t op = 0;
  SignalAuthor author;
};

/// The undelivered writes of one program instance, oldest first.
struct WriteQueue {
  std::deque<DelayedWrite> writes;
  uint32_t fence = 0;
  int rank = 0;
  bool closed = false;
};

class DelayedWrites {
public:
  /// The queue stays until it is closed and empty.
  WriteQueue *open(int rank);
  void close(WriteQueue *queue) {
    capture(queue);
    queue->closed = true;
  }

  void add(WriteQueue *queue, DelayedWrite write);
  /// Reads the sources of late puts: after a notify, or the end of the instance, they may change.
  void capture(WriteQueue *queue);
  void flush(WriteQueue *queue);
  /// Delivers what overlaps [low, high), and what must come before it.
  void flushOverlapping(WriteQueue *queue, const void *low, const void *high);
  void flushRank(int rank);
  void dropAll();

  bool pending() const { return count != 0; }
  /// Delivers one write that the memory model allows to be next.
  void deliverOne(Random &random);

  /// The update was made by `author` (also for signals that are not delayed).
  void noteSignal(const uint64_t *signal, SignalAuthor author);
  const SignalAuthor *lastAuthor(const uint64_t *signal) const;

private:
  bool mayDeliver(const WriteQueue &queue, size_t index) const;
  void deliver(WriteQueue &queue, size_t index);
  void removeClosed();

  std::vector<std::unique_ptr<WriteQueue>> queues;
  std::unordered_map<const uint64_t *, SignalAuthor> authors;
  size_t count = 0;
};

} // namespace tilery::rt
