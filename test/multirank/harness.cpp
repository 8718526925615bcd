// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Worlds for tests.
#include "test/multirank/harness.h"

#include <gtest/gtest.h>
#include <thread>

namespace tilery::test {

WorldOptions smallWorld(int ranks) {
  WorldOptions options;
  options.ranks = ranks;
  options.heapBytes = size_t(64) << 20;
  options.timeoutSeconds = 20;
  return options;
}

static Error runRank(rt::Group &group, int rank, const std::function<void(World &)> &body) {
  std::unique_ptr<World> world = group.bind(rank);
  try {
    body(*world);
    world->finalize();
  } catch (const Error &error) {
    group.abort(rank, error.message);
    world->finalize();
    return error;
  }
  return Error(TILERY_OK, "");
}

std::vector<Error> runGroup(const WorldOptions &options, const std::function<void(World &)> &body,
                            uint64_t *scheduleHash) {
  rt::Group group(options);
  std::vector<Error> results(size_t(options.ranks), Error(TILERY_OK, ""));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < options.ranks; ++rank)
    threads.emplace_back([&, rank] { results[size_t(rank)] = runRank(group, rank, body); });
  for (std::thread &thread : threads)
    thread.join();
  if (scheduleHash)
    *scheduleHash = group.scheduleHash();
  return results;
}

void expectGroup(const WorldOptions &options, const std::function<void(World &)> &body) {
  std::vector<Error> results = runGroup(options, body);
  for (size_t rank = 0; rank < results.size(); ++rank)
    ASSERT_EQ(results[rank].kind, TILERY_OK) << "rank " << rank << ": " << results[rank].message;
}

KernelImage makeKernel(const char *name, tilery_kernel_entry entry) {
  KernelImage image;
  image.name = name;
  image.entry = entry;
  image.suspends = true;
  image.communicates = true;
  image.sites = {{"ring.py", 12, 5, "dl.wait(ready + 3, waitValue=4)"},
                 {"ring.py", 20, 5, "dl.notify(ready, peer)"}};
  return image;
}

void launch(World &world, const KernelImage &image, int64_t grid,
            const std::vector<uint64_t> &arguments) {
  rt::launchKernel(&world, image, {grid, 1, 1}, arguments.data());
}

void require(bool condition, const std::string &what) {
  if (!condition)
    throw Error(TILERY_INTERNAL_ERROR, what);
}

} // namespace tilery::test
