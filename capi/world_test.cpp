// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Worlds through the C interface.
#include "tilery/kernel_abi.h"
#include "tilery/tilery.hpp"

#include <cstring>
#include <gtest/gtest.h>
#include <string>
#include <thread>
#include <vector>

namespace {

std::string createError(const char *options) {
  tilery_group *group = nullptr;
  EXPECT_EQ(tilery_group_create(options, &group), TILERY_CONFIG_ERROR);
  EXPECT_EQ(group, nullptr);
  return tilery_error_message();
}

TEST(WorldInterface, OptionsAreChecked) {
  EXPECT_EQ(createError(R"({"ranks": 2, "sede": 1})"),
            "unknown option 'sede'; did you mean 'seed'?");
  EXPECT_EQ(createError(R"({"seed": 1})"), "option 'ranks' is missing");
  EXPECT_EQ(createError(nullptr), "option 'ranks' is missing");
  EXPECT_EQ(createError(R"({"ranks": "two"})"),
            "option 'ranks' is \"two\", it must be a positive whole number");
  EXPECT_EQ(createError(R"({"ranks": -2})"),
            "option 'ranks' is -2, it must be a positive whole number");
  EXPECT_EQ(createError(R"({"ranks": 2, "mesh": [2, 2]})"),
            "mesh [2, 2] has 4 ranks, the world has 2");
  EXPECT_EQ(createError(R"({"ranks": 2, "device": 3})"),
            "option 'device' is 3, it must be the name of a device, such as \"cpu\" or \"cuda:1\", or "
            "a list of one for each rank");
  EXPECT_EQ(createError(R"({"ranks": 2, "device": "cudo"})"),
            "there is no driver 'cudo'; did you mean 'cuda'?");
  EXPECT_EQ(createError("[2]"), "the options are [2], they must be a JSON object");
  EXPECT_EQ(createError("{").substr(0, 24), "the options are not JSON");
  tilery_world *world = nullptr;
  EXPECT_EQ(tilery_world_init(R"({"rank": 1})", &world), TILERY_CONFIG_ERROR);
  EXPECT_STREQ(tilery_error_message(), "give both 'rank' and 'size', or neither");
}

TEST(WorldInterface, TeamsOfOneRank) {
  tilery_world *world = nullptr, *team = nullptr, *none = nullptr;
  ASSERT_EQ(tilery_world_init(nullptr, &world), TILERY_OK) << tilery_error_message();
  int32_t ranks[] = {0, 0};
  ASSERT_EQ(tilery_team_create(world, ranks, 1, "tp", &team), TILERY_OK) << tilery_error_message();
  EXPECT_EQ(tilery_world_rank(team), 0);
  EXPECT_NE(std::string(tilery_world_describe(team)).find(R"("team":"tp","ranks":[0])"),
            std::string::npos);
  void *object = nullptr;
  ASSERT_EQ(tilery_symmetric_alloc(team, 100, "x", &object), TILERY_OK);
  EXPECT_TRUE(tilery_symmetric_contains(team, object, 100));
  EXPECT_FALSE(tilery_symmetric_contains(world, object, 100));
  EXPECT_EQ(tilery_symmetric_free(world, object), TILERY_LAUNCH_ERROR);
  EXPECT_EQ(tilery_world_trace_write(team, "trace.json"), TILERY_LAUNCH_ERROR);
  EXPECT_STREQ(tilery_error_message(),
               "the timeline is that of the whole world; team 'tp' has none of its own");
  EXPECT_EQ(tilery_team_create(world, ranks, 2, "twice", &none), TILERY_LAUNCH_ERROR);
  EXPECT_STREQ(tilery_error_message(), "rank 0 occurs twice in team 'twice' of ranks [0, 0]");
  EXPECT_EQ(tilery_team_create(world, nullptr, 1, "null", &none), TILERY_CONFIG_ERROR);
  EXPECT_STREQ(tilery_error_message(), "1 ranks of a team are given as null");
  ASSERT_EQ(tilery_world_split(world, -1, 0, "nobody", &none), TILERY_OK);
  EXPECT_EQ(tilery_world_rank(none), -1);
  EXPECT_EQ(tilery_world_barrier(none, -1), TILERY_LAUNCH_ERROR);
  tilery_world_destroy(none);
  // The world's end is that of the team; its handle stays to be released.
  EXPECT_EQ(tilery_world_finalize(world), TILERY_OK);
  EXPECT_EQ(tilery_world_barrier(team, -1), TILERY_LAUNCH_ERROR);
  EXPECT_STREQ(tilery_error_message(), "this world was finalized; rank 0 has left it");
  EXPECT_EQ(tilery_world_finalize(team), TILERY_OK);
}

TEST(WorldInterface, SingleWorldWithNothingConfigured) {
  tilery_world *world = nullptr;
  ASSERT_EQ(tilery_world_init(nullptr, &world), TILERY_OK) << tilery_error_message();
  EXPECT_EQ(tilery_world_rank(world), 0);
  EXPECT_EQ(tilery_world_size(world), 1);
  void *object = nullptr;
  ASSERT_EQ(tilery_symmetric_alloc(world, 100, "x", &object), TILERY_OK);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(object) % 4096, 0u);
  EXPECT_TRUE(tilery_symmetric_contains(world, object, 100));
  EXPECT_FALSE(tilery_symmetric_contains(world, object, 101));
  EXPECT_NE(std::string(tilery_world_describe(world)).find(R"("kind":"single","heap":{"bytes":)"),
            std::string::npos);
  int ordinary = 0;
  void *peer = nullptr;
  EXPECT_EQ(tilery_symmetric_at(world, &ordinary, 0, &peer), TILERY_LAUNCH_ERROR);
  EXPECT_EQ(tilery_symmetric_at(world, object, 1, &peer), TILERY_LAUNCH_ERROR);
  EXPECT_STREQ(tilery_error_message(), "rank 1 is out of range: the world has 1 ranks");
  EXPECT_EQ(tilery_symmetric_free(world, &ordinary), TILERY_LAUNCH_ERROR);
  EXPECT_NE(std::string(tilery_error_message()).find("is not the start of a symmetric object of rank 0"),
            std::string::npos);
  EXPECT_EQ(tilery_symmetric_free(world, object), TILERY_OK);
  EXPECT_EQ(tilery_world_finalize(world), TILERY_OK);
  EXPECT_EQ(tilery_world_finalize(nullptr), TILERY_OK);
}

