// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// The exchange of memory between processes. In its rounds (1) each rank tells what it shares and
// what it has retired, (2) those whose memory has descriptors pass them to each of the others,
// through a socket whose name nobody else knows, (3) each maps what it was told of, and (4) tells
// how that went: what one rank cannot map is no rank's.
#include "runtime/world/peer_exchange.h"

#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/world/idle_wait.h"
#include "runtime/world/world.h"

#include <algorithm>
#include <cstring>
#include <poll.h>
#include <random>
#include <unistd.h>

namespace tilery::rt {

//===-- Messages
//-------------------------------------------------------------------------------===//

namespace {
class Packer {
public:
  template <typename T> void put(const T &value) {
    text.append(reinterpret_cast<const char *>(&value), sizeof value);
  }
  std::string text;
};
class Unpacker {
public:
  explicit Unpacker(std::string_view text) : text(text) {}
  template <typename T> T take() {
    T value;
    std::memcpy(&value, text.data(), sizeof value);
    text.remove_prefix(sizeof value);
    return value;
  }

private:
  std::string_view text;
};
struct SocketName {
  char text[64] = {};
};
} // namespace

std::string PeerExchange::packed(const Message &message) {
  Packer packer;
  SocketName name;
  std::memcpy(name.text, message.socket.data(),
              std::min(message.socket.size(), sizeof name.text - 1));
  packer.put(name);
  packer.put(message.retired.size());
  for (uint64_t number : message.retired)
    packer.put(number);
  packer.put(message.ranges.size());
  for (const Range &range : message.ranges) {
    packer.put(range.number);
    packer.put(range.problem);
    packer.put(range.pieces.size());
    for (const hal::ExportedMemory &piece : range.pieces)
      packer.put(piece);
  }
  return packer.text;
}

PeerExchange::Message PeerExchange::unpacked(std::string_view text) {
  Unpacker from(text);
  Message message;
  message.socket = from.take<SocketName>().text;
  message.retired.resize(from.take<size_t>());
  for (uint64_t &number : message.retired)
    number = from.take<uint64_t>();
  message.ranges.resize(from.take<size_t>());
  for (Range &range : message.ranges) {
    range.number = from.take<uint64_t>();
    range.problem = from.take<int32_t>();
    range.pieces.resize(from.take<size_t>());
    for (hal::ExportedMemory &piece : range.pieces)
      piece = from.take<hal::ExportedMemory>();
  }
  return message;
}

std::vector<PeerExchange::Message> PeerExchange::gather() {
  std::string text = packed(own);
  auto ranks = size_t(world.size());
  std::vector<uint64_t> sizes(ranks);
  uint64_t size = text.size();
  world.allGather(&size, sizes.data(), sizeof size);
  size_t most = *std::max_element(sizes.begin(), sizes.end());
  text.resize(most);
  std::string texts(most * ranks, 0);
  world.allGather(text.data(), texts.data(), most);
  std::vector<Message> all;
  for (size_t rank = 0; rank < ranks; ++rank)
    all.push_back(unpacked({texts.data() + rank * most, size_t(sizes[rank])}));
  return all;
}

//===-- Own memory
//-----------------------------------------------------------------------------===//

PeerExchange::Range PeerExchange::exported(uint64_t number, const OwnRange &range) {
  Range offered = {number, NoProblem, {}};
  try {
    for (const hal::Allocation &piece : range.pieces) {
      offered.pieces.push_back(world.device().driver->exportMemory(piece.begin));
      if (offered.pieces.back().descriptor >= 0)
        descriptors.emplace_back(offered.pieces.back().descriptor);
    }
  } catch (const Error &error) {
    log(LogLevel::Debug, error.message);
    // Descriptors of its other pieces are passed on, and not used.
    offered.problem = NotExported;
  }
  return offered;
}

// A name of 128 random bits is known to those alone who have read it in the ranks' meeting place.
static std::string secretName() {
  std::random_device random;
  return fmt::format("tilery-memory-{:08x}{:08x}{:08x}{:08x}", random(), random(), random(),
                     random());
}

void PeerExchange::collect(std::span<const tilery_place> mine) {
  std::lock_guard lock(memory.mutex);
  for (const tilery_place &place : mine) {
    bool listed = std::any_of(own.ranges.begin(), own.ranges.end(),
                              [&](const Range &range) { return range.number == place.number; });
    if (place.kind == TILERY_PLACE_NEW && !listed)
      own.ranges.push_back(exported(place.number, memory.own.at(place.number)));
  }
  for (auto &[number, range] : memory.own) {
    size_t told = 0;
    for (int seat : world.seats())
      told += range.retired ? range.holders.erase(seat) : 0;
    if (told > 0)
      own.retired.push_back(number);
  }
  if (descriptors.empty())
    return;
  own.socket = secretName();
  listener = listenAt(own.socket);
  if (!listener.open())
    fail(std::strerror(errno));
}

//===-- Descriptors
//----------------------------------------------------------------------------===//

void PeerExchange::fail(const std::string &why) {
  raise(TILERY_PEER_ERROR, "{} cannot share memory with other ranks: {}", world.rankText(), why);
}

template <typename Ready> void PeerExchange::await(int descriptor, Ready ready) {
  Deadline deadline = Deadline::after(world.timeoutSeconds());
  pollfd event{descriptor, POLLIN, 0};
  while (poll(&event, 1, 100) <= 0 || !ready()) {
    world.requireUsable(); // a rank that has died failed the world
    raiseIfInterrupted();
    if (deadline.passed(nowNs()))
      fail(fmt::format("another one did not come for it in {} s", world.timeoutSeconds()));
  }
}

static constexpr size_t AtOnce = 4; // of a message, as the rendezvous has

void PeerExchange::serve() {
  for (int served = 1; served < world.size();) {
    Descriptor guest;
    await(listener.get(), [&] { return (guest = acceptFrom(listener)).open(); });
    if (!sameUser(guest))
      continue;
    ++served;
    for (size_t at = 0; at < descriptors.size(); at += AtOnce) {
      std::vector<int> numbers;
      for (size_t i = at; i < std::min(at + AtOnce, descriptors.size()); ++i)
        numbers.push_back(descriptors[i].get());
      uint64_t count = numbers.size();
      if (!sendMessage(guest, &count, sizeof count, numbers))
        fail(std::strerror(errno));
    }
  }
}

// In the order in which the owner exported them.
void PeerExchange::fetch(const Descriptor &socket, Message &from) {
  std::vector<Descriptor> received;
  for (Range &range : from.ranges)
    for (hal::ExportedMemory &piece : range.pieces) {
      if (piece.descriptor < 0)
        continue;
      if (received.empty()) {
        uint64_t count = 0;
        await(socket.get(),
              [&] { return receiveMessage(socket, &count, sizeof count, received, 0); });
        std::reverse(received.begin(), received.end());
      }
      if (received.empty())
        fail("no descriptor came, of which a process can have only so many (ulimit -n)");
      piece.descriptor = received.back().release();
      received.pop_back();
      fetched.emplace_back(piece.descriptor);
    }
}

// All connect before anybody serves, which a backlog allows, so that nobody waits for one that
// waits.
void PeerExchange::passDescriptors(std::vector<Message> &all) {
  std::vector<Descriptor> sockets(all.size());
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].socket.empty() || int(rank) == world.rank())
      continue;
    sockets[rank] = connectTo(all[rank].socket);
    if (!sockets[rank].open())
      fail(std::strerror(errno));
    if (!sameUser(sockets[rank]))
      fail(std::strerror(EPERM));
  }
  if (listener.open())
    serve();
  for (size_t rank = 0; rank < all.size(); ++rank)
    if (sockets[rank].open())
      fetch(sockets[rank], all[rank]);
}

