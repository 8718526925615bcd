// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Launches on one rank, with C++ functions in the place of compiled kernels.
#include "runtime/launch/launch.h"
#include "runtime/launch/launch_test_support.h"
#include "runtime/world/group.h"

#include <chrono>
#include <gtest/gtest.h>
#include <thread>

namespace tilery::rt {
namespace {

using test::errorOf;

KernelImage makeImage(const char *name, tilery_kernel_entry entry) {
  KernelImage image;
  image.name = name;
  image.entry = entry;
  image.sites = {{"ring.py", 12, 5, "dl.wait(ready)"}};
  return image;
}

void countVisit(tilery_instance *self, const uint64_t *arguments) {
  auto *counts = reinterpret_cast<int32_t *>(arguments[0]);
  int64_t flat = (int64_t(self->program_id[2]) * self->num_programs[1] + self->program_id[1]) *
                     self->num_programs[0] +
                 self->program_id[0];
  ++counts[flat];
}

TEST(Launch, RunsEveryInstanceOnce) {
  std::vector<int32_t> counts(3 * 4 * 5);
  uint64_t arguments[] = {reinterpret_cast<uint64_t>(counts.data())};
  KernelImage image = makeImage("count", countVisit);
  launchKernel(nullptr, image, {3, 4, 5}, arguments);
  image.suspends = true;
  launchKernel(nullptr, image, {3, 4, 5}, arguments);
  for (int32_t count : counts)
    EXPECT_EQ(count, 2);
}

TEST(Launch, GridOfZeroDoesNothing) {
  KernelImage image = makeImage("never", nullptr);
  launchKernel(nullptr, image, {0, 4, 5}, nullptr);
  launchKernel(nullptr, image, {4, 0, 1}, nullptr);
}

TEST(Launch, RefusesImpossibleGrids) {
  KernelImage image = makeImage("k", nullptr);
  EXPECT_EQ(errorOf([&] { launchKernel(nullptr, image, {-1, 1, 1}, nullptr); }).message,
            "grid of kernel 'k' has extent -1 in x, it must be 0 to 2147483647");
  EXPECT_EQ(errorOf([&] { launchKernel(nullptr, image, {1, 65536, 1}, nullptr); }).message,
            "grid of kernel 'k' has extent 65536 in y, it must be 0 to 65535");
  EXPECT_EQ(errorOf([&] { launchKernel(nullptr, image, {1LL << 31, 1, 1}, nullptr); }).kind,
            TILERY_LAUNCH_ERROR);
}

TEST(Launch, CommunicatingKernelNeedsWorld) {
  KernelImage image = makeImage("k", nullptr);
  image.communicates = true;
  Error error = errorOf([&] { launchKernel(nullptr, image, {}, nullptr); });
  EXPECT_EQ(error.kind, TILERY_LAUNCH_ERROR);
  EXPECT_NE(error.message.find("needs a world"), std::string::npos);
}

TEST(Launch, ResidencyRefusedWithNumbers) {
  WorldOptions options;
  options.residency = 4;
  options.heapBytes = 1 << 20;
  auto world = makeSingleWorld(options);
  KernelImage image = makeImage("k", countVisit);
  image.suspends = true;
  Error error = errorOf([&] { launchKernel(world.get(), image, {5, 1, 1}, nullptr); });
  EXPECT_EQ(error.kind, TILERY_LAUNCH_ERROR);
  EXPECT_NE(error.message.find("needs 5 x 1 x 1 = 5 program instances resident"),
            std::string::npos)
      << error.message;
  EXPECT_NE(error.message.find("has room for 4"), std::string::npos) << error.message;
  // A refusal up front leaves the world as it was.
  std::vector<int32_t> counts(4);
  uint64_t arguments[] = {reinterpret_cast<uint64_t>(counts.data())};
  launchKernel(world.get(), image, {4, 1, 1}, arguments);
  EXPECT_EQ(counts, std::vector<int32_t>(4, 1));
}

void failThird(tilery_instance *self, const uint64_t *) {
  if (self->program_id[0] == 3)
    self->api->fail(self, "index 7 is out of bounds", 0);
}

TEST(Launch, FailedInstanceNamesPlaceWithAndWithoutFibers) {
  KernelImage image = makeImage("k", failThird);
  for (bool suspends : {false, true}) {
    image.suspends = suspends;
    Error error = errorOf([&] { launchKernel(nullptr, image, {8, 1, 1}, nullptr); });
    EXPECT_EQ(error.kind, TILERY_LAUNCH_ERROR);
    EXPECT_EQ(error.message, "ring.py:12:5: error: index 7 is out of bounds\n"
                             "        dl.wait(ready)\n"
                             "  rank 0, kernel 'k', program instance (3, 0, 0)");
  }
}

// Instance 0 takes the lock word from instance 1, which polls for it (case 18).
void pollLock(tilery_instance *self, const uint64_t *arguments) {
  auto *lock = reinterpret_cast<uint64_t *>(arguments[0]);
  if (self->program_id[0] == 0)
    while (__atomic_load_n(lock, __ATOMIC_ACQUIRE) != 1)
      self->api->yield(self, 0);
  else
    __atomic_store_n(lock, 1, __ATOMIC_RELEASE);
}

void pollForEver(tilery_instance *self, const uint64_t *) {
  while (true)
    self->api->yield(self, 0);
}

TEST(Launch, PollingInstanceLetsOthersRun) {
  uint64_t lock = 0;
  uint64_t arguments[] = {reinterpret_cast<uint64_t>(&lock)};
  KernelImage image = makeImage("lock", pollLock);
  image.suspends = true;
  launchKernel(nullptr, image, {2, 1, 1}, arguments);
  EXPECT_EQ(lock, 1u);
}

TEST(Launch, PollingLoopTimesOut) {
  KernelImage image = makeImage("poll", pollForEver);
  image.suspends = true;
  Error error = errorOf([&] { launchKernel(nullptr, image, {2, 1, 1}, nullptr, {0.2}); });
  EXPECT_EQ(error.kind, TILERY_WAIT_TIMEOUT);
  EXPECT_NE(error.message.find("wait timed out after 0.2 s\n  rank 0, kernel 'poll', program "
                               "instance (0, 0, 0) at ring.py:12:5: dl.wait(ready)\n    polls "
                               "memory in a loop"),
            std::string::npos)
      << error.message;
}

void checkScratch(tilery_instance *self, const uint64_t *) {
  auto address = reinterpret_cast<uintptr_t>(self->scratch);
  if (address % 64 != 0)
    self->api->fail(self, "scratch is misaligned", -1);
  std::fill_n(static_cast<char *>(self->scratch), 100000, char(1));
}

TEST(Launch, ScratchIsAlignedAndLargeEnough) {
  KernelImage image = makeImage("scratch", checkScratch);
  image.scratchBytes = 100000;
  launchKernel(nullptr, image, {4, 1, 1}, nullptr);
  image.suspends = true;
  launchKernel(nullptr, image, {100, 1, 1}, nullptr);
}

void nothing(tilery_instance *, const uint64_t *) {}

TEST(Launch, EmptyKernelCostsLittle) {
  KernelImage image = makeImage("nothing", nothing);
  int64_t best = INT64_MAX;
  for (int i = 0; i < 50; ++i) {
    int64_t begin = nowNs();
    for (int k = 0; k < 100; ++k)
      launchKernel(nullptr, image, {}, nullptr);
    best = std::min(best, (nowNs() - begin) / 100);
  }
  RecordProperty("launch_ns", int(best));
  std::printf("launch of an empty kernel: %d ns\n", int(best));
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  EXPECT_LT(best, 1000);
#endif
}

} // namespace
} // namespace tilery::rt
