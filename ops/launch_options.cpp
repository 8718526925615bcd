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

// Registers of one instance hold up to 32768 elements, 32 a thread, so that such a row is read
// once. Longer rows are read in blocks of 8192, of which several instances are resident and hide
// each other's waits. An instance of short rows has several, unless all processors would not be busy.
RowTile chooseRowTile(const Call &call, int64_t m, int64_t n) {
  constexpr int64_t inRegisters = 32768, ofLonger = 8192, ofInstance = 4096, ofWarp = 1024;
  tilery_device_properties device = call.device();
  if (!hasWarps(device)) {
    int64_t block = blockFor(n, 16, 1024);
    return {1, block, n <= block, n > 0 && n % block == 0, nullptr};
  }
  int64_t block = blockFor(n, 16, n <= inRegisters ? inRegisters : ofLonger);
  auto share = std::bit_floor(uint64_t(std::max<int64_t>(m / (4 * device.processors), 1)));
  int64_t rows = std::clamp<int64_t>(ofInstance / block, 1, int64_t(share));
  int64_t warps = std::clamp<int64_t>(rows * block / ofWarp, 1, 32);
  return {rows, block, n <= block, n > 0 && n % block == 0, launchOptions(device, warps)};
}

} // namespace tilery::ops
