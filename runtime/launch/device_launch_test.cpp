// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Launches on a device that is not there: the fake libcuda records what the driver was asked for.
#include "runtime/hal/cuda/fake/fake_cuda.h"
#include "runtime/launch/device_failures.h"
#include "runtime/launch/device_kernel.h"
#include "runtime/launch/device_workspace.h"
#include "runtime/launch/launch.h"
#include "runtime/launch/launch_test_support.h"

#include "runtime/base/clock.h"
#include "runtime/world/group.h"

#include <array>
#include <cstring>
#include <gtest/gtest.h>
#include <optional>
#include <thread>

namespace tilery::rt {
namespace {

using test::calls;
using test::errorOf;
using test::reset;
using test::symbol;

fake_cuda_launch lastLaunch() {
  int32_t count = symbol<decltype(fake_cuda_launch_count)>("fake_cuda_launch_count")();
  return symbol<decltype(fake_cuda_launch_at)>("fake_cuda_launch_at")(count - 1);
}

class DeviceLaunch : public testing::Test {
protected:
  void SetUp() override {
    where = hal::deviceNumber(1);
    reset();
  }

  /// A kernel named `name` of PTX parameters such as ".param .u64 x"; the context is added.
  KernelImage load(const std::string &name, const std::string &parameters, DeviceCode code = {}) {
    std::string text = ".version 8.0\n.entry " + name + "(" + parameters +
                       (parameters.empty() ? "" : ", ") + ".param .u64 context) { ret; }";
    KernelImage image;
    image.name = name;
    image.communicates = communicates;
    image.suspends = suspends;
    image.scratchBytes = scratchBytes;
    image.sites = {{"ring.py", 12, 5, "dl.wait(ready)"}};
    image.parameters = {{"x", KernelParameter::Kind::Pointer, "*fp32"},
                        {"n", KernelParameter::Kind::Scalar, "i32"}};
    if (code.shape.threads == 1)
      code.shape.threads = 128;
    image.device = &DeviceKernel::load(where, image, code, text);
    return image;
  }
  KernelImage loadFailing(const std::string &name) {
    DeviceCode code;
    code.canFail = true;
    code.messages = {name == "fails_bounds" ? "tl.load reads argument 'x'" : "x must be positive"};
    return load(name, ".param .u64 x, .param .u32 n", code);
  }

