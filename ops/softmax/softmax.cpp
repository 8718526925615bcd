// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Host side of softmax over the last dimension of [rows, N].
#include "ops/kernels.h"
#include "ops/launch_options.h"
#include "ops/registry.h"

namespace tilery::ops {

static void run(Call &call) {
  const tilery_tensor &x = call.tensor(0), &y = call.tensor(1);
  call.needRank(0, 2);
  call.needRank(1, 2);
  call.needType(0, {TILERY_FP32, TILERY_FP16, TILERY_BF16});
  call.needDim(1, 0, x.shape[0], "rows of 'x'");
  call.needDim(1, 1, x.shape[1], "columns of 'x'");
  call.needInnerContiguous(0);
  call.needInnerContiguous(1);
  RowTile tile = chooseRowTile(call, 0);
  kernel("softmax", "softmax")
      .launchOn(call.worldOrNull(), {.x = tile.instances, .options = tile.options},
                memory(x), memory(y), x.shape[0], x.shape[1], stride(x, 0), stride(y, 0), tile.rows,
                tile.block, tile.once, tile.whole, tile.stages);
}

const Op &softmaxOp() {
  static const Op op{"softmax", "softmax over the last dimension", {"x", "y"}, {}, run};
  return op;
}

} // namespace tilery::ops
