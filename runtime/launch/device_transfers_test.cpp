// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Transfers beside grids on a device that is not there: the fake libcuda makes the copies at once
// and records what it was asked for.
#include "runtime/hal/cuda/fake/fake_cuda.h"
#include "runtime/launch/device_kernel.h"
#include "runtime/launch/launch.h"
#include "runtime/launch/launch_test_support.h"
#include "runtime/world/group.h"


#include <cstring>
#include <functional>
#include <gtest/gtest.h>
#include <thread>

namespace tilery::rt {
namespace {

using test::calls;
using test::errorOf;
using test::onDevice;
using test::reset;
using test::symbol;

class DeviceTransfers : public testing::Test {
protected:
  void SetUp() override {
    where = hal::deviceNumber(1);
    reset();
  }
  KernelImage load(const std::string &name, bool communicates) {
    std::string text =
        ".version 8.0\n.entry " + name + "(.param .u64 x, .param .u64 context) { ret; }";
    KernelImage image;
    image.name = name;
    image.communicates = communicates;
    image.parameters = {{"x", KernelParameter::Kind::Pointer, "*fp32"}};
    DeviceCode code;
    code.shape.threads = 128;
    image.device = &DeviceKernel::load(where, image, code, text);
    return image;
  }
  hal::DeviceRef where;
  uint64_t arguments[1] = {0x7000};
};

/// Two chunks for the other rank, in the heaps of a world on a device.
struct Plan {
  explicit Plan(World &world) : base(static_cast<char *>(world.allocate(4096, "x"))) {
    auto *signals = reinterpret_cast<uint64_t *>(base + 2048);
    for (int i = 0; i < 2; ++i)
      transfers.push_back(
          {base + 512 * i, base + 1024 + 512 * i, 512, 1, signals + i, signals + 8});
  }
  char *base;
  std::vector<tilery_transfer> transfers;
};

// Both ranks allocate: it is collective.
void onBothRanks(Group &group, const std::function<void(World &, Plan &)> &first) {
  auto run = [&](int rank) {
    auto world = group.bind(rank);
    Plan plan(*world);
    if (rank == 0)
      first(*world, plan);
    world->barrier();
  };
  std::thread other([&] { run(1); });
  run(0);
  other.join();
}

// The calls of a launch on rank 0 with two transfers to rank 1.
std::string callsBeside(WorldOptions options, const KernelImage &image, uint64_t *arguments) {
  Group group(std::move(options));
  std::string made;
  onBothRanks(group, [&](World &world, Plan &plan) {
    launchKernel(&world, image, {1, 1, 1}, arguments);
    auto *epoch = const_cast<uint64_t *>(plan.transfers[0].value);
    *epoch = 17; // the memory of the fake device is the host's
    std::memset(plan.base + 1024, 3, 1024);
    reset();
    launchKernel(&world, image, {1, 1, 1}, arguments, {.transfers = plan.transfers});
    made = calls();
    char *peer = world.domain->heaps[1].data() + (plan.base - world.domain->heaps[0].data());
    EXPECT_EQ(std::string(peer, 1024), std::string(1024, 3));
    EXPECT_EQ(reinterpret_cast<uint64_t *>(peer + 2048)[1], 17u);
  });
  return made;
}

TEST_F(DeviceTransfers, TransfersRunInStreamsBesideTheGrid) {
  KernelImage image = load("beside", true);
  WorldOptions apart = onDevice(2);
  apart.deviceNames = {"cuda:0", "cuda:1"};
  EXPECT_EQ(callsBeside(apart, image, arguments),
            "cuStreamGetCaptureInfo_v2 cuStreamGetCaptureInfo_v2 "
            "cuEventRecord cuStreamWaitEvent cuMemcpyAsync cuMemcpyAsync "
            "cuStreamWaitEvent cuMemcpyAsync cuMemcpyAsync cuLaunchKernelEx "
            "cuEventRecord cuStreamWaitEvent cuEventRecord cuStreamWaitEvent");
  // Within a device the copies come before the grid.
  EXPECT_EQ(callsBeside(onDevice(2), image, arguments),
            "cuStreamGetCaptureInfo_v2 cuStreamGetCaptureInfo_v2 cuEventRecord "
            "cuMemcpyAsync cuMemcpyAsync cuMemcpyAsync cuMemcpyAsync cuLaunchKernelEx");
}

TEST_F(DeviceTransfers, SideStreamsBelongToOneRecordingAtATime) {
  SideStreams sides(where, 2);
  auto capture = [](hal::Stream stream, int on) {
    symbol<decltype(fake_cuda_capture)>("fake_cuda_capture")(stream, on);
  };
  hal::Stream main = where.driver->createStream(where.device);
  hal::Stream plain = SideStreams::Fork(sides, main).stream(0);
  EXPECT_EQ(SideStreams::Fork(sides, main).stream(2), plain);
  EXPECT_NE(SideStreams::Fork(sides, main).stream(1), plain);
  capture(plain, 1); // as if it had joined a recording that has not ended
  hal::Stream other = SideStreams::Fork(sides, main).stream(0);
  EXPECT_NE(other, plain);
  capture(plain, 0);
  EXPECT_EQ(SideStreams::Fork(sides, main).stream(0), plain);
}

TEST_F(DeviceTransfers, TransfersReadTheMemoryOfTheDevice) {
  Group group(onDevice(2));
  KernelImage image = load("reads", true);
  onBothRanks(group, [&](World &world, Plan &plan) {
    uint64_t local[64] = {};
    auto refusal = [&] {
      return errorOf([&] {
               launchKernel(&world, image, {1, 1, 1}, arguments, {.transfers = plan.transfers});
             })
          .message;
    };
    plan.transfers[1].value = local;
    EXPECT_EQ(
        refusal().find("the value of transfer 1 is in memory of the host, but the kernel runs on "
                       "cuda:0"),
        0u)
        << refusal();
    plan.transfers[0].source = local;
    EXPECT_EQ(refusal().find("the source of transfer 0 is in memory of the host"), 0u) << refusal();
  });
  auto alone = makeSingleWorld({.heapBytes = 4096});
  tilery_transfer transfer = {};
  std::string text =
      errorOf([&] {
        KernelImage apart = load("apart", false);
        launchKernel(alone.get(), apart, {1, 1, 1}, arguments, {.transfers = {&transfer, 1}});
      }).message;
  EXPECT_EQ(
      text.find("transfers go to symmetric memory of the host, but the kernel runs on cuda:0"), 0u)
      << text;
}

} // namespace
} // namespace tilery::rt
