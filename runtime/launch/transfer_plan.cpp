// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Checks of transfers, the host as their engine, and a device's streams.
#include "runtime/launch/transfer_plan.h"

#include "runtime/world/placement.h"
#include "runtime/world/world.h"

#include <cstring>

namespace tilery::rt {

static void checkRemotePart(const World &world, size_t index, const void *address, size_t bytes,
                            const char *what) {
  if (world.contains(address, bytes))
    return;
  raise(
      TILERY_LAUNCH_ERROR,
      "{} of transfer {} [{}, +{} bytes) does not lie in a symmetric object of {}\nhint: allocate "
      "it with tilery.empty, tilery.zeros, tilery.signals or tilery_symmetric_alloc",
      what, index, address, bytes, world.rankText());
}

static void checkOpened(const World &world, size_t index, const tilery_transfer &t) {
  if (world.share->peers.contains(world, world.seat(t.rank), t.destination, t.bytes))
    return;
  raise(TILERY_LAUNCH_ERROR,
        "the destination of transfer {} [{}, +{} bytes) is not memory of rank {} that {} has opened\n"
        "hint: take the address from tilery_places_open, as long as the memory is not freed",
        index, t.destination, t.bytes, t.rank, world.rankText());
}

static char *targetOf(const World &world, const tilery_transfer &t) {
  return static_cast<char *>(t.opened ? t.destination : world.translate(t.destination, t.rank));
}

static void checkLocalPart(const World &world, size_t index, const void *address,
                           const char *what) {
  if (world.inHeap(address) || world.registered(address, 0)) // spares the driver the question
    return;
  int32_t device = world.deviceNumber(), found = hal::deviceNumberOf(address);
  if (found != device)
    raise(
        TILERY_LAUNCH_ERROR,
        "the {} of transfer {} is in memory of {}, but the kernel runs on {}\nhint: copy it there; "
        "transfers read the memory that the kernel's arguments are in",
        what, index, deviceText(hal::deviceNumber(found)), deviceText(hal::deviceNumber(device)));
}

void checkTransfers(const World *world, int32_t device, Transfers transfers) {
  if (!world)
    raise(TILERY_LAUNCH_ERROR, "transfers go to other ranks and need a world\nhint: call "
                               "tilery.init() or tilery_world_init first");
  if (world->deviceNumber() != device)
    raise(TILERY_LAUNCH_ERROR,
          "transfers go to symmetric memory of {}, but the kernel runs on {}\nhint: make the world "
          "with the device that the kernel's arguments are on",
          deviceText(hal::deviceNumber(world->deviceNumber())),
          deviceText(hal::deviceNumber(device)));
  for (size_t i = 0; i < transfers.size(); ++i) {
    const tilery_transfer &t = transfers[i];
    if (t.rank < 0 || t.rank >= world->size())
      raise(TILERY_LAUNCH_ERROR, "transfer {} goes to rank {}, but {} has {} ranks", i, t.rank,
            world->name(), world->size());
    if (t.bytes && t.opened)
      checkOpened(*world, i, t);
    else if (t.bytes)
      checkRemotePart(*world, i, t.destination, t.bytes, "the destination");
    if (t.signal)
      checkRemotePart(*world, i, t.signal, sizeof *t.signal, "the signal");
    if (t.bytes)
      checkLocalPart(*world, i, t.source, "source");
    if (t.signal)
      checkLocalPart(*world, i, t.value, "value");
  }
}

static void makeNow(World &world, const tilery_transfer &t) {
  if (t.bytes)
    std::memmove(targetOf(world, t), t.source, t.bytes);
  if (!t.signal)
    return;
  auto *signal = static_cast<uint64_t *>(world.translate(t.signal, t.rank));
  updateSignal(signal, *t.value, TILERY_SIGNAL_SET);
  world.domain->ring(world.seat(t.rank));
}

// A queue for each transfer, so that only its own data comes before its signal.
static void makeLate(World &world, const tilery_transfer &t) {
  DelayedWrites &delayed = world.domain->scheduler->delayed;
  WriteQueue *queue = delayed.open(world.seat());
  DelayedWrite write;
  write.target = world.seat(t.rank);
  if (t.bytes) {
    write.runs = {{targetOf(world, t), t.bytes}};
    auto *source = static_cast<const char *>(t.source);
    write.bytes.assign(source, source + t.bytes);
    delayed.add(queue, write);
  }
  if (t.signal) {
    write.kind = DelayedWrite::Kind::Signal;
    write.runs = {{static_cast<char *>(world.translate(t.signal, t.rank)), sizeof *t.signal}};
    write.bytes.clear();
    write.value = *t.value;
    write.op = TILERY_SIGNAL_SET;
    write.author.rank = world.seat();
    delayed.add(queue, write);
  }
  delayed.close(queue);
}

void makeTransfer(World &world, const tilery_transfer &transfer) {
  bool late = world.domain->scheduler && world.domain->options.delay;
  late ? makeLate(world, transfer) : makeNow(world, transfer);
}

// Each transfer has a branch of its own, as far as there are streams, so that the link has work
// while a signal is on its way. Copies within a device are made by its multiprocessors, which the grid may
// take whole and then wait for the copies: those come before it.
void enqueueTransfers(World &world, Transfers transfers, hal::Stream main, SideStreams::Fork &fork) {
  auto [driver, device] = world.device();
  const std::vector<int> &groups = world.domain->deviceGroups;
  size_t branch = 0;
  for (const tilery_transfer &t : transfers) {
    bool within = groups[size_t(world.seat(t.rank))] == groups[size_t(world.seat())];
    hal::Stream stream = within ? main : fork.stream(branch++);
    if (t.bytes)
      driver->copyAsync(targetOf(world, t), t.source, t.bytes, device, stream);
    if (t.signal)
      driver->copyAsync(world.translate(t.signal, t.rank), t.value, sizeof *t.value, device,
                        stream);
  }
}

TransferTask::TransferTask(World &world, Transfers transfers) : world(world), transfers(transfers) {
  rank = world.seat();
}

std::string TransferTask::report() const { return world.rankText() + " makes transfers"; }

void TransferTask::body() {
  for (const tilery_transfer &transfer : transfers)
    makeTransfer(world, transfer);
  state = TaskState::Done;
}

} // namespace tilery::rt