void exchange(tilery_group *group, int32_t rank) {
  tilery_world *world = nullptr;
  ASSERT_EQ(tilery_group_rank(group, rank, &world), TILERY_OK);
  int32_t size = tilery_world_size(world);
  std::vector<int32_t> all(static_cast<size_t>(size));
  ASSERT_EQ(tilery_world_all_gather_bytes(world, &rank, all.data(), sizeof(rank), nullptr), TILERY_OK);
  for (int32_t peer = 0; peer < size; ++peer)
    EXPECT_EQ(all[static_cast<size_t>(peer)], peer);
  void *signal = nullptr;
  ASSERT_EQ(tilery_symmetric_alloc(world, 8, "ready", &signal), TILERY_OK);
  auto *word = static_cast<uint64_t *>(signal);
  ASSERT_EQ(tilery_signal_notify(world, word, (rank + 1) % size, 1, TILERY_SIGNAL_ADD), TILERY_OK);
  ASSERT_EQ(tilery_signal_wait(world, word, 1, TILERY_CMP_EQ, -1), TILERY_OK);
  ASSERT_EQ(tilery_world_barrier(world, 5), TILERY_OK);
  EXPECT_EQ(tilery_signal_wait(world, word, 1, 17, -1), TILERY_CONFIG_ERROR);
  EXPECT_EQ(tilery_world_finalize(world), TILERY_OK) << tilery_error_message();
}

TEST(WorldInterface, MemoryOutlivesTheRankThatLeft) {
  tilery_world *world = nullptr;
  ASSERT_EQ(tilery_world_init(nullptr, &world), TILERY_OK);
  void *object = nullptr, *later = nullptr;
  ASSERT_EQ(tilery_symmetric_alloc_typed(world, 8, "x", "int64[1]", &object), TILERY_OK);
  EXPECT_EQ(tilery_world_leave(world), TILERY_OK);
  EXPECT_EQ(tilery_world_leave(world), TILERY_OK);
  *static_cast<int64_t *>(object) = 7;
  EXPECT_EQ(tilery_symmetric_alloc(world, 8, "y", &later), TILERY_LAUNCH_ERROR);
  EXPECT_STREQ(tilery_error_message(), "this world was finalized; rank 0 has left it");
  EXPECT_EQ(tilery_symmetric_at(world, object, 0, &later), TILERY_LAUNCH_ERROR);
  EXPECT_EQ(*static_cast<int64_t *>(object), 7);
  tilery_world_destroy(world);
  EXPECT_EQ(tilery_world_leave(nullptr), TILERY_CONFIG_ERROR);
}

TEST(WorldInterface, AnInterruptEndsAWait) {
  tilery_world *world = nullptr;
  ASSERT_EQ(tilery_world_init(nullptr, &world), TILERY_OK);
  void *signal = nullptr;
  ASSERT_EQ(tilery_symmetric_alloc(world, 8, "ready", &signal), TILERY_OK);
  tilery_set_interrupt_check([] { return 1; });
  EXPECT_EQ(tilery_signal_wait(world, static_cast<uint64_t *>(signal), 1, TILERY_CMP_EQ, 20),
            TILERY_LAUNCH_ERROR);
  tilery_set_interrupt_check(nullptr);
  EXPECT_STREQ(tilery_error_message(), "the program was interrupted");
  EXPECT_EQ(tilery_world_finalize(world), TILERY_OK);
}

