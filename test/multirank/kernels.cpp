// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Kernels as the compiler would make them, written by hand.
#include "test/multirank/kernels.h"

#include <algorithm>
#include <chrono>
#include <thread>

namespace tilery::test {

namespace {

template <typename T> T *argument(const uint64_t *arguments, int index) {
  return reinterpret_cast<T *>(arguments[index]);
}

int64_t *peerOf(tilery_instance *self, int64_t *local, int rank) {
  return static_cast<int64_t *>(self->api->symm_at(self, local, rank, 0));
}

void check(tilery_instance *self, bool good, const char *what) {
  if (!good)
    self->api->fail(self, what, 0);
}

/// One element, as compiled code does it in either mode.
void storeRemote(tilery_instance *self, int64_t *address, int64_t value) {
  auto bits = reinterpret_cast<uint64_t>(address);
  if (self->flags & TILERY_INSTANCE_ROUTED)
    self->api->remote_store(self, &bits, &value, nullptr, 1, 8, 1);
  else
    *address = value;
}

int64_t loadRemote(tilery_instance *self, int64_t *address) {
  auto bits = reinterpret_cast<uint64_t>(address);
  int64_t value = -1;
  if (self->flags & TILERY_INSTANCE_ROUTED)
    self->api->remote_load(self, &bits, &value, nullptr, 1, 8, 1);
  else
    value = *address;
  return value;
}

// arguments: data, signal. Rank 0 waits for the last rank.
void lateProducerKernel(tilery_instance *self, const uint64_t *arguments) {
  auto *data = argument<int64_t>(arguments, 0);
  auto *signal = argument<uint64_t>(arguments, 1);
  const tilery_device_api *api = self->api;
  if (self->rank == self->num_ranks - 1) {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    storeRemote(self, peerOf(self, data, 0), 42);
    api->notify(self, signal, 0, 1, TILERY_SIGNAL_SET, TILERY_SCOPE_SYSTEM, 1);
  }
  if (self->rank == 0) {
    api->wait(self, signal, 1, 1, TILERY_CMP_EQ, 0);
    check(self, *data == 42, "the wait returned before its data arrived");
  }
}

constexpr int Words = 64;

// arguments: data [3][Words], signals [3]. Every rank sends to the next in three ways.
void signalAfterDataKernel(tilery_instance *self, const uint64_t *arguments) {
  auto *data = argument<int64_t>(arguments, 0);
  auto *signals = argument<uint64_t>(arguments, 1);
  const tilery_device_api *api = self->api;
  int next = (self->rank + 1) % self->num_ranks;
  int way = self->program_id[0];
  int64_t *target = data + way * Words;
  int64_t source[Words];
  for (int i = 0; i < Words; ++i)
    source[i] = self->rank * 1000 + i;
  if (way == 0)
    api->put(self, target, source, sizeof(source), next, signals, 7, TILERY_SIGNAL_SET, 0, 1);
  if (way == 1) {
    for (int half = 0; half < 2; ++half)
      api->put(self, target + half * Words / 2, source + half * Words / 2, sizeof(source) / 2,
               next, nullptr, 0, 0, half, 1);
    api->notify(self, signals + 1, next, 7, TILERY_SIGNAL_ADD, TILERY_SCOPE_SYSTEM, 1);
    // The notify has completed the put: its source may change.
    std::fill_n(source, Words, -5);
  }
  if (way == 2) {
    int64_t *remote = peerOf(self, target, next);
    for (int i = 0; i < Words; ++i)
      storeRemote(self, remote + i, -1);
    for (int i = Words; i-- > 0;)
      storeRemote(self, remote + i, source[i]);
    api->notify(self, signals + 2, next, 7, TILERY_SIGNAL_SET, TILERY_SCOPE_SYSTEM, 1);
  }
  int previous = (self->rank + self->num_ranks - 1) % self->num_ranks;
  api->wait(self, signals + way, 1, 7, TILERY_CMP_GE, 0);
  for (int i = 0; i < Words; ++i)
    check(self, target[i] == previous * 1000 + i, "the signal overtook its data");
}

// arguments: counters [num_ranks], rounds.
void barrierKernel(tilery_instance *self, const uint64_t *arguments) {
  auto *counters = argument<int64_t>(arguments, 0);
  auto rounds = int64_t(arguments[1]);
  int64_t first = counters[self->rank];
  for (int64_t round = first + 1; round <= first + rounds; ++round) {
    for (int peer = 0; peer < self->num_ranks; ++peer)
      storeRemote(self, peerOf(self, counters + self->rank, peer), round);
    self->api->barrier_all(self, 0);
    for (int peer = 0; peer < self->num_ranks; ++peer)
      check(self, counters[peer] >= round, "a rank passed the barrier before another reached it");
    self->api->barrier_all(self, 0);
  }
}

// arguments: values [instances], signals [instances], laps.
void ringKernel(tilery_instance *self, const uint64_t *arguments) {
  auto *values = argument<int64_t>(arguments, 0) + self->program_id[0];
  auto *signals = argument<uint64_t>(arguments, 1) + self->program_id[0];
  auto laps = int64_t(arguments[2]);
  const tilery_device_api *api = self->api;
  int next = (self->rank + 1) % self->num_ranks;
  for (int64_t lap = 1; lap <= laps; ++lap) {
    int64_t token = (lap - 1) * self->num_ranks;
    if (self->rank > 0) {
      api->wait(self, signals, 1, uint64_t(lap), TILERY_CMP_EQ, 0);
      token = *values;
    }
    check(self, token == (lap - 1) * self->num_ranks + self->rank, "the token is wrong");
    storeRemote(self, peerOf(self, values, next), token + 1);
    api->notify(self, signals, next, 1, TILERY_SIGNAL_ADD, TILERY_SCOPE_SYSTEM, 1);
    if (self->rank == 0) {
      api->wait(self, signals, 1, uint64_t(lap), TILERY_CMP_EQ, 0);
      check(self, *values == lap * self->num_ranks, "the token came back wrong");
    }
  }
}

// arguments: lock, counter (local). 4 instances, 8 rounds each.
void lockKernel(tilery_instance *self, const uint64_t *arguments) {
  auto *lock = argument<int64_t>(arguments, 0);
  auto *counter = argument<int64_t>(arguments, 1);
  for (int round = 0; round < 8; ++round) {
    while (__atomic_exchange_n(lock, 1, __ATOMIC_ACQ_REL) != 0)
      self->api->yield(self, 0);
    int64_t seen = *counter;
    self->api->yield(self, 0);
    *counter = seen + 1;
    __atomic_store_n(lock, 0, __ATOMIC_RELEASE);
  }
}

// arguments: words [4], signal.
void remoteLoadKernel(tilery_instance *self, const uint64_t *arguments) {
  auto *words = argument<int64_t>(arguments, 0);
  auto *signal = argument<uint64_t>(arguments, 1);
  const tilery_device_api *api = self->api;
  int next = (self->rank + 1) % self->num_ranks;
  int64_t *remote = peerOf(self, words, next);
  for (int64_t value = 1; value <= 20; ++value) {
    storeRemote(self, remote, value);
    check(self, loadRemote(self, remote) == value, "a load missed the instance's own store");
    int64_t fetched = 0;
    int64_t put = -value;
    api->put(self, words + 1, &put, 8, next, nullptr, 0, 0, 0, 1);
    api->get(self, &fetched, words + 1, 8, next, 0, 1);
    check(self, fetched == -value, "a get missed the instance's own put");
  }
  api->fence(self, 1);
  api->quiet(self, 1);
  check(self, loadRemote(self, remote) == 20, "quiet did not complete the stores");
  api->notify(self, signal, next, 1, TILERY_SIGNAL_SET, TILERY_SCOPE_SYSTEM, 1);
  api->wait(self, signal, 1, 1, TILERY_CMP_EQ, 0);
  check(self, words[0] == 20 && words[1] == -20, "the notify did not cover the stores");
}

// arguments: gathered [num_ranks], signals [num_ranks], value.
void gatherKernel(tilery_instance *self, const uint64_t *arguments) {
  auto *gathered = argument<int64_t>(arguments, 0);
  auto *signals = argument<uint64_t>(arguments, 1);
  auto value = int64_t(arguments[2]) + self->rank;
  for (int peer = 0; peer < self->num_ranks; ++peer)
    self->api->put(self, gathered + self->rank, &value, 8, peer, signals + self->rank, 1,
                   TILERY_SIGNAL_SET, 0, 1);
  self->api->wait(self, signals, self->num_ranks, 1, TILERY_CMP_EQ, 0);
  for (int peer = 0; peer < self->num_ranks; ++peer)
    check(self, gathered[peer] == int64_t(arguments[2]) + peer, "a gathered value is wrong");
}

struct Buffers {
  Buffers(World &world, size_t words, size_t signals)
      : data(static_cast<int64_t *>(world.allocate(words * 8, "data"))),
        ready(static_cast<uint64_t *>(world.allocate(signals * 8, "ready"))) {}
  int64_t *data;
  uint64_t *ready;
};

} // namespace

void lateProducer(World &world) {
  Buffers buffers(world, 1, 1);
  launch(world, makeKernel("late_producer", lateProducerKernel), 1,
         {bits(buffers.data), bits(buffers.ready)});
}

void signalAfterData(World &world) {
  Buffers buffers(world, 3 * Words, 3);
  launch(world, makeKernel("signal_after_data", signalAfterDataKernel), 3,
         {bits(buffers.data), bits(buffers.ready)});
}

void barrierReuse(World &world) {
  Buffers buffers(world, size_t(world.size()), 1);
  KernelImage image = makeKernel("barrier", barrierKernel);
  launch(world, image, 1, {bits(buffers.data), 400});
  for (int i = 0; i < 100; ++i)
    launch(world, image, 1, {bits(buffers.data), 1});
}

void ringOfInstances(World &world) {
  constexpr int Instances = 8;
  Buffers buffers(world, Instances, Instances);
  launch(world, makeKernel("ring", ringKernel), Instances,
         {bits(buffers.data), bits(buffers.ready), 5});
}

void ring(World &world) {
  Buffers buffers(world, 1, 1);
  launch(world, makeKernel("ring", ringKernel), 1,
         {bits(buffers.data), bits(buffers.ready), 100});
}

void pollingLoops(World &world) {
  int64_t lock = 0, counter = 0;
  launch(world, makeKernel("lock", lockKernel), 4, {bits(&lock), bits(&counter)});
  require(counter == 32, fmt::format("the lock let two in: {} of 32", counter));
}

void remoteLoads(World &world) {
  Buffers buffers(world, 4, 1);
  launch(world, makeKernel("remote_loads", remoteLoadKernel), 1,
         {bits(buffers.data), bits(buffers.ready)});
}

void hostOperations(World &world) {
  Buffers buffers(world, 8, 1);
  int next = (world.rank() + 1) % world.size();
  int previous = (world.rank() + world.size() - 1) % world.size();
  int64_t value = 100 + world.rank(), fetched = 0;
  world.put(buffers.data, &value, 8, next);
  world.notify(buffers.ready, next, 3, TILERY_SIGNAL_ADD);
  world.wait(buffers.ready, 3, TILERY_CMP_GE);
  require(buffers.data[0] == 100 + previous, "host put");
  world.barrier();
  world.get(&fetched, buffers.data, 8, next);
  require(fetched == value, "host get");
  // More than one mailbox, and not a multiple of it.
  std::vector<int32_t> sent(12345, world.rank()), received(sent.size() * size_t(world.size()));
  world.allGather(sent.data(), received.data(), sent.size() * 4);
  for (size_t i = 0; i < received.size(); ++i)
    require(received[i] == int32_t(i / sent.size()), "all-gather");
  world.free(buffers.data);
  auto *fresh = static_cast<int64_t *>(world.allocate(64, "fresh"));
  for (int i = 0; i < 8; ++i)
    require(fresh[i] == 0, "a new object is zero");
}

void backToBack(World &world) {
  KernelImage image = makeKernel("gather", gatherKernel);
  for (uint64_t round = 0; round < 10; ++round) {
    Buffers buffers(world, size_t(world.size()), size_t(world.size()));
    launch(world, image, 1, {bits(buffers.data), bits(buffers.ready), round * 100});
  }
}

} // namespace tilery::test
