// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Order rules and delivery of delayed remote writes.
#include "runtime/world/delayed_writes.h"

#include "runtime/world/predicate.h"

#include <algorithm>
#include <cstring>

namespace tilery::rt {

// More than this many of one instance are not kept back: bounds memory and search.
static constexpr size_t MaxPending = 256;
static constexpr size_t Window = 32;

WriteQueue *DelayedWrites::open(int rank) {
  removeClosed();
  queues.push_back(std::make_unique<WriteQueue>());
  queues.back()->rank = rank;
  return queues.back().get();
}

void DelayedWrites::removeClosed() {
  std::erase_if(queues, [](const auto &queue) { return queue->closed && queue->writes.empty(); });
}

static void computeBounds(DelayedWrite &write) {
  write.low = write.runs.front().destination;
  write.high = write.low;
  for (const MemoryRun &run : write.runs) {
    write.low = std::min<const char *>(write.low, run.destination);
    write.high = std::max<const char *>(write.high, run.destination + run.bytes);
  }
}

void DelayedWrites::add(WriteQueue *queue, DelayedWrite write) {
  if (write.runs.empty())
    return;
  computeBounds(write);
  write.fence = queue->fence;
  queue->writes.push_back(std::move(write));
  ++count;
  if (queue->writes.size() > MaxPending)
    deliver(*queue, 0);
}

static bool runsOverlap(const DelayedWrite &left, const DelayedWrite &right) {
  if (left.low >= right.high || right.low >= left.high)
    return false;
  // Interleaved strided tiles: look closer, unless that costs more than it is worth.
  if (left.runs.size() * right.runs.size() > 4096)
    return true;
  for (const MemoryRun &a : left.runs)
    for (const MemoryRun &b : right.runs)
      if (a.destination < b.destination + b.bytes && b.destination < a.destination + a.bytes)
        return true;
  return false;
}

bool DelayedWrites::mayDeliver(const WriteQueue &queue, size_t index) const {
  const DelayedWrite &write = queue.writes[index];
  if (write.kind == DelayedWrite::Kind::Signal)
    return index == 0;
  for (size_t i = 0; i < index; ++i) {
    const DelayedWrite &earlier = queue.writes[i];
    bool fenced = earlier.target == write.target && earlier.fence < write.fence;
    if (fenced || runsOverlap(earlier, write))
      return false;
  }
  return true;
}

void DelayedWrites::deliver(WriteQueue &queue, size_t index) {
  DelayedWrite write = std::move(queue.writes[index]);
  queue.writes.erase(queue.writes.begin() + std::ptrdiff_t(index));
  --count;
  if (write.kind == DelayedWrite::Kind::Signal) {
    auto *signal = reinterpret_cast<uint64_t *>(write.runs[0].destination);
    updateSignal(signal, write.value, write.op);
    noteSignal(signal, std::move(write.author));
    return;
  }
  const char *bytes = write.kind == DelayedWrite::Kind::LatePut ? write.source : write.bytes.data();
  for (const MemoryRun &run : write.runs) {
    std::memcpy(run.destination, bytes, run.bytes);
    bytes += run.bytes;
  }
}

void DelayedWrites::capture(WriteQueue *queue) {
  for (DelayedWrite &write : queue->writes) {
    if (write.kind != DelayedWrite::Kind::LatePut)
      continue;
    write.bytes.assign(write.source, write.source + write.runs[0].bytes);
    write.kind = DelayedWrite::Kind::Data;
  }
}

void DelayedWrites::flush(WriteQueue *queue) {
  while (!queue->writes.empty())
    deliver(*queue, 0);
}

void DelayedWrites::flushOverlapping(WriteQueue *queue, const void *low, const void *high) {
  size_t needed = 0;
  for (size_t i = 0; i < queue->writes.size(); ++i)
    if (queue->writes[i].low < high && low < queue->writes[i].high)
      needed = i + 1;
  // In order, so that what must precede the last of them does.
  for (; needed > 0; --needed)
    deliver(*queue, 0);
}

void DelayedWrites::flushRank(int rank) {
  for (auto &queue : queues)
    if (queue->rank == rank)
      flush(queue.get());
}

void DelayedWrites::dropAll() {
  for (auto &queue : queues)
    queue->writes.clear();
  count = 0;
}

void DelayedWrites::deliverOne(Random &random) {
  size_t start = random.below(queues.size());
  for (size_t k = 0; k < queues.size(); ++k) {
    WriteQueue &queue = *queues[(start + k) % queues.size()];
    if (queue.writes.empty())
      continue;
    size_t index = random.below(std::min(queue.writes.size(), Window));
    deliver(queue, mayDeliver(queue, index) ? index : 0);
    return;
  }
}

void DelayedWrites::noteSignal(const uint64_t *signal, SignalAuthor author) {
  authors[signal] = std::move(author);
}

const SignalAuthor *DelayedWrites::lastAuthor(const uint64_t *signal) const {
  auto found = authors.find(signal);
  return found == authors.end() ? nullptr : &found->second;
}

} // namespace tilery::rt