  hal::DeviceRef where;
  bool communicates = false, suspends = false; // of the kernels to load
  int64_t scratchBytes = 0;
  uint64_t arguments[2] = {0x7000, 5};
};

TEST_F(DeviceLaunch, PassesEachParameterInItsSize) {
  KernelImage image = load("two", ".param .u64 x, .param .u32 n", {{256, 1000, {1, 1, 1}}, {}, {}, false});
  launchKernel(nullptr, image, {7, 3, 2}, arguments);
  fake_cuda_launch launch = lastLaunch();
  EXPECT_STREQ(launch.kernel, "two");
  EXPECT_EQ(launch.grid[0], 7u);
  EXPECT_EQ(launch.grid[1], 3u);
  EXPECT_EQ(launch.grid[2], 2u);
  EXPECT_EQ(launch.threads, 256u);
  EXPECT_EQ(launch.shared_bytes, 1000u);
  ASSERT_EQ(launch.parameter_bytes, 8 + 4 + 8);
  uint64_t x;
  uint32_t n;
  tilery_gpu_context *context;
  std::memcpy(&x, launch.parameters, 8);
  std::memcpy(&n, launch.parameters + 8, 4);
  std::memcpy(&context, launch.parameters + 12, 8);
  EXPECT_EQ(x, 0x7000u);
  EXPECT_EQ(n, 5u);
  EXPECT_EQ(context->num_ranks, 1);
  EXPECT_EQ(context->failure, nullptr);
}

TEST_F(DeviceLaunch, ASecondLaunchAsksForNothingElse) {
  KernelImage image = loadFailing("twice");
  launchKernel(nullptr, image, {1, 1, 1}, arguments);
  reset();
  launchKernel(nullptr, image, {1, 1, 1}, arguments);
  EXPECT_EQ(calls(), "cuLaunchKernelEx");
}

TEST_F(DeviceLaunch, OfNothingDoesNothing) {
  KernelImage image = load("none", ".param .u64 x, .param .u32 n");
  reset();
  launchKernel(nullptr, image, {0, 1, 1}, arguments);
  EXPECT_EQ(calls(), "");
}

TEST_F(DeviceLaunch, ClustersDivideTheGrid) {
  KernelImage image = load("cluster", ".param .u64 x, .param .u32 n", {{128, 0, {2, 1, 1}}, {}, {}, false});
  launchKernel(nullptr, image, {6, 1, 1}, arguments);
  EXPECT_EQ(lastLaunch().cluster[0], 2u);
  Error error = errorOf([&] { launchKernel(nullptr, image, {5, 1, 1}, arguments); });
  EXPECT_EQ(error.message.find("grid (5, 1, 1) of kernel 'cluster' is no multiple of its clusters "
                               "of (2, 1, 1)"), 0u) << error.message;
}

TEST_F(DeviceLaunch, MoreThanIsResidentIsRefused) {
  suspends = true;
  KernelImage image = load("waits", ".param .u64 x, .param .u32 n");
  launchKernel(nullptr, image, {132, 1, 1}, arguments);
  Error error = errorOf([&] { launchKernel(nullptr, image, {100000, 1, 1}, arguments); });
  EXPECT_EQ(error.kind, TILERY_LAUNCH_ERROR);
  EXPECT_NE(error.message.find("kernel 'waits' needs 100000 x 1 x 1 = 100000 program instances "
                               "resident at a time, because they wait for each other; Fake GPU 0 "
                               "has room for 2112"), std::string::npos) << error.message;
}

TEST_F(DeviceLaunch, FailuresNamePlaceAndInstance) {
  const std::pair<const char *, const char *> cases[] = {
      {"fails_assertion", "ring.py:12:5: error: x must be positive\n        dl.wait(ready)\n"
                          "  rank 0, kernel 'fails_assertion', program instance (3, 0, 0)"},
      {"fails_bounds", "ring.py:12:5: error: tl.load reads argument 'x' out of bounds: element 7 of 8\n"
                       "        dl.wait(ready)\n"
                       "  rank 0, kernel 'fails_bounds', program instance (3, 0, 0)\n"
                       "hint: mask the access or check the offsets"},
      {"fails_wait", "wait timed out after 0.5 s\n  rank 0, kernel 'fails_wait', program instance "
                     "(3, 0, 0) at ring.py:12:5: dl.wait(ready)\n    signal at 0x1000: expected == "
                     "8, seen 7"}};
  for (auto [name, text] : cases) {
    KernelImage image = loadFailing(name);
    launchKernel(nullptr, image, {8, 1, 1}, arguments, {0.5});
    EXPECT_EQ(errorOf([&] { synchronize(nullptr, 1); }).message, text);
    synchronize(nullptr, 0); // the record is as new
  }
}

TEST_F(DeviceLaunch, AFailureIsFoundByTheNextLaunch) {
  KernelImage image = loadFailing("fails_assertion");
  launchKernel(nullptr, image, {8, 1, 1}, arguments);
  Error error = errorOf([&] { launchKernel(nullptr, image, {8, 1, 1}, arguments); });
  EXPECT_EQ(error.kind, TILERY_LAUNCH_ERROR);
  EXPECT_NE(error.message.find("x must be positive"), std::string::npos);
}

TensorMapPlan planOfMatrix() {
  using Kind = HostStep::Kind;
  TensorMapPlan plan;
  plan.offsetElements = {{Kind::Constant, 16}};
  plan.element = "fp32";
  plan.elementBytes = 4;
  plan.extents = {{{Kind::Argument, 1}},
                  {{Kind::Argument, 1}, {Kind::Constant, 3}, {Kind::DivideSigned, 0}}};
  plan.strides = {{{Kind::Argument, 1}}};
  plan.box = {32, 8};
  plan.swizzleBytes = 128;
  return plan;
}

TEST_F(DeviceLaunch, TensorMapsComeFromTheArguments) {
  DeviceCode code;
  code.maps = {planOfMatrix()};
  KernelImage image =
      load("mapped", ".param .u64 x, .param .u32 n, .param .align 64 .b8 map[128]", code);
  arguments[1] = 64;
  launchKernel(nullptr, image, {1, 1, 1}, arguments);
  uint64_t words[16];
  std::memcpy(words, lastLaunch().parameters + 12, sizeof words);
  EXPECT_EQ(words[0], 0x7000u + 64);
  EXPECT_EQ(words[1], uint64_t(7) << 32 | 3); // fp32, 128-byte swizzle
  EXPECT_EQ(words[2], 64u);
  EXPECT_EQ(words[3], 21u);
  EXPECT_EQ(words[7], 256u);
  EXPECT_EQ(words[12], 8u << 16 | 32u);
  reset();
  launchKernel(nullptr, image, {1, 1, 1}, arguments);
  EXPECT_EQ(calls(), "cuLaunchKernelEx"); // the map was kept
  arguments[1] = 128;
  launchKernel(nullptr, image, {1, 1, 1}, arguments);
  EXPECT_EQ(calls(), "cuLaunchKernelEx cuTensorMapEncodeTiled cuLaunchKernelEx");
}

TEST_F(DeviceLaunch, AnImpossibleTensorMapNamesTheArgument) {
  DeviceCode code;
  code.maps = {planOfMatrix()};
  KernelImage image =
      load("mapped", ".param .u64 x, .param .u32 n, .param .align 64 .b8 map[128]", code);
  arguments[1] = 63;
  EXPECT_EQ(errorOf([&] { launchKernel(nullptr, image, {1, 1, 1}, arguments); }).message,
            "argument 'x' of kernel 'mapped' cannot be copied in bulk: its tensor has a stride of "
            "252 bytes, which is no multiple of 16 below 2^40\nhint: pass memory aligned to 16 "
            "bytes with strides that are multiples of 16 bytes");
  arguments[0] = 0x7004;
  arguments[1] = 64;
  EXPECT_NE(errorOf([&] { launchKernel(nullptr, image, {1, 1, 1}, arguments); })
                .message.find("its tensor starts at 0x7044, which is no multiple of 16 bytes"),
            std::string::npos);
}

TEST_F(DeviceLaunch, ALostDeviceNamesTheKernel) {
  KernelImage image = load("culprit", ".param .u64 x, .param .u32 n");
  launchKernel(nullptr, image, {1, 1, 1}, arguments);
  symbol<decltype(fake_cuda_fail)>("fake_cuda_fail")("cuCtxSynchronize", 700);
  Error error = errorOf([&] { synchronize(nullptr, 1); });
  EXPECT_EQ(error.message, "kernel 'culprit' or one before it ended in CUDA_ERROR_ILLEGAL_ADDRESS "
                           "(fake), seen by cuCtxSynchronize\nhint: the device is lost to this "
                           "process; run it again with TILERY_CHECK=1 to find the kernel");
}

TEST_F(DeviceLaunch, NothingWaitsWhileAStreamIsCaptured) {
  hal::Stream stream = where.driver->createStream(where.device);
  symbol<decltype(fake_cuda_capture)>("fake_cuda_capture")(stream, 1);
  KernelImage image = loadFailing("captured");
  launchKernel(nullptr, image, {1, 1, 1}, arguments, {-1, stream});
  reset();
  launchKernel(nullptr, image, {1, 1, 1}, arguments, {-1, stream});
  EXPECT_EQ(calls(), "cuLaunchKernelEx");
  EXPECT_EQ(lastLaunch().stream, stream);
}

WorldOptions onDevice(int ranks, bool shared) {
  WorldOptions options;
  options.ranks = ranks;
  options.device = 1;
  options.heapBytes = 1 << 20;
  options.sharedHeap = shared;
  return options;
}

TEST_F(DeviceLaunch, RanksOfAWorldHaveTheirHeapsAndStreams) {
  Group group(onDevice(2, false));
  auto first = group.bind(0), second = group.bind(1);
  communicates = true;
  KernelImage image = load("talks", ".param .u64 x, .param .u32 n");
  launchKernel(second.get(), image, {1, 1, 1}, arguments);
  fake_cuda_launch launch = lastLaunch();
  EXPECT_NE(launch.stream, nullptr);
  EXPECT_NE(first->deviceStream(), second->deviceStream());
  tilery_gpu_context *context;
  std::memcpy(&context, launch.parameters + 12, 8);
  EXPECT_EQ(context->rank, 1);
  EXPECT_EQ(context->num_ranks, 2);
  EXPECT_EQ(context->peer_bases[0], reinterpret_cast<uint64_t>(first->domain->heaps[0].data()));
  EXPECT_EQ(context->heap_base, context->peer_bases[1]);
  EXPECT_EQ(reinterpret_cast<uint64_t>(context->barrier_epochs), context->heap_base);
  EXPECT_EQ(context->mesh[0], 1);
  EXPECT_EQ(context->mesh[1], 1);
  EXPECT_EQ(context->mesh[2], 2);
}

TEST_F(DeviceLaunch, AKernelNeedsTheHeapOnItsDevice) {
  WorldOptions options;
  options.heapBytes = 1 << 20;
  auto world = makeSingleWorld(options);
  communicates = true;
  KernelImage image = load("talks", ".param .u64 x, .param .u32 n");
  EXPECT_EQ(errorOf([&] { launchKernel(world.get(), image, {1, 1, 1}, arguments); }).message,
            "kernel 'talks' runs on cuda:0 (Fake GPU 0), where its arguments are, but the symmetric "
            "heap of rank 0 is in the memory of the host\nhint: make the world with "
            "device=\"cuda\"");
}

TEST_F(DeviceLaunch, TheHostReachesADevicesHeapByCopies) {
  Group group(onDevice(2, false));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank)
    threads.emplace_back([&, rank] {
      auto world = group.bind(rank);
      auto *signal = static_cast<uint64_t *>(world->allocate(16, "ready"));
      EXPECT_EQ(errorOf([&] { world->notify(signal, 0, 1, TILERY_SIGNAL_ADD); }).kind,
                TILERY_LAUNCH_ERROR);
      world->notify(signal, 1 - rank, 7, TILERY_SIGNAL_SET);
      world->wait(signal, 7, TILERY_CMP_EQ);
      auto team = world->team(std::array{1, 0}, "both");
      int mine = team->rank(), all[2] = {};
      team->allGather(&mine, all, sizeof mine);
      EXPECT_EQ(all[0] + 10 * all[1], 10);
      team->finalize();
      world->finalize();
    });
  for (std::thread &thread : threads)
    thread.join();
}

TEST_F(DeviceLaunch, AFailureOfARankIsThatOfItsWorld) {
  Group group(onDevice(2, true));
  auto first = group.bind(0), second = group.bind(1);
  communicates = true;
  KernelImage image = loadFailing("fails_wait");
  launchKernel(second.get(), image, {8, 1, 1}, arguments, {0.5});
  Error peer = errorOf([&] { launchKernel(first.get(), image, {8, 1, 1}, arguments, {0.5}); });
  EXPECT_EQ(peer.kind, TILERY_PEER_ERROR);
  EXPECT_NE(peer.message.find("rank 1 failed: WaitTimeout: wait timed out after 0.5 s"),
            std::string::npos) << peer.message;
}

// Each rank of the world makes the team of rank 2 and 0, in this order.
void onTeam(Group &group, const std::function<void(World &, World &)> &action) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank)
    threads.emplace_back([&, rank] {
      auto world = group.bind(rank);
      auto team = world->team(std::array{2, 0}, "tp");
      action(*world, *team);
      world->barrier();
      team.reset();
      world->finalize();
    });
  for (std::thread &thread : threads)
    thread.join();
}

