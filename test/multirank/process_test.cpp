// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// The conformance programs with one process a rank, and what only processes can do: die, be
// refused, leave shared memory behind.
#include "runtime/base/clock.h"
#include "test/multirank/kernels.h"
#include "test/multirank/processes.h"

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <thread>
#include <unistd.h>

namespace tilery::test {

static void sleepMs(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

static void say(const std::string &text) {
  std::printf("%s\n", text.c_str());
  std::fflush(stdout);
}

// arguments: signals. Waits for signal 0 to become 1.
static void waitKernel(tilery_instance *self, const uint64_t *arguments) {
  self->api->wait(self, reinterpret_cast<uint64_t *>(arguments[0]), 1, 1, TILERY_CMP_EQ, 0);
}

static uint64_t *makeSignals(World &world) {
  return static_cast<uint64_t *>(world.allocate(64, "ready"));
}

/// Reports how a wait ended that a peer's death should end.
static void expectPeerError(const std::function<void()> &wait) {
  int64_t begin = rt::nowNs();
  try {
    wait();
  } catch (const Error &error) {
    require(error.kind == TILERY_PEER_ERROR, error.message);
    require(rt::nowNs() - begin < 5'000'000'000, "it took too long");
    say("survivor: " + error.message);
    return;
  }
  require(false, "the wait ended without an error");
}

static void killInDeviceWait(World &world) {
  uint64_t *signals = makeSignals(world);
  if (world.rank() == 1) {
    sleepMs(200);
    raise(SIGKILL);
  }
  expectPeerError([&] { launch(world, makeKernel("k", waitKernel), 8, {bits(signals)}); });
}

static void killInBarrier(World &world) {
  if (world.rank() == 1) {
    sleepMs(200);
    raise(SIGKILL);
  }
  expectPeerError([&] { world.barrier(); });
}

static void killRankZero(World &world) {
  uint64_t *signals = makeSignals(world);
  if (world.rank() == 0) {
    sleepMs(200);
    raise(SIGKILL);
  }
  expectPeerError([&] { world.wait(signals, 1, TILERY_CMP_EQ); });
}

static void finalizeAlone(World &world) {
  makeSignals(world);
  if (world.rank() == 1)
    _exit(0);
  sleepMs(300);
  int64_t begin = rt::nowNs();
  world.finalize();
  world.finalize();
  require(rt::nowNs() - begin < 1'000'000'000, "finalize waited for a rank that is gone");
}

static void deadlock(World &world) {
  uint64_t *signals = makeSignals(world);
  launch(world, makeKernel("k", waitKernel), 1, {bits(signals)});
}

static void differentGrids(World &world) {
  uint64_t *signals = makeSignals(world);
  launch(world, makeKernel("k", waitKernel), 1 + world.rank(), {bits(signals)});
}

static void mismatch(World &world) {
  try {
    world.allocate(size_t(4096) << world.rank(), "x");
  } catch (const Error &error) {
    say(error.message);
    return;
  }
  require(false, "no error");
}

static void largeObjects(World &world) {
  int next = (world.rank() + 1) % world.size();
  for (size_t bytes : {(size_t(1) << 31) - 1, size_t(1) << 31, size_t(1) << 32}) {
    auto *object = static_cast<char *>(world.allocate(bytes, "large"));
    require(world.contains(object, bytes) && !world.contains(object, bytes + 1), "bounds");
    char mark = char(65 + world.rank());
    world.put(object + bytes - 1, &mark, 1, next);
    world.barrier();
    require(object[bytes - 1] == char(65 + (world.rank() + world.size() - 1) % world.size()),
            "the last byte");
    world.free(object);
  }
}

static double cpuSeconds() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  auto seconds = [](timeval t) { return double(t.tv_sec) + double(t.tv_usec) / 1e6; };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

static void idleWait(World &world) {
  uint64_t *signals = makeSignals(world);
  if (world.rank() == 0) {
    sleepMs(1500);
    for (int rank = 1; rank < world.size(); ++rank)
      world.notify(signals, rank, 1, TILERY_SIGNAL_SET);
    return;
  }
  double before = cpuSeconds();
  launch(world, makeKernel("k", waitKernel), 8, {bits(signals)});
  double share = (cpuSeconds() - before) / 1.5;
  say(fmt::format("a waiting rank used {:.2f} % of a core", share * 100));
  require(share < 0.05, "a waiting rank uses too much of a core");
}

static void traced(World &world) {
  world.trace.enable();
  ringOfInstances(world);
  world.writeTrace(std::getenv("TRACE_PATH"));
  say(world.trace.summaryJson(world.rank()));
}

const std::vector<Scenario> &scenarios() {
  static const std::vector<Scenario> table = {
      {"late_producer", lateProducer},
      {"signal_after_data", signalAfterData},
      {"barrier_reuse", barrierReuse},
      {"ring_of_instances", ringOfInstances},
      {"ring", ring},
      {"polling_loops", pollingLoops},
      {"remote_loads", remoteLoads},
      {"host_operations", hostOperations},
      {"teams", teams},
      {"back_to_back", backToBack},
      {"kill_in_device_wait", killInDeviceWait},
      {"kill_in_barrier", killInBarrier},
      {"kill_rank_zero", killRankZero},
      {"finalize_alone", finalizeAlone},
      {"mismatch", mismatch},
      {"large_objects", largeObjects},
      {"idle_wait", idleWait},
      {"traced", traced},
      {"deadlock", deadlock},
      {"different_grids", differentGrids},
      {"nothing", [](World &) {}},
  };
  return table;
}

namespace {

class Conformance : public testing::TestWithParam<const char *> {};

TEST_P(Conformance, Processes) {
  for (int ranks : {1, 2, 4}) {
    JobResult result = runJob(ranks, GetParam());
    EXPECT_EQ(result.status, 0) << ranks << " ranks: " << result.output;
  }
}

INSTANTIATE_TEST_SUITE_P(Programs, Conformance,
                         testing::Values("late_producer", "signal_after_data", "barrier_reuse",
                                         "ring_of_instances", "ring", "polling_loops",
                                         "remote_loads", "host_operations", "back_to_back",
                                         "teams", "large_objects"),
                         [](const auto &info) { return std::string(info.param); });

std::vector<std::string> sharedMemoryNames() {
  std::vector<std::string> names;
  for (const auto &entry : std::filesystem::directory_iterator("/dev/shm"))
    names.push_back(entry.path());
  std::sort(names.begin(), names.end());
  return names;
}

int listeningSockets() {
  std::ifstream file("/proc/net/unix");
  std::string line;
  int count = 0;
  while (std::getline(file, line))
    count += line.find("@tilery-") != std::string::npos;
  return count;
}

TEST(ProcessWorld, KilledRankEndsTheWaitsOfTheOthers) {
  for (const char *scenario : {"kill_in_device_wait", "kill_in_barrier", "kill_rank_zero"}) {
    std::vector<std::string> before = sharedMemoryNames();
    JobResult result = runJob(4, scenario);
    EXPECT_EQ(result.status, 128 + SIGKILL) << result.output;
    EXPECT_LT(result.seconds, 5) << result.output;
    int dead = std::string(scenario) == "kill_rank_zero" ? 0 : 1;
    EXPECT_EQ(countOf(result.output, fmt::format("survivor: rank {} (pid ", dead)), 3)
        << result.output;
    EXPECT_NE(result.output.find("was killed by signal 9 (Killed)"), std::string::npos);
    if (std::string(scenario) == "kill_in_device_wait") {
      EXPECT_NE(result.output.find("signal 'ready'[0]: expected == 1, seen 0"), std::string::npos)
          << result.output;
    }
    EXPECT_EQ(sharedMemoryNames(), before);
    EXPECT_EQ(listeningSockets(), 0);
  }
}

TEST(ProcessWorld, PeerErrorNamesTheSignalWaitedFor) {
  JobResult result = runJob(3, "kill_rank_zero");
  EXPECT_EQ(countOf(result.output, "(host) waits for signal 'ready'[0]: expected == 1, seen 0"), 2)
      << result.output;
}

TEST(ProcessWorld, FinalizeWithoutThePeer) {
  JobResult result = runJob(2, "finalize_alone");
  EXPECT_EQ(result.status, 0) << result.output;
  EXPECT_LT(result.seconds, 3);
}

TEST(ProcessWorld, MismatchedAllocation) {
  JobResult result = runJob(2, "mismatch");
  EXPECT_EQ(countOf(result.output, "  rank 0: allocation of 4096 bytes for 'x'\n"
                                   "  rank 1: allocation of 8192 bytes for 'x'"),
            2)
      << result.output;
}

TEST(ProcessWorld, DeadlockIsFoundLongBeforeTheTimeout) {
  JobResult result = runJob(3, "deadlock");
  EXPECT_EQ(countOf(result.output, "WaitTimeout: deadlock: all ranks wait"), 3) << result.output;
  EXPECT_LT(result.seconds, 5);
}

TEST(ProcessWorld, CheckedModeRefusesDifferentGrids) {
  setenv("TILERY_CHECK", "1", 1);
  JobResult result = runJob(2, "different_grids");
  unsetenv("TILERY_CHECK");
  EXPECT_EQ(countOf(result.output, "  rank 0: launch of 'k' with grid (1, 1, 1)\n"
                                   "  rank 1: launch of 'k' with grid (2, 1, 1)"),
            2)
      << result.output;
}

TEST(ProcessWorld, SixteenRanksOfEightInstances) {
  JobResult result = runJob(16, "ring_of_instances");
  EXPECT_EQ(result.status, 0) << result.output;
  EXPECT_LT(result.seconds, 30);
}

TEST(ProcessWorld, WaitingRankUsesNoCpu) {
  JobResult result = runJob(4, "idle_wait");
  std::printf("%s", result.output.c_str());
  EXPECT_EQ(result.status, 0) << result.output;
}

TEST(ProcessWorld, UnseenBySomeoneWithAnotherToken) {
  std::string zero = testing::TempDir() + "zero", one = testing::TempDir() + "one";
  std::vector<std::string> common = {"WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1", "MASTER_PORT=29511",
                                     "TILERY_TIMEOUT_S=1.5"};
  auto with = [&](const char *rank, const char *token) {
    std::vector<std::string> environment = common;
    environment.push_back(rank);
    environment.push_back(token);
    return environment;
  };
  int host = startRank("nothing", with("RANK=0", "TILERY_JOB_TOKEN=right"), zero);
  int guest = startRank("nothing", with("RANK=1", "TILERY_JOB_TOKEN=wrong"), one);
  JobResult refused = waitForRank(guest, one), waited = waitForRank(host, zero);
  EXPECT_NE(refused.status, 0);
  EXPECT_NE(refused.output.find("ConfigError: rank 0 refused this process: its job token"),
            std::string::npos)
      << refused.output;
  EXPECT_NE(waited.output.find("PeerError: ranks 1 of 2 did not come within 1.5 s"),
            std::string::npos)
      << waited.output;
}

/// Two processes with the given variables; what both print.
std::string startTwo(std::vector<std::string> first, std::vector<std::string> second) {
  std::string paths[] = {testing::TempDir() + "first", testing::TempDir() + "second"};
  int pids[2];
  for (int i = 0; i < 2; ++i) {
    std::vector<std::string> &environment = i == 0 ? first : second;
    environment.push_back("TILERY_TIMEOUT_S=0.8");
    pids[i] = startRank("nothing", environment, paths[i]);
  }
  std::string output;
  for (int i = 0; i < 2; ++i)
    output += waitForRank(pids[i], paths[i]).output;
  return output;
}

TEST(ProcessWorld, RanksThatDoNotFitTogether) {
  std::string port = "MASTER_PORT=29514";
  std::string sizes = startTwo({"RANK=0", "WORLD_SIZE=2", port}, {"RANK=1", "WORLD_SIZE=3", port});
  EXPECT_EQ(countOf(sizes, "ConfigError: the ranks disagree about the world:\n  rank 0 has size 2"),
            2)
      << sizes;
  std::string zeros = startTwo({"RANK=0", "WORLD_SIZE=2", port}, {"RANK=0", "WORLD_SIZE=2", port});
  EXPECT_EQ(countOf(zeros, "ConfigError: another rank 0 of this job"), 1) << zeros;
  std::string alone = startTwo({"RANK=1", "WORLD_SIZE=2", port}, {"RANK=1", "WORLD_SIZE=2", port});
  EXPECT_EQ(countOf(alone, "PeerError: rank 1 did not find rank 0 within 0.8 s"), 2) << alone;
}

TEST(ProcessWorld, SameRankTwice) {
  std::string port = "MASTER_PORT=29515", path = testing::TempDir() + "third";
  int third = startRank("nothing", {"RANK=0", "WORLD_SIZE=3", port, "TILERY_TIMEOUT_S=0.8"}, path);
  std::string twice = startTwo({"RANK=1", "WORLD_SIZE=3", port}, {"RANK=1", "WORLD_SIZE=3", port});
  waitForRank(third, path);
  EXPECT_EQ(countOf(twice, "ConfigError: rank 1 has joined the world already"), 1) << twice;
  EXPECT_EQ(countOf(twice, "PeerError: ranks 2 of 3 did not come within 0.8 s"), 1) << twice;
}

TEST(ProcessWorld, LaunchersVariables) {
  const std::vector<std::vector<std::string>> launchers = {
      {"RANK=", "WORLD_SIZE=", "MASTER_PORT=29512"},
      {"OMPI_COMM_WORLD_RANK=", "OMPI_COMM_WORLD_SIZE=", "PMIX_NAMESPACE=job7"},
      {"PMI_RANK=", "PMI_SIZE=", "MPI_LOCALNRANKS=2"},
      {"SLURM_PROCID=", "SLURM_NTASKS=", "SLURM_STEP_ID=0"},
  };
  for (const auto &names : launchers) {
    std::vector<int> pids;
    std::vector<std::string> paths;
    for (int rank = 0; rank < 2; ++rank) {
      paths.push_back(testing::TempDir() + fmt::format("launcher{}", rank));
      pids.push_back(startRank("ring", {names[0] + std::to_string(rank), names[1] + "2", names[2]},
                               paths.back()));
    }
    for (size_t rank = 0; rank < 2; ++rank) {
      JobResult result = waitForRank(pids[rank], paths[rank]);
      EXPECT_EQ(result.status, 0) << names[0] << result.output;
    }
  }
}

TEST(ProcessWorld, OtherHostIsRefusedWithInterfaces) {
  std::string path = testing::TempDir() + "host";
  JobResult result = waitForRank(startRank("nothing",
                                           {"RANK=0", "WORLD_SIZE=2", "MASTER_ADDR=203.0.113.9",
                                            "MASTER_PORT=29513"},
                                           path),
                                 path);
  EXPECT_NE(result.output.find("MASTER_ADDR '203.0.113.9' is not an address of this host "
                               "(interfaces: lo 127.0.0.1"),
            std::string::npos)
      << result.output;
}

TEST(ProcessWorld, TimelineOfAllRanks) {
  std::string path = testing::TempDir() + "timeline.json";
  setenv("TRACE_PATH", path.c_str(), 1);
  JobResult result = runJob(3, "traced");
  EXPECT_EQ(result.status, 0) << result.output;
  EXPECT_EQ(countOf(result.output, "\"instances\":8"), 3) << result.output;
  std::ifstream file(path);
  std::string text((std::istreambuf_iterator<char>(file)), {});
  for (int rank = 0; rank < 3; ++rank)
    EXPECT_EQ(countOf(text, fmt::format(R"("args":{{"name":"rank {}"}})", rank)), 1);
  EXPECT_EQ(countOf(text, R"("cat":"instance")"), 24);
  EXPECT_GT(countOf(text, R"("name":"wait 'ready')"), 0);
  EXPECT_EQ(countOf(text, R"("cat":"notify")"), 3 * 8 * 5);
}

TEST(ProcessWorld, StatusOfTheFirstRankThatFails) {
  JobResult result = runJob(2, "no_such_scenario");
  EXPECT_EQ(result.status, 1);
  EXPECT_NE(result.output.find("tilery run: rank "), std::string::npos) << result.output;
}

} // namespace
} // namespace tilery::test

int main(int argc, char **argv) {
  int status = 0;
  if (tilery::test::isRank(argc, argv, status))
    return status;
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
