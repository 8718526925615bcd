// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Host side of layer_norm over the last dimension of [rows, N].
#include "ops/kernels.h"
#include "ops/launch_options.h"
#include "ops/registry.h"

#include <variant>

namespace tilery::ops {

template <typename Weight, typename Bias>
static void launch(Call &call, const Weight &weight, const Bias &bias) {
  const tilery_tensor &x = call.tensor(0), &y = call.tensor(1);
  RowTile tile = chooseRowTile(call, 0);
  kernel("layer_norm", "layer_norm")
      .launchOn(call.worldOrNull(), {.x = tile.instances, .options = tile.options},
                memory(x), weight, bias, memory(y), x.shape[0], x.shape[1], stride(x, 0),
                stride(y, 0), call.options.real("eps"), tile.rows, tile.block, tile.once, tile.whole, tile.stages);
}

static void run(Call &call) {
  const tilery_tensor &x = call.tensor(0);
  call.needRank(0, 2);
  call.needRank(1, 2);
  call.needDim(1, 0, x.shape[0], "rows of 'x'");
  call.needDim(1, 1, x.shape[1], "columns of 'x'");
  for (size_t i = 0; i < 4; ++i) {
    if (!call.has(i))
      continue;
    call.needType(i, {TILERY_FP32, TILERY_FP16, TILERY_BF16});
    call.needInnerContiguous(i);
    if (i >= 2) {
      call.needRank(i, 1);
      call.needDim(i, 0, x.shape[1], "columns of 'x'");
    }
  }
  using Maybe = std::variant<std::nullptr_t, Memory>;
  auto optional = [&](size_t i) {
    return call.has(i) ? Maybe(memory(call.tensor(i))) : Maybe(nullptr);
  };
  std::visit([&](auto weight, auto bias) { launch(call, weight, bias); }, optional(2), optional(3));
}

const Op &layerNormOp() {
  static const Op op{"layer_norm",
                     "(x - mean) / sqrt(var + eps) * weight + bias over the last dimension",
                     {"x", "y", "weight?", "bias?"},
                     {{"eps", "1e-05"}},
                     run};
  return op;
}

} // namespace tilery::ops