TEST_F(DeviceLaunch, TheBarriersOfATeamHaveCellsInEachHeap) {
  Group group(onDevice(3, true));
  onTeam(group, [](World &world, World &team) {
    if (team.rank() < 0)
      return;
    uint64_t *cells = team.deviceBarrierCells();
    EXPECT_TRUE(world.inHeap(cells));
    EXPECT_NE(cells, world.deviceBarrierCells());
    char *heap = world.domain->heaps[size_t(world.rank())].data();
    uint64_t offset = uint64_t(reinterpret_cast<char *>(cells) - heap);
    std::array<uint64_t, 2> offsets{};
    team.allGather(&offset, offsets.data(), sizeof offset);
    EXPECT_EQ(offsets[0], offsets[1]);
    EXPECT_EQ(cells[0] + cells[1], 0u);
    cells[team.rank()] = 5; // what a grid would leave behind
    team.finalize();
    EXPECT_EQ(cells[0] + cells[1], 0u);
  });
}

TEST_F(DeviceLaunch, AFailureInATeamNamesItsRanks) {
  Group group(onDevice(3, true));
  communicates = true;
  KernelImage image = loadFailing("fails_wait");
  std::string own, peers;
  std::vector<std::thread> threads;
  std::mutex mutex;
  for (int rank = 0; rank < 3; ++rank)
    threads.emplace_back([&, rank] {
      auto world = group.bind(rank);
      auto team = world->team(std::array{2, 0}, "tp");
      Error error = errorOf([&] {
        if (team->rank() == 1)
          launchKernel(team.get(), image, {8, 1, 1}, arguments, {0.5});
        team->rank() < 0 ? world->barrier() : synchronize(team.get(), 0);
        world->barrier();
      });
      std::lock_guard lock(mutex);
      (rank == 0 ? own : peers) += error.message + "\n";
    });
  for (std::thread &thread : threads)
    thread.join();
  const char *text = "rank 1 of team 'tp' (rank 0 of the world), kernel 'fails_wait'";
  EXPECT_NE(own.find(text), std::string::npos) << own;
  EXPECT_NE(peers.find("rank 0 failed: WaitTimeout"), std::string::npos) << peers;
  EXPECT_NE(peers.find(text), std::string::npos) << peers;
}

