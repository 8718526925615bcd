// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Parts of a world by themselves: heap layout, delayed writes, job detection, meshes.
#include "runtime/world/delayed_writes.h"
#include "runtime/world/heap_layout.h"
#include "runtime/world/job.h"
#include "runtime/world/group.h"

#include <cstdlib>
#include <cstring>
#include <gtest/gtest.h>

namespace tilery::rt {
namespace {

size_t allocate(HeapLayout &layout, size_t bytes, const char *label, int team = 0) {
  size_t offset = layout.place(bytes);
  if (offset != HeapLayout::NoSpace)
    layout.add({offset, bytes, label, team});
  return offset;
}

TEST(HeapLayout, PlacesAtOrAfterAnOffset) {
  HeapLayout layout(10 * 4096);
  allocate(layout, 4096, "a");
  layout.add({3 * 4096, 4096, "b"});
  EXPECT_EQ(layout.place(4096), 4096u);
  EXPECT_EQ(layout.place(4096, 2 * 4096), 2u * 4096);
  EXPECT_EQ(layout.place(2 * 4096, 2 * 4096), 4u * 4096);
  EXPECT_EQ(layout.place(4096, 9 * 4096), 9u * 4096);
  EXPECT_EQ(layout.place(4096, 9 * 4096 + 1), HeapLayout::NoSpace);
  EXPECT_EQ(layout.place(1, ~size_t(0)), HeapLayout::NoSpace);
}

TEST(HeapLayout, KnowsTheObjectsOfATeam) {
  HeapLayout layout(10 * 4096);
  allocate(layout, 1, "a");
  allocate(layout, 1, "b", 2);
  ASSERT_EQ(layout.of(2).size(), 1u);
  EXPECT_EQ(layout.of(2)[0].label, "b");
  EXPECT_TRUE(layout.of(1).empty());
}

TEST(HeapLayout, FirstFitAndReuse) {
  HeapLayout layout(10 * 4096);
  EXPECT_EQ(allocate(layout, 1, "a"), 0u);
  EXPECT_EQ(allocate(layout, 4097, "b"), 4096u);
  EXPECT_EQ(allocate(layout, 0, "c"), 3u * 4096);
  layout.free(4096);
  EXPECT_EQ(allocate(layout, 3 * 4096, "d"), 4u * 4096);
  EXPECT_EQ(allocate(layout, 2 * 4096, "e"), 4096u);
  EXPECT_EQ(allocate(layout, 4 * 4096, "f"), HeapLayout::NoSpace);
  EXPECT_EQ(allocate(layout, ~size_t(0), "g"), HeapLayout::NoSpace);
  EXPECT_EQ(layout.usedBytes(), 7u * 4096);
}

TEST(HeapLayout, FindsTheObject) {
  HeapLayout layout(size_t(1) << 40);
  size_t huge = (size_t(1) << 32) + 5;
  allocate(layout, 100, "a");
  EXPECT_EQ(allocate(layout, huge, "huge"), 4096u);
  EXPECT_EQ(layout.find(4096 + huge - 8, 8)->label, "huge");
  EXPECT_EQ(layout.find(4096 + huge - 7, 8), nullptr);
  EXPECT_EQ(layout.find(100, 1), nullptr);
  EXPECT_EQ(layout.find(100, 0)->label, "a");
  EXPECT_EQ(layout.find(0, ~size_t(0)), nullptr);
}

DelayedWrite dataWrite(char *target, char value, size_t bytes, int rank = 1) {
  DelayedWrite write;
  write.target = rank;
  write.runs = {{target, bytes}};
  write.bytes.assign(bytes, value);
  return write;
}

DelayedWrite signalWrite(uint64_t *signal, uint64_t value) {
  DelayedWrite write;
  write.kind = DelayedWrite::Kind::Signal;
  write.target = 1;
  write.runs = {{reinterpret_cast<char *>(signal), 8}};
  write.value = value;
  return write;
}

/// Delivers two disjoint writes of which the first may be overtaken; whether it was.
bool overtaken(uint64_t seed, bool fence, bool sameRank) {
  DelayedWrites delayed;
  WriteQueue *queue = delayed.open(0);
  char memory[2] = {};
  delayed.add(queue, dataWrite(memory, 1, 1, 1));
  queue->fence += fence;
  delayed.add(queue, dataWrite(memory + 1, 1, 1, sameRank ? 1 : 2));
  Random random(seed);
  delayed.deliverOne(random);
  return memory[0] == 0;
}

int overtakenCount(bool fence, bool sameRank) {
  int count = 0;
  for (uint64_t seed = 0; seed < 50; ++seed)
    count += overtaken(seed, fence, sameRank);
  return count;
}

TEST(DelayedWrites, FenceOrdersWritesToOneRank) {
  EXPECT_GT(overtakenCount(false, true), 0);
  EXPECT_EQ(overtakenCount(true, true), 0);
  EXPECT_GT(overtakenCount(true, false), 0);
}

TEST(DelayedWrites, OverlappingWritesKeepTheirOrder) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    DelayedWrites delayed;
    WriteQueue *queue = delayed.open(0);
    char memory[4] = {};
    for (char value = 1; value <= 3; ++value)
      delayed.add(queue, dataWrite(memory + value - 1, value, 2));
    Random random(seed);
    while (delayed.pending())
      delayed.deliverOne(random);
    EXPECT_EQ(std::string(memory, 4), std::string("\1\2\3\3"));
  }
}

