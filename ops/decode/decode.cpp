// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Host side of decode: q, out [batch, heads, head] or [batch, heads, tokens, head], k and v
// [batch, heads of the cache, keys, head]; how many instances share the keys of a sequence.
#include "ops/kernels.h"
#include "ops/launch_options.h"
#include "ops/partials.h"
#include "ops/registry.h"

#include <cmath>
#include <limits>
#include <optional>

namespace tilery::ops {

namespace {

// Queries of one tile, and shares of the keys of a sequence.
constexpr int64_t mostRows = 128, mostSplits = 128;
constexpr int64_t mostHead = 1 << 16; // of which a tile of keys can be compiled

enum Position : size_t { Q, K, V, Out, Lengths };

struct Shape {
  int64_t batch, heads, kvHeads, tokens, head, keys;
  int64_t pairs() const { return batch * kvHeads; }
  int64_t rows() const { return heads / kvHeads * tokens; } ///< of a pair
  /// Floats of a partial result: sums, peak and total of each row.
  int64_t floatsOfPart() const { return rows() * (head + 2); }
};

struct Tiles {
  int64_t rows, keys, warps, stages;
};

struct Combining {
  int64_t splits, pieces, piece;
};

int64_t elementBytes(const Call &call) {
  return tilery_dtype_size(static_cast<tilery_dtype>(call.tensor(Q).dtype));
}

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
  if (s.head > mostHead)
    call.fail("the head dimension of 'q' is " + std::to_string(s.head) + ", at most " +
              std::to_string(mostHead) + " is possible");
  if (s.keys > int64_t(1) << 30) // so that int32 holds where tiles end
    call.fail("'k' has " + std::to_string(s.keys) + " keys, at most 2^30 can be numbered");
  checkLengths(call, s.batch);
  return s;
}

// Where memory is copied ahead into that of an instance, keys and values on their way there hide
// the latency. Such products take 64 rows or more; what the padding computes is free, since the
// cache is what takes time. Where four warps have registers for it, 64 KiB ahead are best (H200,
// caches of 64 MiB and more): smaller tiles end sooner after the last keys have come.
static Tiles chooseTiles(const Call &call, const Shape &s) {
  constexpr int64_t shared = 192 << 10, ahead = 64 << 10;
  tilery_device_properties device = call.device();
  int64_t width = blockFor(s.head, 16, mostHead);
  int64_t size = elementBytes(call);
  if (size != 2 || device.shared_bytes < shared || width > 256)
    return {blockFor(s.rows(), hasWarps(device) ? 16 : 1, mostRows), blockFor(s.keys, 16, 64), 4,
            3};
  constexpr int64_t keys = 64;
  int64_t rows = blockFor(s.rows(), 64, mostRows);
  bool isSmall = width <= 128 && rows == 64;
  int64_t stages = (isSmall ? ahead : shared) / (keys * 2 * width * size);
  return {rows, keys, isSmall ? 4 : 8, std::clamp<int64_t>(stages, 2, 8)};
}

// The time of the busiest processor, in bytes that it reads meanwhile: each share of the keys has a
// beginning and an end, and the last instance of a pair waits for memory a few times and reads all
// partial results, from a cache. Figures of an H200, on which 32 KiB take a microsecond. More than
// `mostWorks` shares balance nothing any more.
static int64_t bestSplits(const Shape &s, int64_t tileKeys, int64_t size, int64_t processors) {
  constexpr double edge = 80 << 10, combining = 32 << 10, cached = 0.5;
  constexpr int64_t mostWorks = 512;
  int64_t tiles = std::max<int64_t>(1, ceilDiv(s.keys, tileKeys));
  int64_t most = std::min({tiles, mostSplits, ceilDiv(mostWorks, s.pairs())});
  double tileBytes = double(2 * tileKeys * s.head * size), partBytes = double(4 * s.floatsOfPart());
  int64_t best = 1;
  double least = std::numeric_limits<double>::max();
  for (int64_t splits = 1; splits <= most; ++splits) {
    double turns = double(ceilDiv(s.pairs() * splits, processors));
    double cost = turns * (double(ceilDiv(tiles, splits)) * tileBytes + edge);
    if (splits > 1)
      cost += combining + cached * double(splits + 1) * partBytes;
    if (cost < least)
      best = splits, least = cost;
  }
  return best;
}

static int64_t chooseSplits(const Call &call, const Shape &s, int64_t tileKeys) {
  int64_t wanted = call.options.integer("splits");
  if (wanted < 0)
    call.fail("option 'splits' is " + std::to_string(wanted) + ", needs 1 or more (0 chooses)");
  if (wanted > mostSplits)
    call.fail("option 'splits' is " + std::to_string(wanted) + ", at most " +
              std::to_string(mostSplits) + " can be combined");
  if (wanted > 1 && s.pairs() > mostCombined)
    call.fail("option 'splits' is " + std::to_string(wanted) + " for " + std::to_string(s.pairs()) +
              " sequences and heads of the cache, possible for " + std::to_string(mostCombined) +
              " at most");
  return wanted ? wanted : bestSplits(s, tileKeys, elementBytes(call), call.device().processors);
}

// What is combined at a time: pieces of rows, so many that the partial results of all splits stay
// in registers.
static Combining chooseCombining(const Shape &s, int64_t splits, int64_t blockD) {
  constexpr int64_t longest = 128, inRegisters = 16384;
  if (splits == 1)
    return {1, 1, blockD};
  int64_t block = blockFor(splits, 2, mostSplits), piece = std::min(blockD, longest);
  int64_t most = std::max<int64_t>(1, inRegisters / (block * piece));
  return {block, blockFor(s.rows() * (blockD / piece), 1, most), piece};
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
  int64_t blockD = blockFor(s.head, 16, mostHead);
  Combining combining = chooseCombining(s, splits, blockD);
  Partials partials;
  if (splits > 1)
    partials = partialsFor(call, s.pairs(), works * s.floatsOfPart(), TILERY_FP32);
  std::optional<Memory> lengths;
  if (call.has(Lengths))
    lengths = memory(call.tensor(Lengths));
  tilery_device_properties device = call.device();
  Launch how{.x = std::min<int64_t>(works, device.processors),
             .options = launchOptions(device, tiles.warps, tiles.stages)};
  kernel("decode", "decode")
      .launchOn(call.worldOrNull(), how, memory(q), memory(k), memory(v), lengths, memory(out),
                partials.values, partials.arrived, works, splits, s.kvHeads, s.keys, s.head, scale,
                stride(q, 0), stride(q, 1), tokenStride(q), stride(k, 0), stride(k, 1),
                stride(k, 2), stride(v, 0), stride(v, 1), stride(v, 2), stride(out, 0),
                stride(out, 1), tokenStride(out), s.heads / s.kvHeads, s.tokens,
                call.options.flag("causal") && s.tokens > 1, tiles.rows, tiles.keys, blockD,
                combining.splits, combining.pieces, combining.piece);
}

const Op &decodeOp() {
  static const Op op{"decode",
                     "attention of a few new tokens over a cache of keys and values",
                     {"q", "k", "v", "out", "lengths?"},
                     {{"causal", "false"}, {"scale", "null"}, {"splits", "0"}},
                     run};
  return op;
}

} // namespace tilery::ops
