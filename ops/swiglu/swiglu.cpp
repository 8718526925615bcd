// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Host side of swiglu over [rows, N]: gate and up as two arrays, or side by side in [rows, 2 N].
#include "ops/kernels.h"
#include "ops/launch_options.h"
#include "ops/registry.h"

namespace tilery::ops {

// The second half of rows that hold gate and up side by side.
static Memory secondHalf(const tilery_tensor &gate, int64_t n) {
  Memory half = memory(gate);
  int64_t bytes = n * tilery_dtype_size(static_cast<tilery_dtype>(gate.dtype));
  half.data = static_cast<const char *>(half.data) + bytes;
  half.bytes = std::max<int64_t>(half.bytes - bytes, 0);
  return half;
}

static void run(Call &call) {
  const tilery_tensor &gate = call.tensor(0), &out = call.tensor(1);
  bool isPacked = !call.has(2);
  for (size_t i = 0; i < (isPacked ? 2 : 3); ++i) {
    call.needRank(i, 2);
    call.needType(i, {TILERY_FP32, TILERY_FP16, TILERY_BF16});
    call.needInnerContiguous(i);
    call.needDim(i, 0, gate.shape[0], "rows of 'gate'");
  }
  int64_t rows = gate.shape[0], n = isPacked ? gate.shape[1] / 2 : gate.shape[1];
  if (isPacked && gate.shape[1] % 2)
    call.fail("without 'up', 'gate' holds both side by side, but it has " +
              std::to_string(gate.shape[1]) + " columns, which is odd");
  call.needDim(1, 1, n, isPacked ? "half the columns of 'gate'" : "columns of 'gate'");
  if (!isPacked)
    call.needDim(2, 1, n, "columns of 'gate'");
  constexpr int64_t elementsOfWarp = 1024;
  tilery_device_properties device = call.device();
  int64_t block = blockFor(n, 16, hasWarps(device) ? 4096 : 1024), blocks = ceilDiv(n, block);
  Launch how{.x = rows * blocks,
             .options = launchOptions(device, std::max<int64_t>(block / elementsOfWarp, 1))};
  const tilery_tensor &up = isPacked ? gate : call.tensor(2);
  kernel("swiglu", "swiglu")
      .launchOn(call.worldOrNull(), how, memory(gate), isPacked ? secondHalf(gate, n) : memory(up),
                memory(out), n, blocks, stride(gate, 0), stride(up, 0), stride(out, 0), block,
                n % block == 0);
}

const Op &swigluOp() {
  static const Op op{"swiglu",
                     "gate / (1 + exp(-gate)) * up; without up, gate holds both side by side",
                     {"gate", "out", "up?"},
                     {},
                     run};
  return op;
}

} // namespace tilery::ops
