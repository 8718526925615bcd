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

size_t Control::bytes(int size) {
  return align64(sizeof(FailureRecord)) + size_t(size) * sizeof(RankCell) +
         2 * align64(size_t(size) * 8) + 2 * size_t(size) * sizeof(Mailbox);
}

Control::Control(void *memory, int size) : size(size) {
  char *next = static_cast<char *>(memory);
  auto take = [&next](size_t bytes) {
    char *start = next;
    next += align64(bytes);
    return start;
  };
  failure = reinterpret_cast<FailureRecord *>(take(sizeof(FailureRecord)));
  ranks = reinterpret_cast<RankCell *>(take(size_t(size) * sizeof(RankCell)));
  hostArrivals = reinterpret_cast<uint64_t *>(take(size_t(size) * 8));
  deviceArrivals = reinterpret_cast<uint64_t *>(take(size_t(size) * 8));
  boxes = reinterpret_cast<Mailbox *>(take(2 * size_t(size) * sizeof(Mailbox)));
}

} // namespace tilery::rt