TEST(WorldInterface, GroupOfRanks) {
  for (const char *options : {R"({"ranks": 3})", R"({"ranks": 3, "seed": 4, "delay": true})"}) {
    tilery_group *group = nullptr;
    ASSERT_EQ(tilery_group_create(options, &group), TILERY_OK) << tilery_error_message();
    std::vector<std::thread> threads;
    for (int32_t rank = 0; rank < 3; ++rank)
      threads.emplace_back(exchange, group, rank);
    for (std::thread &thread : threads)
      thread.join();
    EXPECT_EQ(tilery_group_schedule_hash(group) != 0, std::strstr(options, "seed") != nullptr);
    tilery_group_destroy(group);
  }
}

// Memory of the caller: the host's transfers, the end by free, and by drop and collect.
void shareOwnMemory(tilery_group *group, int32_t rank) {
  tilery_world *handle = nullptr;
  ASSERT_EQ(tilery_group_rank(group, rank, &handle), TILERY_OK);
  tilery::World world(handle);
  std::vector<int64_t> mine(4, 10 + rank), got(2, 0);
  tilery::Symmetric<int64_t> shared = world.registered(mine.data(), mine.size(), "mine");
  EXPECT_TRUE(tilery_symmetric_contains(handle, mine.data() + 2, 16));
  EXPECT_FALSE(tilery_symmetric_contains(handle, mine.data() + 3, 16));
  int following = (rank + 1) % 3, before = (rank + 2) % 3;
  EXPECT_EQ(shared.at(following)[3], 10 + following);
  int64_t value = 100 + rank;
  world.barrier();
  EXPECT_EQ(tilery_put(handle, &mine[1], &value, sizeof value, following), TILERY_OK);
  world.barrier();
  EXPECT_EQ(mine[1], 100 + before);
  EXPECT_EQ(tilery_get(handle, got.data(), &mine[1], 16, following), TILERY_OK);
  EXPECT_EQ(got, (std::vector<int64_t>{100 + rank, 10 + following}));
  EXPECT_EQ(tilery_symmetric_drop(handle, &mine[1]), TILERY_LAUNCH_ERROR);
  EXPECT_NE(std::string(tilery_error_message()).find("is not the start of registered memory of rank"),
            std::string::npos);
  void *ended[32];
  int32_t count = -1;
  if (rank == 0)
    EXPECT_EQ(tilery_symmetric_drop(handle, mine.data()), TILERY_OK);
  EXPECT_EQ(tilery_symmetric_collect(handle, ended, &count), TILERY_OK);
  EXPECT_EQ(count, 0);
  if (rank != 0)
    EXPECT_EQ(tilery_symmetric_drop(handle, mine.data()), TILERY_OK);
  EXPECT_EQ(tilery_symmetric_collect(handle, ended, &count), TILERY_OK);
  ASSERT_EQ(count, 1);
  EXPECT_EQ(ended[0], mine.data());
  EXPECT_FALSE(tilery_symmetric_contains(handle, mine.data(), 8));
  world.free(world.registered(mine.data(), 1, "again"));
  EXPECT_EQ(tilery_symmetric_free(handle, mine.data()), TILERY_LAUNCH_ERROR);
  world.barrier();
}

TEST(WorldInterface, RegisteredMemory) {
  tilery_group *group = nullptr;
  ASSERT_EQ(tilery_group_create(R"({"ranks": 3})", &group), TILERY_OK);
  std::vector<std::thread> threads;
  for (int32_t rank = 0; rank < 3; ++rank)
    threads.emplace_back(shareOwnMemory, group, rank);
  for (std::thread &thread : threads)
    thread.join();
  tilery_group_destroy(group);
}

TEST(WorldInterface, AbortEndsTheWaitOfAnotherRank) {
  tilery_group *group = nullptr;
  ASSERT_EQ(tilery_group_create(R"({"ranks": 2})", &group), TILERY_OK);
  tilery_world *world = nullptr;
  ASSERT_EQ(tilery_group_rank(group, 0, &world), TILERY_OK);
  std::thread other([&] { tilery_group_abort(group, 1, "ValueError: no such file"); });
  EXPECT_EQ(tilery_world_barrier(world, -1), TILERY_PEER_ERROR);
  EXPECT_NE(std::string(tilery_error_message()).find("rank 1 failed: LaunchError: ValueError"),
            std::string::npos)
      << tilery_error_message();
  other.join();
  EXPECT_EQ(tilery_world_finalize(world), TILERY_OK);
  tilery_group_destroy(group);
}

} // namespace