TEST(DelayedWrites, SignalComesAfterEverythingBeforeIt) {
  bool laterOvertook = false;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    DelayedWrites delayed;
    WriteQueue *queue = delayed.open(0);
    char memory[3] = {};
    uint64_t signal = 0;
    delayed.add(queue, dataWrite(memory, 1, 1));
    delayed.add(queue, dataWrite(memory + 1, 1, 1, 2));
    delayed.add(queue, signalWrite(&signal, 9));
    delayed.add(queue, dataWrite(memory + 2, 1, 1));
    Random random(seed);
    while (delayed.pending()) {
      delayed.deliverOne(random);
      if (signal) {
        EXPECT_TRUE(memory[0] && memory[1]);
      } else {
        laterOvertook |= memory[2] != 0;
      }
    }
  }
  EXPECT_TRUE(laterOvertook);
}

TEST(DelayedWrites, LatePutReadsItsSourceWhenDelivered) {
  DelayedWrites delayed;
  WriteQueue *queue = delayed.open(0);
  char memory = 0, source = 1;
  DelayedWrite write = dataWrite(&memory, 0, 1);
  write.kind = DelayedWrite::Kind::LatePut;
  write.source = &source;
  delayed.add(queue, std::move(write));
  source = 2;
  delayed.flush(queue);
  EXPECT_EQ(memory, 2);
  write = dataWrite(&memory, 0, 1);
  write.kind = DelayedWrite::Kind::LatePut;
  write.source = &source;
  delayed.add(queue, std::move(write));
  delayed.capture(queue);
  source = 3;
  delayed.flush(queue);
  EXPECT_EQ(memory, 2);
}

TEST(Mesh, LastAxisIsFastest) {
  WorldOptions options;
  options.ranks = 6;
  options.mesh = {2, 3};
  options.heapBytes = 1 << 20;
  Group group(options);
  auto world = group.bind(4);
  EXPECT_EQ(world->axisRank(0), 1);
  EXPECT_EQ(world->axisRank(1), 1);
  EXPECT_EQ(world->axisRank(-1), 4);
  EXPECT_EQ(world->axisSize(0), 2);
  EXPECT_EQ(world->axisSize(1), 3);
  EXPECT_EQ(world->axisSize(-1), 6);
  EXPECT_THROW(world->axisRank(2), Error);
}

TEST(World, HeapThatIsTooSmallSaysSo) {
  WorldOptions options;
  options.heapBytes = 8192;
  auto world = makeSingleWorld(options);
  try {
    world->allocate(8193, "x");
    FAIL();
  } catch (const Error &error) {
    EXPECT_EQ(error.message, "symmetric object 'x' of 8193 bytes does not fit: the heap of each "
                             "rank has 8192 bytes, of which 0 are used\nhint: set heap_bytes or "
                             "TILERY_HEAP_BYTES");
  }
}

void clearLaunchers() {
  for (const char *name : {"RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_RANK",
                           "OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMI_SIZE", "SLURM_PROCID",
                           "SLURM_NTASKS", "SLURM_STEP_ID", "MASTER_ADDR", "MASTER_PORT"})
    unsetenv(name);
}

TEST(Job, NothingConfigured) {
  clearLaunchers();
  EXPECT_FALSE(findJob({}).has_value());
}

// An sbatch script sets these without being a rank of a step.
TEST(Job, SlurmBatchScriptIsNoRank) {
  clearLaunchers();
  setenv("SLURM_PROCID", "0", 1);
  setenv("SLURM_NTASKS", "4", 1);
  EXPECT_FALSE(findJob({}).has_value());
  setenv("SLURM_STEP_ID", "0", 1);
  EXPECT_EQ(findJob({})->size, 4);
  clearLaunchers();
}

std::string jobError(const JobOptions &options) {
  try {
    if (std::optional<Job> job = findJob(options))
      requireOneHost(*job);
  } catch (const Error &error) {
    EXPECT_EQ(error.kind, TILERY_CONFIG_ERROR);
    return error.message;
  }
  return "no error";
}

TEST(Job, Contradictions) {
  clearLaunchers();
  setenv("RANK", "2", 1);
  EXPECT_EQ(jobError({}), "only one of RANK and WORLD_SIZE is set\nhint: set both, or neither for "
                          "one rank");
  setenv("WORLD_SIZE", "2", 1);
  EXPECT_EQ(jobError({}), "rank 2 of a world of size 2 makes no sense (torchrun (RANK, WORLD_SIZE))");
  setenv("RANK", "one", 1);
  EXPECT_EQ(jobError({}), "RANK is 'one', which is not a whole number");
  setenv("RANK", "1", 1);
  setenv("WORLD_SIZE", "8", 1);
  setenv("LOCAL_WORLD_SIZE", "4", 1);
  EXPECT_EQ(jobError({}), "the world has 8 ranks, 4 of them on this host; ranks on other hosts are "
                          "not reachable by shared memory, the only transport of this build");
  clearLaunchers();
  JobOptions rankOnly;
  rankOnly.rank = 1;
  EXPECT_EQ(jobError(rankOnly), "give both 'rank' and 'size', or neither");
}

} // namespace
} // namespace tilery::rt
