// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Host side of attention: q, k, v, out [batch, heads, tokens, head dimension], optional mask.
#include "ops/kernels.h"
#include "ops/launch_options.h"
#include "ops/registry.h"

#include <array>
#include <cmath>

namespace tilery::ops {

namespace {

struct Masking {
  std::string kind = "none";
  std::array<int64_t, 4> strides{};
};

/// Dimensions of 1 are broadcast by a stride of 0.
Masking maskingOf(Call &call, const std::array<int64_t, 4> &full) {
  Masking masking;
  if (!call.has(4))
    return masking;
  const tilery_tensor &mask = call.tensor(4);
  call.needRank(4, 4);
  call.needType(4, {TILERY_INT8, TILERY_FP32, TILERY_FP16, TILERY_BF16});
  masking.kind = mask.dtype == TILERY_INT8 ? "keep" : "add";
  for (int dim = 0; dim < 4; ++dim) {
    if (mask.shape[dim] != 1)
      call.needDim(4, dim, full[dim], "or 1");
    masking.strides[dim] = mask.shape[dim] == 1 ? 0 : stride(mask, dim);
  }
  return masking;
}

struct Tiles {
  int64_t queries, keys;
  const tilery_options *options;
};

// Matrix units that read shared memory on their own take 64 rows or more of halves, and want two
// steps of keys and values beside the queries. A mask of its own for each score takes registers. Others
// take 16 rows a warp.
Tiles chooseTiles(const Call &call, int64_t tokens, int64_t keys, int64_t head, bool isMasked) {
  constexpr int64_t twoSteps = 192 << 10;
  tilery_device_properties device = call.device();
  bool isHalf = tilery_dtype_size(static_cast<tilery_dtype>(call.tensor(0).dtype)) == 2;
  if (hasWarps(device) && device.shared_bytes < twoSteps && isHalf && head <= 128 && !isMasked) {
    int64_t rows = blockFor(tokens, 16, 128);
    return {rows, blockFor(keys, 16, 64),
            launchOptions(device, std::max<int64_t>(rows / 16, 4), 2)};
  }
  if (device.shared_bytes < twoSteps || !isHalf || head > 256)
    return {blockFor(tokens, 1, 64), blockFor(keys, 16, 64), launchOptions(device, 4)};
  int64_t queries = blockFor(tokens, 64, 128);
  int64_t most = head <= 128 && !isMasked ? 128 : 64;
  return {queries, blockFor(keys, 16, most), launchOptions(device, queries / 16, 2)};
}

void run(Call &call) {
  const tilery_tensor &q = call.tensor(0), &k = call.tensor(1), &v = call.tensor(2),
                      &out = call.tensor(3);
  for (size_t i = 0; i < 4; ++i) {
    call.needRank(i, 4);
    call.needInnerContiguous(i);
    call.needType(i, {TILERY_FP32, TILERY_FP16, TILERY_BF16});
    call.needSameType(0, i);
  }
  int64_t batch = q.shape[0], heads = q.shape[1], tokens = q.shape[2], head = q.shape[3];
  int64_t kvHeads = k.shape[1], keys = k.shape[2];
  for (size_t i = 1; i < 4; ++i) {
    call.needDim(i, 0, batch, "batch of 'q'");
    call.needDim(i, 3, head, "head dimension of 'q'");
  }
  call.needDim(2, 1, kvHeads, "heads of 'k'");
  call.needDim(2, 2, keys, "tokens of 'k'");
  call.needDim(3, 1, heads, "heads of 'q'");
  call.needDim(3, 2, tokens, "tokens of 'q'");
  if (kvHeads == 0 || heads % kvHeads)
    call.fail(std::to_string(heads) + " heads of 'q' are no multiple of the " +
              std::to_string(kvHeads) + " heads of 'k'");
  Masking masking = maskingOf(call, {batch, heads, tokens, keys});
  double scale =
      call.options.isNull("scale") ? 1 / std::sqrt(double(head)) : call.options.real("scale");
  Tiles tiles = chooseTiles(call, tokens, keys, head, call.has(4));
  Launch how{.x = ceilDiv(tokens, tiles.queries), .y = batch * heads, .options = tiles.options};
  auto launch = [&](const auto &mask) {
    kernel("attention", "attention")
        .launchOn(call.worldOrNull(), how, memory(q), memory(k), memory(v), mask, memory(out),
                  heads, heads / kvHeads, tokens, keys, head, scale, stride(q, 0), stride(q, 1),
                  stride(q, 2), stride(k, 0), stride(k, 1), stride(k, 2), stride(v, 0),
                  stride(v, 1), stride(v, 2), stride(out, 0), stride(out, 1), stride(out, 2),
                  masking.strides[0], masking.strides[1], masking.strides[2], masking.strides[3],
                  call.options.flag("causal"), Text{masking.kind}, tiles.queries, tiles.keys,
                  blockFor(head, 16, 1 << 20), keys > 0 && keys % tiles.keys == 0);
  };
  if (call.has(4))
    launch(memory(call.tensor(4)));
  else
    launch(nullptr);
}

} // namespace

const Op &attentionOp() {
  static const Op op{"attention",
                     "softmax(q k^T * scale + mask) v, without the score matrix",
                     {"q", "k", "v", "out", "mask?"},
                     {{"causal", "false"}, {"scale", "null"}},
                     run};
  return op;
}

} // namespace tilery::ops
