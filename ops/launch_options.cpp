// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
#include "ops/launch_options.h"

#include <algorithm>
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
// each other's waits.
RowTile chooseRowTile(const Call &call, int64_t n) {
  constexpr int64_t inRegisters = 32768, ofLonger = 8192, elementsOfWarp = 1024;
  tilery_device_properties device = call.device();
  int64_t most = !hasWarps(device) ? 1024 : n <= inRegisters ? inRegisters : ofLonger;
  int64_t block = blockFor(n, 16, most);
  return {block, n <= block, n > 0 && n % block == 0,
          launchOptions(device, std::clamp<int64_t>(block / elementsOfWarp, 1, 32))};
}

} // namespace tilery::ops
