// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// sort, topk and histogram, built from gather, select and sum.
#include "compiler/Frontend/Generator.h"

using namespace mlir;

namespace tilery::frontend {

static constexpr const char *language = "tilery.language";

static Value callNamed(Generator &gen, const char *name, std::vector<Value> arguments) {
  return gen.call(BuiltinValue{findBuiltin(language, name)}, std::move(arguments), {});
}

/// Positions along the last dimension, as a tile of `tile`'s rank.
static Tile lastPositions(Generator &gen, const Tile &tile, int64_t count) {
  Tile index = gen.rangeTile(0, count);
  for (size_t dim = 1; dim < tile.shape().size(); ++dim)
    index = gen.expandDims(index, 0);
  return index;
}

static Tile bitIsClear(Generator &gen, Tile index, int64_t bit) {
  Value masked = gen.binary(BinaryOp::And, index, Int{bit});
  return *gen.compare(CompareOp::EQ, masked, Int{0}).tile();
}

// One step of a bitonic network (Batcher 1968): each element meets the one whose position
// differs in `distance`; in runs of `run` the order alternates.
static Tile bitonicStep(Generator &gen, Tile x, Tile index, int64_t run, int64_t distance,
                        bool descending) {
  int64_t axis = int64_t(x.shape().size()) - 1;
  Tile partnerIndex = *gen.binary(BinaryOp::Xor, index, Int{distance}).tile();
  partnerIndex = gen.broadcastTo(partnerIndex, x.shape());
  Tile partner = *callNamed(gen, "gather", {x, partnerIndex, Int{axis}}).tile();
  Tile keepSmaller = gen.comparison(CompareOp::EQ, bitIsClear(gen, index, run),
                                    bitIsClear(gen, index, distance));
  if (descending)
    keepSmaller = *gen.unary(UnaryOp::Not, keepSmaller).tile();
  keepSmaller = gen.broadcastTo(keepSmaller, x.shape());
  // Equal and unordered (NaN) pairs stay where they are, so that nothing is lost.
  Tile smaller = gen.comparison(CompareOp::LT, partner, x);
  Tile larger = gen.comparison(CompareOp::GT, partner, x);
  Tile take = *gen.select(keepSmaller, smaller, larger).tile();
  return *gen.select(take, partner, x).tile();
}

static Tile sortLast(Generator &gen, Tile x, bool descending) {
  int64_t count = x.shape().back();
  Tile index = lastPositions(gen, x, count);
  for (int64_t run = 2; run <= count; run *= 2)
    for (int64_t distance = run / 2; distance >= 1; distance /= 2)
      x = bitonicStep(gen, x, index, run, distance, descending);
  return x;
}

static Tile sortable(Generator &gen, const Value &value, const Value &dim, const char *what) {
  Tile tile = gen.toTile(value);
  if (tile.isScalar() || !tile.element.isScalar())
    gen.fail(std::string(what) + " needs a tile of numbers, not " + tile.typeName());
  int64_t rank = int64_t(tile.shape().size());
  if (!dim.isNone() && gen.axisArgument(dim, rank, "the dim") != rank - 1)
    gen.fail(std::string(what) + " sorts along the last dimension only",
             "permute the tile first");
  return tile;
}

static Value sort(Generator &gen, Arguments &args) {
  Tile tile = sortable(gen, args[0], args[1], "tl.sort");
  return sortLast(gen, tile, gen.constantBool(args[2], "descending"));
}

static Value topk(Generator &gen, Arguments &args) {
  Tile tile = sortable(gen, args[0], args[2], "tl.topk");
  int64_t k = gen.constantInt(args[1], "k");
  if (k < 1 || k > tile.shape().back() || (k & (k - 1)) != 0)
    gen.fail("k of tl.topk must be a power of two up to the extent " +
             std::to_string(tile.shape().back()) + ", not " + std::to_string(k));
  Tile sorted = sortLast(gen, tile, true);
  SmallVector<int64_t> shape(tile.shape());
  shape.back() = k;
  Tile index = gen.broadcastTo(lastPositions(gen, tile, k), shape);
  return callNamed(gen, "gather", {sorted, index, Int{int64_t(shape.size()) - 1}});
}

static Value histogram(Generator &gen, Arguments &args) {
  Tile tile = gen.toTile(args[0]);
  if (tile.shape().size() != 1 || !tile.element.isScalar() || !isInt(tile.element.dtype))
    gen.fail("tl.histogram needs a one-dimensional tile of integers, not " + tile.typeName());
  std::vector<int64_t> bins = gen.shapeArgument(args[1], "num_bins");
  Value hit = gen.compare(CompareOp::EQ, gen.expandDims(tile, 1), gen.rangeTile(0, bins[0]));
  if (!args[2].isNone()) {
    Tile mask = gen.expandDims(gen.truth(args[2]), 1), inside = *hit.tile();
    gen.broadcastTogether(mask, inside);
    hit = gen.arithmetic(BinaryOp::And, mask, inside);
  }
  return callNamed(gen, "sum", {gen.cast(*hit.tile(), DType::Int32), Int{0}});
}

void addSortingBuiltins(BuiltinTable &table) {
  table.add(language, "sort", "x, dim=None, descending=False", sort, true);
  table.add(language, "topk", "x, k, dim=None", topk, true);
  table.add(language, "histogram", "input, num_bins, mask=None", histogram, true);
}

} // namespace tilery::frontend
