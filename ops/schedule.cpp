// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Choice of tiles, chunks and instances. The figures are for CPUs; a cost model takes this
// function's place when there are several engines to choose from.
#include "ops/schedule.h"

#include <algorithm>
#include <thread>

namespace tilery::ops {

std::vector<std::pair<std::string, std::string>> scheduleOptions() {
  return {{"block_m", "0"}, {"block_n", "0"}, {"block_k", "0"}, {"chunks", "0"},
          {"comm", "0"},    {"compute", "0"}, {"first", "-1"}};
}

Schedule chooseSchedule(const Call &call, const Problem &problem) {
  auto chosen = [&](const char *name, int64_t otherwise) {
    int64_t value = call.options.integer(name);
    if (value < 0)
      call.fail("option '" + std::string(name) + "' is " + std::to_string(value) +
                ", needs 1 or more (0 chooses)");
    return value ? value : otherwise;
  };
  int64_t cores = std::max(1u, std::thread::hardware_concurrency());
  Schedule s;
  // A tile should fill vector registers, but not compute rows that do not exist.
  s.blockM = chosen("block_m", blockFor(problem.m, 1, 64));
  s.blockN = chosen("block_n", blockFor(problem.n, 16, 64));
  s.blockK = chosen("block_k", blockFor(problem.k, 16, 128));
  // Four chunks let three quarters of a transfer hide behind tiles; a chunk below one tile
  // would only add signals.
  s.chunks = chosen("chunks", std::clamp<int64_t>(problem.m / s.blockM, 1, 4));
  s.comm = chosen("comm", 1);
  s.compute = chosen("compute", std::clamp<int64_t>(cores / problem.ranks, 1, 8));
  int64_t first = call.options.integer("first");
  s.first = first < 0 ? (problem.ranks > 1 ? 1 : 0) : first % problem.ranks;
  return s;
}

} // namespace tilery::ops