TEST_F(DeviceLaunch, MemoryIsKeptWhileRanksShareADevice) {
  constexpr size_t Bytes = 3 << 20;
  void *before = where.driver->allocate(Bytes, where.device);
  std::optional<Group> group(std::in_place, onDevice(2, false));
  reset();
  where.driver->release(before, Bytes);
  void *again = where.driver->allocate(Bytes, where.device);
  EXPECT_EQ(again, before);
  void *small = where.driver->allocate(5000, where.device);
  EXPECT_EQ(calls().find("cuMem"), calls().find("cuMemset")) << calls(); // allocations: none
  where.driver->release(small, 5000);
  where.driver->release(again, Bytes);
  EXPECT_EQ(calls().find("cuMemFree"), std::string::npos) << calls();
  group.reset();
  EXPECT_NE(calls().find("cuMemFree"), std::string::npos) << calls();
  EXPECT_EQ(calls().find("cuStreamDestroy"), std::string::npos) << calls();
}

TEST_F(DeviceLaunch, AFailureEndsTheWaitsOfEveryKernelOfTheWorld) {
  Group group(onDevice(2, true));
  auto first = group.bind(0);
  communicates = true;
  KernelImage image = loadFailing("waits_long");
  launchKernel(first.get(), image, {1, 1, 1}, arguments);
  tilery_gpu_context *context;
  std::memcpy(&context, lastLaunch().parameters + 12, 8);
  EXPECT_EQ(context->failure->kind, uint32_t(TILERY_GPU_OK));
  EXPECT_EQ(context->timeout_ns, uint64_t(first->timeoutSeconds() * 1e9));
  group.abort(1, "rank 1 had enough");
  EXPECT_EQ(context->failure->kind, uint32_t(TILERY_GPU_WAIT_TIMEOUT));
  Error error = errorOf([&] { synchronize(first.get(), 0); });
  EXPECT_EQ(error.kind, TILERY_PEER_ERROR);
  EXPECT_NE(error.message.find("rank 1 had enough"), std::string::npos) << error.message;
  synchronize(nullptr, 1); // no failure of others
}

