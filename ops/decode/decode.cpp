// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Host side of decode: q, out [batch, heads, head] or [batch, heads, tokens, head], k and v
// [batch, heads of the cache, keys, head]; how many instances share the keys of a sequence.
#include "ops/kernels.h"
#include "ops/launch_options.h"
#include "ops/registry.h"

#include <cmath>
#include <limits>
#include <variant>

namespace tilery::ops {

namespace {

// Queries of one tile, and shares of the keys of a sequence.
constexpr int64_t mostRows = 128, mostSplits = 128;

enum Position : size_t { Q, K, V, Out, Lengths, Scratch };

struct Shape {
  int64_t batch, heads, kvHeads, tokens, head, keys;
  int64_t pairs() const { return batch * kvHeads; }
  int64_t rows() const { return heads / kvHeads * tokens; } ///< of a pair
  /// Floats that the partial results of one split take: sums, peak and total of each row.
  int64_t floatsOfSplit() const { return pairs() * rows() * (head + 2); }
};

struct Tiles {
  int64_t rows, keys, warps, stages;
};

/// From one token to the next; a tensor without that dimension has one token.
int64_t tokenStride(const tilery_tensor &tensor) {
  return tensor.rank == 4 ? stride(tensor, 2) : 0;
}

} // namespace

static void checkLengths(const Call &call, int64_t batch) {
  if (!call.has(Lengths))
    return;
  call.needRank(Lengths, 1);
  call.needType(Lengths, {TILERY_INT32, TILERY_INT64});
  call.needDim(Lengths, 0, batch, "batch of 'q'");
  call.needContiguous(Lengths);
}

static Shape shapeOf(const Call &call) {
  const tilery_tensor &q = call.tensor(Q), &k = call.tensor(K);
  int rank = q.rank == 3 ? 3 : 4;
  for (size_t i : {Q, K, V, Out}) {
    call.needRank(i, i == Q || i == Out ? rank : 4);
    call.needInnerContiguous(i);
    call.needType(i, {TILERY_FP32, TILERY_FP16, TILERY_BF16});
    call.needSameType(Q, i);
  }
  Shape s{q.shape[0],        q.shape[1], k.shape[1], rank == 4 ? q.shape[2] : 1,
          q.shape[rank - 1], k.shape[2]};
  for (size_t i : {K, V}) {
    call.needDim(i, 0, s.batch, "batch of 'q'");
    call.needDim(i, 3, s.head, "head dimension of 'q'");
  }
  call.needDim(V, 1, s.kvHeads, "heads of 'k'");
  call.needDim(V, 2, s.keys, "keys of 'k'");
  for (int dim = 0; dim < rank; ++dim)
    call.needDim(Out, dim, q.shape[dim], "as of 'q'");
  if (s.kvHeads == 0 || s.heads % s.kvHeads)
    call.fail(std::to_string(s.heads) + " heads of 'q' are no multiple of the " +
              std::to_string(s.kvHeads) + " heads of 'k'");
  if (s.rows() > mostRows)
    call.fail(std::to_string(s.rows()) + " queries share a head of the cache (" +
              std::to_string(s.heads / s.kvHeads) + " heads of " + std::to_string(s.tokens) +
              " tokens), at most " + std::to_string(mostRows) + " can; use attention");
  if (s.keys > int64_t(1) << 30) // so that int32 holds where tiles end
    call.fail("'k' has " + std::to_string(s.keys) + " keys, at most 2^30 can be numbered");
  checkLengths(call, s.batch);
  return s;
}

// Where memory is copied ahead into that of an instance, most of it is filled with keys and values:
// they hide the latency. Such products take 64 rows or more; what the padding computes is free,
// since the cache is what takes time.
// Smaller tiles end sooner after the last keys have come, which counts where a processor has few.
static Tiles chooseTiles(const Call &call, const Shape &s) {
  constexpr int64_t ahead = 192 << 10, fewBytes = 2 << 20, mostOfFew = 4;
  tilery_device_properties device = call.device();
  int64_t width = blockFor(s.head, 16, 1 << 20);
  int64_t size = tilery_dtype_size(static_cast<tilery_dtype>(call.tensor(Q).dtype));
  if (size != 2 || device.shared_bytes < ahead || width > 256)
    return {blockFor(s.rows(), hasWarps(device) ? 16 : 1, mostRows), blockFor(s.keys, 16, 64), 4,
            3};
  int64_t rows = blockFor(s.rows(), 64, mostRows);
  bool isSmall = width <= 128 && rows == 64; // four warps have registers for it
  bool hasFew = 2 * s.pairs() * s.keys * s.head * size <= fewBytes * device.processors;
  int64_t keys = isSmall && !hasFew ? 128 : 64;
  int64_t stages = std::clamp<int64_t>(ahead / (keys * 2 * width * size), 2, 8);
  if (isSmall && hasFew)
    stages = std::min(stages, mostOfFew);
  return {rows, keys, isSmall ? 4 : 8, stages};
}

// The time of the busiest processor, in tiles: each share of the keys has a beginning and an end,
// and combining them is another launch. More than `mostWorks` shares balance nothing any more.
static int64_t bestSplits(const Shape &s, int64_t tileKeys, int64_t processors, int64_t fitting) {
  constexpr double edge = 0.25, combining = 1;
  constexpr int64_t mostWorks = 512;
  int64_t tiles = std::max<int64_t>(1, ceilDiv(s.keys, tileKeys));
  int64_t most = std::min({tiles, mostSplits, ceilDiv(mostWorks, s.pairs()), fitting});
  int64_t best = 1;
  double least = std::numeric_limits<double>::max();
  for (int64_t splits = 1; splits <= most; ++splits) {
    double turns = double(ceilDiv(s.pairs() * splits, processors));
    double cost = turns * (double(ceilDiv(tiles, splits)) + edge) + (splits > 1 ? combining : 0);
    if (cost < least)
      best = splits, least = cost;
  }
  return best;
}

static int64_t chooseSplits(const Call &call, const Shape &s, int64_t tileKeys) {
  int64_t wanted = call.options.integer("splits"), held = 0;
  if (wanted < 0)
    call.fail("option 'splits' is " + std::to_string(wanted) + ", needs 1 or more (0 chooses)");
  if (call.has(Scratch)) {
    call.needRank(Scratch, 1);
    call.needType(Scratch, {TILERY_FP32});
    call.needContiguous(Scratch);
    held = call.tensor(Scratch).shape[0];
  }
  if (wanted > mostSplits)
    call.fail("option 'splits' is " + std::to_string(wanted) + ", at most " +
              std::to_string(mostSplits) + " can be combined");
  if (wanted > 1 && wanted * s.floatsOfSplit() > held)
    call.fail("'workspace' holds " + std::to_string(held) + " floats, but " +
              std::to_string(wanted) + " splits need " +
              std::to_string(wanted * s.floatsOfSplit()));
  if (wanted)
    return wanted;
  int64_t fitting = std::max<int64_t>(1, held / s.floatsOfSplit());
  return bestSplits(s, tileKeys, call.device().processors, fitting);
}

static void combine(const Call &call, const Shape &s, int64_t splits) {
  const tilery_tensor &out = call.tensor(Out);
  int64_t blockS = blockFor(splits, 2, mostSplits), blockD = blockFor(s.head, 16, 1 << 20);
  int64_t warps = std::clamp<int64_t>(blockS * blockD / 2048, 4, 16);
  kernel("decode", "combine")
      .launchOn(call.worldOrNull(),
                {.x = s.pairs(), .y = s.rows(), .options = launchOptions(call.device(), warps)},
                memory(call.tensor(Scratch)), memory(out), splits, s.kvHeads, s.head,
                stride(out, 0), stride(out, 1), tokenStride(out), s.heads / s.kvHeads, s.tokens,
                blockS, blockD);
}

static void run(Call &call) {
  const tilery_tensor &q = call.tensor(Q), &k = call.tensor(K), &v = call.tensor(V),
                      &out = call.tensor(Out);
  Shape s = shapeOf(call);
  if (elements(q) == 0)
    return;
  double scale =
      call.options.isNull("scale") ? 1 / std::sqrt(double(s.head)) : call.options.real("scale");
  Tiles tiles = chooseTiles(call, s);
  int64_t splits = chooseSplits(call, s, tiles.keys), works = s.pairs() * splits;
  tilery_device_properties device = call.device();
  Launch how{.x = std::min<int64_t>(works, device.processors),
             .options = launchOptions(device, tiles.warps, tiles.stages)};
  auto launch = [&](const auto &lengths, const auto &partial) {
    kernel("decode", "decode")
        .launchOn(call.worldOrNull(), how, memory(q), memory(k), memory(v), lengths, memory(out),
                  partial, works, splits, s.kvHeads, s.keys, s.head, scale, stride(q, 0),
                  stride(q, 1), tokenStride(q), stride(k, 0), stride(k, 1), stride(k, 2),
                  stride(v, 0), stride(v, 1), stride(v, 2), stride(out, 0), stride(out, 1),
                  tokenStride(out), s.heads / s.kvHeads, s.tokens,
                  call.options.flag("causal") && s.tokens > 1, tiles.rows, tiles.keys,
                  blockFor(s.head, 16, 1 << 20));
  };
  using Maybe = std::variant<std::nullptr_t, Memory>;
  auto optional = [&](bool given, size_t at) {
    return given ? Maybe(memory(call.tensor(at))) : Maybe(nullptr);
  };
  std::visit(launch, optional(call.has(Lengths), Lengths), optional(splits > 1, Scratch));
  if (splits > 1)
    combine(call, s, splits);
}

const Op &decodeOp() {
  static const Op op{"decode",
                     "attention of a few new tokens over a cache of keys and values",
                     {"q", "k", "v", "out", "lengths?", "workspace?"},
                     {{"causal", "false"}, {"scale", "null"}, {"splits", "0"}},
                     run};
  return op;
}

} // namespace tilery::ops
