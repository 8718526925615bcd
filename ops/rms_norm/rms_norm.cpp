// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Host side of rms_norm over the last dimension of [rows, N].
#include "ops/kernels.h"
#include "ops/launch_options.h"
#include "ops/registry.h"

namespace tilery::ops {

static void run(Call &call) {
  const tilery_tensor &x = call.tensor(0), &weight = call.tensor(1), &y = call.tensor(2);
  call.needRank(0, 2);
  call.needRank(1, 1);
  call.needRank(2, 2);
  for (size_t i = 0; i < 3; ++i) {
    call.needType(i, {TILERY_FP32, TILERY_FP16, TILERY_BF16});
    call.needInnerContiguous(i);
  }
  call.needDim(1, 0, x.shape[1], "columns of 'x'");
  call.needDim(2, 0, x.shape[0], "rows of 'x'");
  call.needDim(2, 1, x.shape[1], "columns of 'x'");
  RowTile tile = chooseRowTile(call, 0);
  kernel("rms_norm", "rms_norm")
      .launchOn(call.worldOrNull(), {.x = tile.instances, .options = tile.options},
                memory(x), memory(weight), memory(y), x.shape[0], x.shape[1], stride(x, 0),
                stride(y, 0), call.options.real("eps"), tile.rows, tile.block, tile.once, tile.whole, tile.stages);
}

const Op &rmsNormOp() {
  static const Op op{"rms_norm",
                     "x / sqrt(mean(x^2) + eps) * weight over the last dimension",
                     {"x", "weight", "y"},
                     {{"eps", "1e-06"}},
                     run};
  return op;
}

} // namespace tilery::ops
