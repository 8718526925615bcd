// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
#include "ops/launch_options.h"

#include <algorithm>
#include <bit>
#include <map>

namespace tilery::ops {

const tilery_options *launchOptions(const tilery_device_properties &device, int64_t warps,
                                    int64_t stages) {
  if (!hasWarps(device))
    return nullptr;
  // Handles live as long as the process; a launch should not pay for making their text.
  thread_local std::map<std::pair<int64_t, int64_t>, const tilery_options *> known;
  const tilery_options *&options = known[{warps, stages}];
  if (!options)
    check(tilery_options_intern(("{\"num_warps\": " + std::to_string(warps) +
                                 ", \"num_stages\": " + std::to_string(stages) + "}")
                                    .c_str(),
                                &options));
  return options;
}

// Registers of one instance hold up to 16384 elements, so that such a row is read once, and two
// instances and more are resident and hide each other's waits. Longer rows are read in blocks of as
// many, the second time from the cache (measured on an H200, bench/gpu_rows.py: 32768 at once leave
// room for one instance only, and are slower). An instance of short rows has several, unless all
// processors would not be busy.
RowTile chooseRowTile(const Call &call, int64_t m, int64_t n) {
  constexpr int64_t inRegisters = 16384, ofInstance = 2048, ofWarp = 1024, mostWarps = 8;
  tilery_device_properties device = call.device();
  if (!hasWarps(device)) {
    int64_t block = blockFor(n, 16, 1024);
    return {1, block, n <= block, n > 0 && n % block == 0, nullptr};
  }
  int64_t block = blockFor(n, 16, inRegisters);
  auto share = std::bit_floor(uint64_t(std::max<int64_t>(m / (4 * device.processors), 1)));
  int64_t rows = std::clamp<int64_t>(ofInstance / block, 1, int64_t(share));
  int64_t warps = std::clamp<int64_t>(rows * block / ofWarp, 1, mostWarps);
  return {rows, block, n <= block, n > 0 && n % block == 0, launchOptions(device, warps)};
}

} // namespace tilery::ops
