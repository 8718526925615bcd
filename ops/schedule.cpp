// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Choice of tiles, chunks and instances, from what the device can do; a cost model takes this
// function's place when there are several engines to choose from.
#include "ops/schedule.h"

#include <algorithm>

namespace tilery::ops {

std::vector<std::pair<std::string, std::string>> scheduleOptions() {
  return {{"block_m", "0"}, {"block_n", "0"}, {"block_k", "0"}, {"chunks", "0"},
          {"comm", "0"},    {"compute", "0"}, {"first", "-1"}};
}

namespace {
/// The largest tiles that pay.
struct TileLimits {
  int64_t least, rows, columns, depth;
};
} // namespace

// A CPU's tile should fill vector registers; where instances have fast memory of their own, it
// should hold several steps of both operands, and fill matrix units.
static TileLimits tileLimits(const tilery_device_properties &device, int32_t dtype) {
  if (device.shared_bytes == 0)
    return {1, 64, 64, 128};
  bool wide = tilery_dtype_size(static_cast<tilery_dtype>(dtype)) >= 4;
  return wide ? TileLimits{16, 64, 64, 32} : TileLimits{16, 128, 128, 64};
}

Schedule chooseSchedule(const Call &call, const Problem &problem) {
  auto chosen = [&](const char *name, int64_t otherwise) {
    int64_t value = call.options.integer(name);
    if (value < 0)
      call.fail("option '" + std::string(name) + "' is " + std::to_string(value) +
                ", needs 1 or more (0 chooses)");
    return value ? value : otherwise;
  };
  tilery_device_properties device = call.device();
  int64_t cores = device.processors;
  TileLimits limits = tileLimits(device, problem.dtype);
  Schedule s;
  // Rows that do not exist need not be computed.
  s.blockM = chosen("block_m", blockFor(problem.m, limits.least, limits.rows));
  s.blockN = chosen("block_n", blockFor(problem.n, 16, limits.columns));
  s.blockK = chosen("block_k", blockFor(problem.k, 16, limits.depth));
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
