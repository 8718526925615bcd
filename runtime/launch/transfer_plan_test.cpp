// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Transfers beside grids, on the host: what arrives when, and what is refused.
#include "runtime/launch/launch.h"
#include "runtime/launch/launch_test_support.h"
#include "runtime/world/group.h"

#include <gtest/gtest.h>
#include <thread>

namespace tilery::rt {
namespace {

using test::errorOf;

constexpr int64_t Words = 1000, Chunks = 4;

// Arguments: inbox, signals, epoch, result; takes each chunk once its signal is the epoch.
void takeChunks(tilery_instance *self, const uint64_t *arguments) {
  auto *inbox = reinterpret_cast<const int64_t *>(arguments[0]);
  auto *ready = reinterpret_cast<const uint64_t *>(arguments[1]);
  auto *result = reinterpret_cast<int64_t *>(arguments[3]);
  for (int64_t chunk = 0; chunk < Chunks; ++chunk) {
    self->api->wait(self, ready + chunk, 1, arguments[2], TILERY_CMP_GE, 0);
    std::copy_n(inbox + chunk * Words, Words, result + chunk * Words);
  }
}

KernelImage makeImage(tilery_kernel_entry entry) {
  KernelImage image;
  image.name = "take";
  image.entry = entry;
  image.sites = {{"take.py", 12, 5, "dl.wait(ready)"}};
  image.suspends = image.communicates = true;
  return image;
}

// Each rank sends chunks to the next one, many times over.
void exchange(World &world, int calls) {
  auto *inbox = static_cast<int64_t *>(world.allocate(Chunks * Words * 8, "inbox"));
  auto *ready = static_cast<uint64_t *>(world.allocate(Chunks * 8, "ready"));
  std::vector<int64_t> sent(Chunks * Words), result(Chunks * Words);
  uint64_t epoch = 0;
  int next = (world.rank() + 1) % world.size(),
      before = (world.rank() + world.size() - 1) % world.size();
  KernelImage image = makeImage(takeChunks);
  for (int call = 0; call < calls; ++call) {
    ++epoch;
    std::fill(sent.begin(), sent.end(), 100 * call + world.rank());
    std::vector<tilery_transfer> transfers;
    for (int64_t chunk = 0; chunk < Chunks; ++chunk)
      transfers.push_back({inbox + chunk * Words, sent.data() + chunk * Words, Words * 8, next,
                           ready + chunk, &epoch});
    uint64_t arguments[] = {reinterpret_cast<uint64_t>(inbox), reinterpret_cast<uint64_t>(ready),
                            epoch, reinterpret_cast<uint64_t>(result.data())};
    launchKernel(&world, image, {1, 1, 1}, arguments, {.transfers = transfers});
    for (int64_t word : result)
      ASSERT_EQ(word, 100 * call + before);
    world.barrier();
  }
}

void onRanks(WorldOptions options, void (*body)(World &)) {
  options.ranks = 3;
  options.heapBytes = 1 << 20;
  options.timeoutSeconds = 20;
  Group group(options);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank)
    threads.emplace_back([&, rank] {
      auto world = group.bind(rank);
      body(*world);
      world->finalize();
    });
  for (std::thread &thread : threads)
    thread.join();
}

TEST(Transfers, ArriveBeforeTheirSignals) {
  onRanks({}, [](World &world) { exchange(world, 50); });
}

TEST(Transfers, ArriveLateInAnyOrder) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    WorldOptions options;
    options.seed = seed;
    options.delay = seed % 4 != 0;
    options.residency = 1;
    onRanks(options, [](World &world) { exchange(world, 3); });
  }
}

void setOne(tilery_instance *, const uint64_t *arguments) {
  *reinterpret_cast<int64_t *>(arguments[0]) = 1;
}

TEST(Transfers, GoWithKernelsThatDoNotWait) {
  auto world = makeSingleWorld({.heapBytes = 1 << 20});
  auto *words = static_cast<int64_t *>(world->allocate(24, "words"));
  int64_t source = 7, done = 0;
  uint64_t value = 5;
  tilery_transfer transfers[] = {
      {words, &source, 8, 0, nullptr, nullptr},
      {words, nullptr, 0, 0, reinterpret_cast<uint64_t *>(words + 1), &value}};
  KernelImage image = makeImage(setOne);
  image.suspends = image.communicates = false;
  uint64_t arguments[] = {reinterpret_cast<uint64_t>(&done)};
  launchKernel(world.get(), image, {1, 1, 1}, arguments, {.transfers = transfers});
  EXPECT_EQ(words[0], 7);
  EXPECT_EQ(words[1], 5);
  EXPECT_EQ(done, 1);
}

TEST(Transfers, MistakesAreNamed) {
  auto world = makeSingleWorld({.heapBytes = 1 << 20});
  auto *words = static_cast<int64_t *>(world->allocate(16, "words"));
  int64_t local[4] = {};
  auto *signal = reinterpret_cast<uint64_t *>(words), *value = reinterpret_cast<uint64_t *>(local);
  KernelImage image = makeImage(setOne);
  auto refusal = [&](World *where, const tilery_transfer &transfer) {
    Error error = errorOf(
        [&] { launchKernel(where, image, {1, 1, 1}, nullptr, {.transfers = {&transfer, 1}}); });
    EXPECT_EQ(error.kind, TILERY_LAUNCH_ERROR);
    return error.message;
  };
  EXPECT_EQ(refusal(world.get(), {words, local, 8, 1, nullptr, nullptr}),
            "transfer 0 goes to rank 1, but the world has 1 ranks");
  EXPECT_NE(refusal(world.get(), {local, words, 8, 0, nullptr, nullptr})
                .find("the destination of transfer 0 ["),
            std::string::npos);
  std::string outside = refusal(world.get(), {words, local, 24, 0, signal, value});
  EXPECT_NE(outside.find("+24 bytes) does not lie in a symmetric object of rank 0"),
            std::string::npos);
  EXPECT_NE(refusal(world.get(), {nullptr, nullptr, 0, 0, value, value})
                .find("the signal of transfer 0 ["),
            std::string::npos);
  image.communicates = false;
  EXPECT_EQ(refusal(nullptr, {words, local, 8, 0, nullptr, nullptr}),
            "transfers go to other ranks and need a world\nhint: call tilery.init() or "
            "tilery_world_init first");
}

} // namespace
} // namespace tilery::rt