//===-- The others' memory
//---------------------------------------------------------------------===//

int32_t PeerExchange::mapped(int rank, const Range &range) {
  std::pair key(world.seat(rank), range.number);
  {
    std::lock_guard lock(memory.mutex);
    if (memory.theirs.contains(key)) // by another team
      return NoProblem;
  }
  hal::DeviceRef where = world.device();
  MappedRange found;
  for (const hal::ExportedMemory &piece : range.pieces)
    found.bytes += piece.bytes;
  try {
    found.begin = static_cast<char *>(where.driver->importMemory(range.pieces, where.device));
  } catch (const Error &error) {
    log(LogLevel::Debug, error.message);
    return NotMapped;
  }
  std::lock_guard lock(memory.mutex);
  memory.theirs[key] = found;
  return NoProblem;
}

void PeerExchange::forget(int rank, const Message &message) {
  std::lock_guard lock(memory.mutex);
  for (uint64_t number : message.retired)
    if (auto found = memory.theirs.extract({world.seat(rank), number}))
      memory.retired.push_back(found.mapped());
}

void PeerExchange::conclude(int rank, uint64_t number, int32_t problem) {
  std::lock_guard lock(memory.mutex);
  if (rank == world.rank()) {
    OwnRange &range = memory.own.at(number);
    range.problem = problem;
    if (!problem)
      range.holders.insert(world.seats().begin(), world.seats().end());
    return;
  }
  if (problem)
    if (auto found = memory.theirs.extract({world.seat(rank), number}))
      memory.retired.push_back(found.mapped());
}

// The worst that a rank has found of each range.
std::vector<int32_t> PeerExchange::problemsOf(const std::vector<Message> &all,
                                              std::vector<int32_t> found) {
  std::vector<int32_t> everyones(found.size() * all.size());
  world.allGather(found.data(), everyones.data(), found.size() * sizeof(int32_t));
  for (size_t i = 0; i < everyones.size(); ++i)
    found[i % found.size()] = std::max(found[i % found.size()], everyones[i]);
  return found;
}

void PeerExchange::exchange(std::span<tilery_place> places) {
  size_t count = places.size() / size_t(world.size());
  collect(places.subspan(size_t(world.rank()) * count, count));
  std::vector<Message> all = gather();
  passDescriptors(all);
  std::vector<int32_t> found;
  for (int rank = 0; rank < world.size(); ++rank) {
    forget(rank, all[size_t(rank)]);
    for (const Range &range : all[size_t(rank)].ranges)
      found.push_back(range.problem || rank == world.rank() ? range.problem : mapped(rank, range));
  }
  std::vector<int32_t> problems = problemsOf(all, std::move(found));
  auto problem = problems.begin();
  for (int rank = 0; rank < world.size(); ++rank)
    for (const Range &range : all[size_t(rank)].ranges) {
      conclude(rank, range.number, *problem);
      for (tilery_place &place : places.subspan(size_t(rank) * count, count))
        if (place.kind == TILERY_PLACE_NEW && place.number == range.number) {
          place.kind = *problem ? TILERY_PLACE_NONE : TILERY_PLACE_SHARED;
          place.problem = *problem;
        }
      ++problem;
    }
}

void PeerExchange::run(std::span<tilery_place> places) {
  try {
    exchange(places);
  } catch (const Error &error) { // the others wait
    if (world.domain->failed())
      throw;
    world.failWith(error);
  }
}

} // namespace tilery::rt