TEST_F(DeviceLaunch, AGridThatDoesNotEndIsReported) {
  Group group(onDevice(2, true));
  auto first = group.bind(0), second = group.bind(1);
  communicates = suspends = true;
  KernelImage image = load("spins", ".param .u64 x, .param .u32 n");
  symbol<decltype(fake_cuda_busy)>("fake_cuda_busy")(second->deviceStream());
  launchKernel(second.get(), image, {1, 1, 1}, arguments, {0.1});
  synchronize(first.get(), 0);
  EXPECT_EQ(errorOf([&] { synchronize(second.get(), 0); }).message,
            "the launches of rank 1 have not ended 1 s after they were waited for; kernel 'spins' is "
            "the last of them\nhint: a loop in it waits for what nobody does; the device computes "
            "until this process ends");
  leaveDevice(*second); // does not wait again
}

TEST_F(DeviceLaunch, WorkspacesBelongToStreamsAndRecordings) {
  hal::Stream stream = where.driver->createStream(where.device);
  auto ofSize = [&](hal::Stream used, size_t bytes) { return deviceWorkspace(where, used, bytes); };
  auto *first = static_cast<uint8_t *>(ofSize(stream, 5000));
  EXPECT_EQ(first[0] | first[4999], 0);
  EXPECT_EQ(ofSize(stream, 100), first);
  EXPECT_EQ(ofSize(stream, 8192), first) << "sizes are rounded up";
  EXPECT_NE(ofSize(nullptr, 100), first);
  symbol<decltype(fake_cuda_capture)>("fake_cuda_capture")(stream, 1);
  void *recorded = ofSize(stream, 100);
  EXPECT_NE(recorded, first);
  EXPECT_EQ(ofSize(stream, 100), recorded);
  symbol<decltype(fake_cuda_capture)>("fake_cuda_capture")(stream, 0);
  EXPECT_EQ(ofSize(stream, 100), first);
  symbol<decltype(fake_cuda_capture)>("fake_cuda_capture")(stream, 1);
  EXPECT_NE(ofSize(stream, 100), recorded);
  symbol<decltype(fake_cuda_capture)>("fake_cuda_capture")(stream, 0);
  auto *larger = static_cast<uint8_t *>(ofSize(stream, 10000));
  EXPECT_NE(larger, first);
  EXPECT_EQ(larger[0] | larger[9999], 0);
}

