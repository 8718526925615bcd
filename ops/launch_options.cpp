// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
#include "ops/launch_options.h"

#include <algorithm>
#include <array>
#include <bit>
#include <map>

namespace tilery::ops {

const tilery_options *launchOptions(const tilery_device_properties &device, int64_t warps,
                                    int64_t stages, int64_t registers) {
  if (!hasWarps(device))
    return nullptr;
  // Handles live as long as the process; a launch should not pay for making their text.
  thread_local std::map<std::array<int64_t, 3>, const tilery_options *> known;
  const tilery_options *&options = known[{warps, stages, registers}];
  if (!options)
    check(tilery_options_intern(("{\"num_warps\": " + std::to_string(warps) +
                                 ", \"num_stages\": " + std::to_string(stages) +
                                 ", \"maxnreg\": " + std::to_string(registers) + "}")
                                    .c_str(),
                                &options));
  return options;
}

namespace {
/// What was measured on an H200 (bench/gpu_rows.py).
struct RowLimits {
  static constexpr int64_t inRegisters = 16384, ofInstance = 2048, ofWarp = 1024, mostWarps = 8;
  static constexpr int64_t longest = 32768, longWarps = 16, mostStages = 2;
  static constexpr int64_t spared = 8192; // bytes of shared memory for reductions
};
} // namespace

// Registers of one instance hold up to 16384 elements, so that such a row is read once, and two
// instances and more are resident and hide each other's waits. Of rows twice as long one instance is
// resident, which copies the next row to shared memory meanwhile; two a processor, one after the other, were
// quicker on the whole. Longer ones, and those of which shared memory does not hold two, are read in blocks, the
// second time from the cache. An instance of short rows has several, unless all processors would not be busy.
RowTile chooseRowTile(const Call &call, size_t i) {
  using Limits = RowLimits;
  const tilery_tensor &x = call.tensor(i);
  int64_t m = x.shape[0], n = x.shape[1];
  tilery_device_properties device = call.device();
  auto tile = [&](int64_t rows, int64_t block, int64_t stages, int64_t instances, int64_t warps) {
    return RowTile{rows,   block,     n <= block, n > 0 && n % block == 0,
                   stages, instances, hasWarps(device) ? launchOptions(device, warps) : nullptr};
  };
  if (!hasWarps(device))
    return tile(1, blockFor(n, 16, 1024), 1, m, 1);
  int64_t rowBytes = blockFor(n, 16, Limits::longest) * tilery_dtype_size(static_cast<tilery_dtype>(x.dtype));
  int64_t stages = std::min((device.shared_bytes - Limits::spared) / rowBytes, Limits::mostStages);
  if (n > Limits::inRegisters && n <= Limits::longest && stages > 1)
    return tile(1, Limits::longest, stages, std::min<int64_t>(m, 2 * device.processors), Limits::longWarps);
  int64_t block = blockFor(n, 16, Limits::inRegisters);
  auto share = std::bit_floor(uint64_t(std::max<int64_t>(m / (4 * device.processors), 1)));
  int64_t rows = std::clamp<int64_t>(Limits::ofInstance / block, 1, int64_t(share));
  int64_t warps = std::clamp<int64_t>(rows * block / Limits::ofWarp, 1, Limits::mostWarps);
  return tile(rows, block, 1, ceilDiv(m, rows), warps);
}

} // namespace tilery::ops
