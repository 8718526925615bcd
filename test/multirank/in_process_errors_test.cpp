// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// How things go wrong in worlds within this process: deadlocks, timeouts, failures of a rank, bad
// arguments; and how they end: print, timeline, finalize.
#include "test/multirank/kernels.h"

#include <chrono>
#include <fstream>
#include <gtest/gtest.h>
#include <thread>

namespace tilery::test {
namespace {

// arguments: signals [4]. Each rank waits for a signal that nobody sends; rank 0 notifies once.
void deadlockKernel(tilery_instance *self, const uint64_t *arguments) {
  auto *signals = reinterpret_cast<uint64_t *>(arguments[0]);
  if (self->rank == 0)
    self->api->notify(self, signals + 3, 1, 2, TILERY_SIGNAL_SET, TILERY_SCOPE_SYSTEM, 1);
  self->api->wait(self, signals + 3, 1, 4, TILERY_CMP_EQ, 0);
}

void deadlock(World &world) {
  auto *signals = static_cast<uint64_t *>(world.allocate(32, "ready"));
  launch(world, makeKernel("ring", deadlockKernel), 1, {bits(signals)});
}

TEST(InProcessErrors, DeadlockReport) {
  WorldOptions options = smallWorld(2);
  options.seed = 1;
  for (const Error &error : runGroup(options, deadlock)) {
    EXPECT_EQ(error.kind, TILERY_WAIT_TIMEOUT);
    EXPECT_EQ(error.message,
              "deadlock: 2 waits, none can end and nothing is in flight\n"
              "  rank 0, kernel 'ring', program instance (0, 0, 0) at ring.py:12:5: dl.wait(ready + "
              "3, waitValue=4)\n"
              "    signal 'ready'[3]: expected == 4, seen 0; no rank has updated it\n"
              "  rank 1, kernel 'ring', program instance (0, 0, 0) at ring.py:12:5: dl.wait(ready + "
              "3, waitValue=4)\n"
              "    signal 'ready'[3]: expected == 4, seen 2; last updated by rank 0, kernel 'ring', "
              "program instance (0, 0, 0), line 20\n"
              "hint: find the notify that should come before each wait; no rank will run it now");
  }
}

TEST(InProcessErrors, UnseededDeadlockIsFoundLongBeforeTheTimeout) {
  int64_t begin = rt::nowNs();
  for (const Error &error : runGroup(smallWorld(2), deadlock)) {
    EXPECT_EQ(error.kind, TILERY_WAIT_TIMEOUT);
    EXPECT_EQ(error.message.find("deadlock: all ranks wait and nothing is in flight\n  rank "), 0u)
        << error.message;
    EXPECT_NE(error.message.find("runs kernel 'ring'"), std::string::npos) << error.message;
  }
  EXPECT_LT(rt::nowNs() - begin, 5'000'000'000);
}

TEST(InProcessErrors, LateHostSignalIsNoDeadlock) {
  expectGroup(smallWorld(2), [](World &world) {
    auto *signals = static_cast<uint64_t *>(world.allocate(32, "ready"));
    if (world.rank() == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1500));
      world.notify(signals + 3, 1, 4, TILERY_SIGNAL_SET);
      world.notify(signals + 3, 0, 4, TILERY_SIGNAL_SET);
    } else {
      launch(world, makeKernel("ring", deadlockKernel), 1, {bits(signals)});
    }
  });
}

TEST(InProcessErrors, DeadlockReportIsCapped) {
  WorldOptions options = smallWorld(3);
  options.seed = 1;
  std::vector<Error> errors = runGroup(options, [](World &world) {
    auto *signals = static_cast<uint64_t *>(world.allocate(32, "ready"));
    launch(world, makeKernel("ring", deadlockKernel), 5, {bits(signals)});
  });
  EXPECT_NE(errors[0].message.find("deadlock: 15 waits"), std::string::npos) << errors[0].message;
  EXPECT_NE(errors[0].message.find("... and 7 more"), std::string::npos) << errors[0].message;
}

TEST(InProcessErrors, TimeoutReport) {
  WorldOptions options = smallWorld(2);
  options.timeoutSeconds = 0.3;
  std::vector<Error> errors = runGroup(options, deadlock);
  int timeouts = 0;
  for (const Error &error : errors) {
    timeouts += error.kind == TILERY_WAIT_TIMEOUT;
    EXPECT_TRUE(error.kind == TILERY_WAIT_TIMEOUT || error.kind == TILERY_PEER_ERROR);
    EXPECT_NE(error.message.find("wait timed out after 0.3 s\n  rank "), std::string::npos);
    EXPECT_NE(error.message.find("at ring.py:12:5: dl.wait(ready + 3, waitValue=4)\n    signal "
                                 "'ready'[3]: expected == 4, seen "),
              std::string::npos)
        << error.message;
    EXPECT_NE(error.message.find("\nhint: "), std::string::npos) << error.message;
  }
  EXPECT_GE(timeouts, 1);
}

TEST(InProcessErrors, TimeoutReportSaysWhatTheOthersDo) {
  WorldOptions options = smallWorld(2);
  options.timeoutSeconds = 0.3;
  std::vector<Error> errors = runGroup(options, [](World &world) {
    auto *signals = static_cast<uint64_t *>(world.allocate(32, "ready"));
    if (world.rank() == 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(600));
    else
      launch(world, makeKernel("ring", deadlockKernel), 1, {bits(signals)});
  });
  EXPECT_EQ(errors[1].kind, TILERY_WAIT_TIMEOUT);
  EXPECT_NE(errors[1].message.find("\n  rank 0 is outside tilery\nhint: "), std::string::npos)
      << errors[1].message;
}

TEST(InProcessErrors, FailureReachesRanksThatWait) {
  for (bool seeded : {false, true}) {
    WorldOptions options = smallWorld(3);
    if (seeded)
      options.seed = 2;
    std::vector<Error> errors = runGroup(options, [](World &world) {
      auto *signals = static_cast<uint64_t *>(world.allocate(32, "ready"));
      if (world.rank() == 2)
        throw Error(TILERY_LAUNCH_ERROR, "the user's code failed");
      launch(world, makeKernel("ring", deadlockKernel), 1, {bits(signals)});
    });
    for (int rank : {0, 1}) {
      EXPECT_EQ(errors[size_t(rank)].kind, TILERY_PEER_ERROR);
      EXPECT_NE(errors[size_t(rank)].message.find("rank 2 failed: LaunchError: the user's code"),
                std::string::npos)
          << errors[size_t(rank)].message;
    }
  }
}

TEST(InProcessErrors, MismatchedAllocationTellsEveryRank) {
  std::vector<Error> errors = runGroup(smallWorld(2), [](World &world) {
    world.allocate(world.rank() == 0 ? 4096 : 8192, "x");
  });
  for (const Error &error : errors) {
    EXPECT_EQ(error.kind, TILERY_LAUNCH_ERROR);
    EXPECT_NE(error.message.find("the ranks disagree about a collective operation:\n"
                                 "  rank 0: allocation of 4096 bytes for 'x'\n"
                                 "  rank 1: allocation of 8192 bytes for 'x'"),
              std::string::npos)
        << error.message;
  }
}

struct BadCall {
  const char *message;
  void (*entry)(tilery_instance *, const uint64_t *);
};

uint64_t *badSignal(const uint64_t *arguments) { return reinterpret_cast<uint64_t *>(arguments[0]); }

const BadCall badCalls[] = {
    {"rank 5 is out of range: the world has 2 ranks",
     [](tilery_instance *self, const uint64_t *a) { self->api->symm_at(self, badSignal(a), 5, 1); }},
    {"rank -1 is out of range: the world has 2 ranks",
     [](tilery_instance *self, const uint64_t *a) {
       self->api->notify(self, badSignal(a), -1, 1, 0, 2, 1);
     }},
    {"the argument of symm_at (",
     [](tilery_instance *self, const uint64_t *) { self->api->symm_at(self, self, 1, 1); }},
    {"the signal of the notify (",
     [](tilery_instance *self, const uint64_t *) {
       uint64_t local = 0;
       self->api->notify(self, &local, 1, 1, 0, 2, 1);
     }},
    {"the destination of the put (",
     [](tilery_instance *self, const uint64_t *a) {
       char source[72] = {};
       self->api->put(self, badSignal(a), source, 72, 1, nullptr, 0, 0, 0, 1);
     }},
    {"the destination of the put has a negative size of -8 bytes",
     [](tilery_instance *self, const uint64_t *a) {
       self->api->put(self, badSignal(a), self, -8, 1, nullptr, 0, 0, 0, 1);
     }},
    {"the signal of the put (",
     [](tilery_instance *self, const uint64_t *a) {
       uint64_t local = 0;
       self->api->put(self, badSignal(a), self, 0, 1, &local, 1, 0, 0, 1);
     }},
    {"the source of the get (",
     [](tilery_instance *self, const uint64_t *) {
       uint64_t local = 0;
       self->api->get(self, &local, &local, 8, 1, 0, 1);
     }},
    {"the signal of the wait (",
     [](tilery_instance *self, const uint64_t *a) {
       self->api->wait(self, badSignal(a), 9, 1, TILERY_CMP_EQ, 1);
     }},
    {"9 is not a comparison for a wait",
     [](tilery_instance *self, const uint64_t *a) {
       self->api->wait(self, badSignal(a), 1, 1, 9, 1);
     }},
    {"mesh axis 1 is out of range: the mesh [2] has 1 axes",
     [](tilery_instance *self, const uint64_t *) { self->api->axis_rank(self, 1, 1); }},
};

TEST(InProcessErrors, BadArgumentsAreLocatedErrors) {
  for (bool suspends : {false, true})
    for (const BadCall &call : badCalls) {
      std::vector<Error> errors = runGroup(smallWorld(2), [&](World &world) {
        auto *signals = static_cast<uint64_t *>(world.allocate(64, "ready"));
        KernelImage image = makeKernel("bad", call.entry);
        image.suspends = suspends;
        if (world.rank() == 1)
          launch(world, image, 1, {bits(signals)});
      });
      EXPECT_EQ(errors[1].kind, TILERY_LAUNCH_ERROR);
      EXPECT_EQ(errors[1].message.find(fmt::format("ring.py:20:5: error: {}", call.message)), 0u)
          << errors[1].message;
      EXPECT_NE(errors[1].message.find("\n  rank 1, kernel 'bad', program instance (0, 0, 0)"),
                std::string::npos);
    }
}

TEST(InProcessErrors, KernelThatWaitsUnannouncedIsABug) {
  std::vector<Error> errors = runGroup(smallWorld(2), [](World &world) {
    auto *signals = static_cast<uint64_t *>(world.allocate(64, "ready"));
    KernelImage image = makeKernel("ring", deadlockKernel);
    image.suspends = false;
    if (world.rank() == 1)
      launch(world, image, 1, {bits(signals)});
  });
  EXPECT_EQ(errors[1].kind, TILERY_INTERNAL_ERROR);
  EXPECT_NE(errors[1].message.find("kernel 'ring' waits, but was compiled as one that never does"),
            std::string::npos);
}

TEST(InProcessErrors, ImpossibleOptions) {
  auto error = [](auto change) {
    WorldOptions options = smallWorld(2);
    change(options);
    try {
      rt::Group group(options);
    } catch (const Error &error) {
      EXPECT_EQ(error.kind, TILERY_CONFIG_ERROR);
      return error.message;
    }
    return std::string("no error");
  };
  EXPECT_EQ(error([](WorldOptions &o) { o.ranks = 0; }), "a world has 1 to 1024 ranks, not 0");
  EXPECT_EQ(error([](WorldOptions &o) { o.residency = -1; }),
            "residency is -1, it must be 0 (no limit) or more");
  EXPECT_EQ(error([](WorldOptions &o) { o.mesh = {2, 0}; }), "mesh [2, 0] has an extent below 1");
  EXPECT_EQ(error([](WorldOptions &o) { o.heapBytes = size_t(1) << 60; })
                .find("cannot reserve 1152921504606846976 bytes for the symmetric heap: "),
            0u);
}

TEST(InProcessErrors, LeavingWithoutFinalizeEndsTheOthersWaits) {
  for (bool seeded : {false, true}) {
    WorldOptions options = smallWorld(2);
    if (seeded)
      options.seed = 1;
    rt::Group group(options);
    std::thread other([&] { group.bind(1); });
    auto world = group.bind(0);
    try {
      world->barrier();
      ADD_FAILURE() << "the barrier ended";
    } catch (const Error &error) {
      EXPECT_EQ(error.kind, TILERY_PEER_ERROR);
      EXPECT_EQ(error.message.find("rank 1 left the world without finalizing it"), 0u)
          << error.message;
    }
    other.join();
  }
}

void printKernel(tilery_instance *self, const uint64_t *) {
  int64_t values[] = {1, -2, 3, 4};
  double real = 0.5;
  int64_t shape[] = {2, 2};
  self->api->print(self, "x: ", TILERY_PRINT_INT, values, shape, 2, 0, 0);
  self->api->print(self, "y: ", TILERY_PRINT_FLOAT, &real, nullptr, 0, 0, 0);
  self->api->print(self, "z: ", TILERY_PRINT_UINT, values + 2, nullptr, 0, 1, 0);
}

TEST(InProcessErrors, PrintsTiles) {
  testing::internal::CaptureStdout();
  expectGroup(smallWorld(1), [](World &world) { launch(world, makeKernel("p", printKernel), 1, {}); });
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "pid (0, 0, 0) idx (0, 0) x: 1\n"
                                                    "pid (0, 0, 0) idx (0, 1) x: -2\n"
                                                    "pid (0, 0, 0) idx (1, 0) x: 3\n"
                                                    "pid (0, 0, 0) idx (1, 1) x: 4\n"
                                                    "pid (0, 0, 0) y: 0.5\n"
                                                    "pid (0, 0, 0) z: 0x3\n");
}

