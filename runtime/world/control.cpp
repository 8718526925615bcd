// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Layout of the control block.
#include "runtime/world/control.h"

#include <algorithm>
#include <cstring>

namespace tilery::rt {

void SharedText::set(std::string_view text) {
  char buffer[Words * 8] = {};
  std::memcpy(buffer, text.data(), std::min(text.size(), sizeof(buffer) - 1));
  for (size_t i = 0; i < Words; ++i) {
    uint64_t word;
    std::memcpy(&word, buffer + i * 8, 8);
    words[i].store(word, std::memory_order_relaxed);
  }
}

std::string SharedText::get() const {
  char buffer[Words * 8];
  for (size_t i = 0; i < Words; ++i) {
    uint64_t word = words[i].load(std::memory_order_relaxed);
    std::memcpy(buffer + i * 8, &word, 8);
  }
  buffer[sizeof(buffer) - 1] = 0;
  return buffer;
}

static size_t align64(size_t bytes) { return (bytes + 63) / 64 * 64; }

namespace {
/// Hands out parts of a block, each on cache lines of its own.
class Carver {
public:
  explicit Carver(void *memory) : next(static_cast<char *>(memory)) {}
  template <typename T> T *take(size_t count) {
    char *start = next;
    next += align64(count * sizeof(T));
    return reinterpret_cast<T *>(start);
  }

private:
  char *next;
};
} // namespace

size_t Meeting::bytes(int size) {
  return 2 * align64(size_t(size) * 8) + 64 + 2 * size_t(size) * sizeof(Mailbox);
}

size_t Meeting::deviceArrivalsOffset(int size) { return align64(size_t(size) * 8); }

Meeting::Meeting(void *memory, int size) : size(size) {
  Carver carver(memory);
  hostArrivals = carver.take<uint64_t>(size_t(size));
  deviceArrivals = carver.take<uint64_t>(size_t(size));
  departures = carver.take<uint64_t>(1);
  boxes = carver.take<Mailbox>(2 * size_t(size));
}

size_t Control::bytes(int size) {
  return align64(sizeof(FailureRecord)) + size_t(size) * sizeof(RankCell) + Meeting::bytes(size);
}

Control::Control(void *memory, int size) {
  Carver carver(memory);
  failure = carver.take<FailureRecord>(1);
  ranks = carver.take<RankCell>(size_t(size));
  everyone = Meeting(carver.take<char>(Meeting::bytes(size)), size);
}

} // namespace tilery::rt
