// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// The conformance programs on worlds within this process, and what only those can do: seeds,
// delays and limited residency.
#include "test/multirank/kernels.h"

#include <gtest/gtest.h>
#include <set>

namespace tilery::test {
namespace {

struct Program {
  const char *name;
  void (*body)(World &);
};

const Program programs[] = {
    {"LateProducer", lateProducer},       {"SignalAfterData", signalAfterData},
    {"BarrierReuse", barrierReuse},       {"RingOfInstances", ringOfInstances},
    {"Ring", ring},                       {"PollingLoops", pollingLoops},
    {"RemoteLoads", remoteLoads},         {"HostOperations", hostOperations},
    {"BackToBack", backToBack},           {"Teams", teams},
};

class InProcess : public testing::TestWithParam<Program> {};

TEST_P(InProcess, Unseeded) {
  for (int ranks : {1, 2, 3, 4})
    expectGroup(smallWorld(ranks), GetParam().body);
}

TEST_P(InProcess, Seeded) {
  for (uint64_t seed = 0; seed < 5; ++seed)
    for (int ranks : {1, 2, 4}) {
      WorldOptions options = smallWorld(ranks);
      options.seed = seed;
      expectGroup(options, GetParam().body);
    }
}

TEST_P(InProcess, Delayed) {
  for (uint64_t seed = 0; seed < 5; ++seed)
    for (int ranks : {1, 2, 3}) {
      WorldOptions options = smallWorld(ranks);
      options.seed = seed;
      options.delay = true;
      expectGroup(options, GetParam().body);
    }
}

INSTANTIATE_TEST_SUITE_P(Programs, InProcess, testing::ValuesIn(programs),
                         [](const auto &info) { return std::string(info.param.name); });

TEST(InProcessWorld, DelayKeepsSignalBehindDataFor200Seeds) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    WorldOptions options = smallWorld(3);
    options.seed = seed;
    options.delay = true;
    expectGroup(options, signalAfterData);
    if (HasFatalFailure())
      FAIL() << "seed " << seed;
  }
}

TEST(InProcessWorld, SixteenRanksOfEightInstances) {
  expectGroup(smallWorld(16), ringOfInstances);
  WorldOptions options = smallWorld(16);
  options.seed = 7;
  options.delay = true;
  expectGroup(options, ringOfInstances);
}

// A data write that the kernel forgets to release is seen late by some seed: delays find it.
void racyKernel(tilery_instance *self, const uint64_t *arguments) {
  auto *data = reinterpret_cast<int64_t *>(arguments[0]);
  auto *signal = reinterpret_cast<uint64_t *>(arguments[1]);
  auto *stale = reinterpret_cast<int64_t *>(arguments[2]);
  if (self->rank == 0) {
    int64_t value = 5;
    self->api->notify(self, signal, 1, 1, TILERY_SIGNAL_SET, TILERY_SCOPE_SYSTEM, 1);
    self->api->put(self, data, &value, 8, 1, nullptr, 0, 0, 0, 1);
  } else {
    self->api->wait(self, signal, 1, 1, TILERY_CMP_EQ, 0);
    *stale += *data != 5;
  }
}

TEST(InProcessWorld, DelayExposesMissingOrder) {
  int64_t stale = 0;
  int fresh = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    WorldOptions options = smallWorld(2);
    options.seed = seed;
    options.delay = true;
    int64_t before = stale;
    expectGroup(options, [&](World &world) {
      void *data = world.allocate(8, "data"), *ready = world.allocate(8, "ready");
      launch(world, makeKernel("racy", racyKernel), 1,
             {reinterpret_cast<uint64_t>(data), reinterpret_cast<uint64_t>(ready), bits(&stale)});
    });
    fresh += stale == before;
  }
  EXPECT_GT(stale, 0);
  EXPECT_GT(fresh, 0);
}

uint64_t hashOf(uint64_t seed) {
  WorldOptions options = smallWorld(3);
  options.seed = seed;
  options.delay = true;
  uint64_t hash = 0;
  for (const Error &error : runGroup(options, ringOfInstances, &hash))
    EXPECT_EQ(error.kind, TILERY_OK) << error.message;
  return hash;
}

TEST(InProcessWorld, SeedDecidesTheSchedule) {
  std::set<uint64_t> hashes;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    uint64_t hash = hashOf(seed);
    EXPECT_EQ(hash, hashOf(seed)) << "seed " << seed;
    hashes.insert(hash);
  }
  EXPECT_EQ(hashes.size(), 10u);
}

// arguments: values. Does not wait, so one slot is enough for any grid.
void stampKernel(tilery_instance *self, const uint64_t *arguments) {
  auto *values = reinterpret_cast<int64_t *>(arguments[0]);
  int64_t value = self->rank + 1;
  int next = (self->rank + 1) % self->num_ranks;
  self->api->put(self, values + self->program_id[0], &value, 8, next, nullptr, 0, 0, 0, 1);
}

TEST(InProcessWorld, LimitedResidency) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    WorldOptions options = smallWorld(2);
    options.seed = seed;
    options.delay = true;
    options.residency = 8;
    expectGroup(options, ringOfInstances);
    options.residency = 1;
    expectGroup(options, [](World &world) {
      auto *values = static_cast<int64_t *>(world.allocate(100 * 8, "values"));
      KernelImage image = makeKernel("stamp", stampKernel);
      image.suspends = false;
      launch(world, image, 100, {bits(values)});
      world.barrier();
      for (int i = 0; i < 100; ++i)
        require(values[i] == 2 - world.rank(), "the end of a launch delivers all writes");
    });
  }
}

// arguments: signal. The last instance frees all the others.
void crowdKernel(tilery_instance *self, const uint64_t *arguments) {
  auto *signal = reinterpret_cast<uint64_t *>(arguments[0]);
  if (self->program_id[0] == self->num_programs[0] - 1)
    self->api->notify(self, signal, self->rank, 1, TILERY_SIGNAL_SET, TILERY_SCOPE_SYSTEM, 1);
  self->api->wait(self, signal, 1, 1, TILERY_CMP_EQ, 0);
}

TEST(InProcessWorld, TenThousandWaitingInstances) {
#if defined(__SANITIZE_THREAD__)
  constexpr int Instances = 1000; // the sanitizer's limit is 8000 threads and fibers
#else
  constexpr int Instances = 10000;
#endif
  expectGroup(smallWorld(1), [](World &world) {
    auto *signal = static_cast<uint64_t *>(world.allocate(8, "ready"));
    launch(world, makeKernel("crowd", crowdKernel), Instances, {bits(signal)});
  });
}

} // namespace
} // namespace tilery::test