TEST(InProcessErrors, TimelineAtFinalize) {
  WorldOptions options = smallWorld(2);
  options.trace = testing::TempDir() + "in_process_trace.json";
  expectGroup(options, ringOfInstances);
  std::ifstream file(options.trace);
  std::string text((std::istreambuf_iterator<char>(file)), {});
  EXPECT_EQ(text.find("{\"displayTimeUnit\":\"ns\",\"traceEvents\":["), 0u);
  EXPECT_NE(text.find(R"("args":{"name":"rank 1"})"), std::string::npos);
  options.trace = "/nowhere/trace.json";
  for (const Error &error : runGroup(options, ring))
    EXPECT_EQ(error.message.find("cannot write the timeline to '/nowhere/trace.json': No such file"),
              0u)
        << error.message;
}

TEST(InProcessErrors, FinalizeTwice) {
  rt::Group group(smallWorld(1));
  auto world = group.bind(0);
  world->finalize();
  world->finalize();
  EXPECT_THROW(world->barrier(), Error);
  try {
    group.bind(0);
    FAIL() << "a rank was bound twice";
  } catch (const Error &error) {
    EXPECT_EQ(error.message, "rank 0 of the group is bound already");
  }
}

TEST(InProcessErrors, BarrierNamesTheMissingRanks) {
  WorldOptions options = smallWorld(3);
  options.timeoutSeconds = 0.3;
  for (bool seeded : {false, true}) {
    if (seeded)
      options.seed = 3;
    std::vector<Error> errors = runGroup(options, [](World &world) {
      if (world.rank() == 1)
        std::this_thread::sleep_for(std::chrono::milliseconds(900));
      world.barrier();
    });
    EXPECT_EQ(errors[0].message.find("failed earlier"), std::string::npos);
    std::string all = errors[0].message + errors[2].message;
    EXPECT_NE(all.find("(host) waits in barrier for ranks 1"), std::string::npos) << all;
  }
}

} // namespace
} // namespace tilery::test