TEST_F(DeviceLaunch, ScratchMemoryBelongsToStreamsAndRecordings) {
  scratchBytes = 256;
  KernelImage image = load("scratch", ".param .u64 x, .param .u32 n");
  hal::Stream stream = where.driver->createStream(where.device);
  auto scratchFor = [&](hal::Stream used, int64_t instances) {
    launchKernel(nullptr, image, {instances, 1, 1}, arguments, {-1, used});
    tilery_gpu_context *context;
    std::memcpy(&context, lastLaunch().parameters + 12, 8);
    return static_cast<uint8_t *>(context->scratch);
  };
  auto capture = [&](int capturing) {
    symbol<decltype(fake_cuda_capture)>("fake_cuda_capture")(stream, capturing);
  };
  uint8_t *first = scratchFor(stream, 100);
  std::memset(first, 1, 25600); // 256 bytes for each instance
  EXPECT_EQ(scratchFor(stream, 7), first);
  EXPECT_NE(scratchFor(stream, 101), first);
  EXPECT_NE(scratchFor(nullptr, 100), first);
  capture(1);
  uint8_t *recorded = scratchFor(stream, 100);
  EXPECT_NE(recorded, first);
  EXPECT_EQ(scratchFor(stream, 100), recorded);
  capture(0);
  EXPECT_NE(scratchFor(stream, 100), recorded);
}

TEST_F(DeviceLaunch, CostsLittle) {
  KernelImage image = loadFailing("nothing");
  int64_t best = INT64_MAX;
  for (int i = 0; i < 50; ++i) {
    reset();
    int64_t begin = nowNs();
    for (int k = 0; k < 100; ++k)
      launchKernel(nullptr, image, {}, arguments);
    best = std::min(best, (nowNs() - begin) / 100);
  }
  std::printf("our part of a launch, the fake driver's included: %d ns\n", int(best));
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  EXPECT_LT(best, 1500);
#endif
}

} // namespace
} // namespace tilery::rt
