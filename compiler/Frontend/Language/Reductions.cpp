// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Reductions and scans; the combine function becomes the region of core.reduce or core.scan.
#include "compiler/Frontend/Generator.h"

using namespace mlir;

namespace tilery::frontend {

static constexpr const char *language = "tilery.language";

using Combine = std::function<std::vector<Tile>(Generator &, std::vector<Tile>)>;

// Fills `region` with `combine` on scalars of the sources' types.
static void fillRegion(Generator &gen, Region &region, const std::vector<Tile> &sources,
                       const Combine &combine) {
  OpBuilder::InsertionGuard guard(gen.builder);
  std::vector<Type> types;
  for (int side : {0, 1}) {
    (void)side;
    for (const Tile &source : sources)
      types.push_back(gen.typeOf(source.element));
  }
  std::vector<Location> locations(types.size(), gen.loc());
  mlir::Block *block = gen.builder.createBlock(&region, {}, types, locations);
  std::vector<Tile> arguments;
  for (size_t i = 0; i < types.size(); ++i)
    arguments.push_back({block->getArgument(unsigned(i)), sources[i % sources.size()].element});
  std::vector<Tile> combined = combine(gen, arguments);
  SmallVector<mlir::Value> values;
  for (size_t i = 0; i < sources.size(); ++i) {
    if (!combined[i].isScalar() || combined[i].element != sources[i].element)
      gen.fail("the combine function must give " + sources[i].element.str() + ", not " +
               combined[i].typeName());
    values.push_back(combined[i].value);
  }
  core::YieldOp::create(gen.builder, gen.loc(), values);
}

static std::vector<Tile> reduceTiles(Generator &gen, std::vector<Tile> sources, const Value &axisValue,
                                     bool keepDims, const Combine &combine) {
  if (sources[0].isScalar())
    gen.fail("a scalar has no axis to reduce");
  int64_t rank = int64_t(sources[0].shape().size());
  std::vector<int64_t> original(sources[0].shape());
  int64_t axis = 0;
  if (axisValue.isNone()) {
    for (Tile &source : sources)
      source = gen.reshape(source, {mlir::cast<RankedTensorType>(source.value.getType()).getNumElements()});
  } else {
    axis = gen.axisArgument(axisValue, rank, "the axis");
  }
  SmallVector<int64_t> shape(sources[0].shape());
  shape.erase(shape.begin() + axis);
  SmallVector<mlir::Value> operands;
  SmallVector<Type> types;
  for (const Tile &source : sources) {
    operands.push_back(source.value);
    types.push_back(gen.typeOf(source.element, shape));
  }
  auto op = core::ReduceOp::create(gen.builder, gen.loc(), types, operands, uint32_t(axis));
  fillRegion(gen, op.getCombine(), sources, combine);
  std::vector<Tile> results;
  for (auto [result, source] : llvm::zip(op.getResults(), sources)) {
    Tile tile{result, source.element};
    if (keepDims) {
      SmallVector<int64_t> kept(original.begin(), original.end());
      for (size_t dim = 0; dim < kept.size(); ++dim)
        if (axisValue.isNone() || int64_t(dim) == axis)
          kept[dim] = 1;
      tile = tile.isScalar() ? gen.splat(tile, kept) : gen.reshape(tile, kept);
    }
    results.push_back(tile);
  }
  return results;
}

static std::vector<Tile> tilesOf(Generator &gen, const Value &value) {
  std::vector<Tile> tiles;
  std::vector<Value> parts = value.tuple() ? value.tuple()->elements : std::vector<Value>{value};
  for (const Value &part : parts)
    tiles.push_back(gen.toTile(part));
  for (size_t i = 1; i < tiles.size(); ++i)
    if (tiles[i].shape() != tiles[0].shape())
      gen.fail("tiles that are combined together must have one shape");
  return tiles;
}

static Combine userCombine(const Value &function) {
  return [function](Generator &gen, std::vector<Tile> arguments) {
    std::vector<Value> values(arguments.begin(), arguments.end());
    return tilesOf(gen, gen.apply(function, values));
  };
}

static Value packed(const Value &like, const std::vector<Tile> &tiles) {
  if (!like.tuple())
    return tiles[0];
  return makeTuple(std::vector<Value>(tiles.begin(), tiles.end()));
}

static Combine pairwise(std::function<Tile(Generator &, Tile, Tile)> function) {
  return [function](Generator &gen, std::vector<Tile> a) {
    return std::vector<Tile>{function(gen, a[0], a[1])};
  };
}

static Combine arithmeticCombine(BinaryOp op) {
  return pairwise([op](Generator &gen, Tile a, Tile b) { return gen.arithmetic(op, a, b); });
}

static Combine extremumCombine(bool wantMax) {
  return pairwise([wantMax](Generator &gen, Tile a, Tile b) {
    return wantMax ? gen.maximum(a, b, false) : gen.minimum(a, b, false);
  });
}

// Sums of small integers widen to 32 bits.
static DType sumType(DType type) {
  if (isFloat(type) || bitWidth(type) >= 32)
    return type;
  return isUnsignedInt(type) ? DType::UInt32 : DType::Int32;
}

// Half precision accumulates in fp32 and rounds once.
static Tile widened(Generator &gen, Tile tile) {
  bool half = isFloat(tile.element.dtype) && bitWidth(tile.element.dtype) < 32;
  return half ? gen.cast(tile, DType::FP32) : tile;
}

static Value sum(Generator &gen, Arguments &args) {
  Tile tile = gen.toTile(args[0]);
  DType type = args[3].isNone() ? sumType(tile.element.dtype) : gen.dtypeOf(args[3], "the dtype");
  tile = widened(gen, gen.cast(tile, type));
  std::vector<Tile> result = reduceTiles(gen, {tile}, args[1], gen.constantBool(args[2], "keep_dims"),
                                         arithmeticCombine(BinaryOp::Add));
  return gen.cast(result[0], type);
}

// (value, index): the better value, and any number before a NaN, as in max and min; among equal ones
// the first, or the last. The order in which pairs meet does not matter.
static Combine argumentCombine(bool wantMax, bool tieLeft) {
  return [=](Generator &gen, std::vector<Tile> a) {
    auto either = [&](Tile x, Tile y) { return gen.arithmetic(BinaryOp::Or, x, y); };
    auto both = [&](Tile x, Tile y) { return gen.arithmetic(BinaryOp::And, x, y); };
    Tile better = gen.comparison(wantMax ? CompareOp::GT : CompareOp::LT, a[0], a[2]);
    Tile equal = gen.comparison(CompareOp::EQ, a[0], a[2]);
    if (isFloat(a[0].element.dtype)) {
      Tile isNaN = gen.comparison(CompareOp::NE, a[0], a[0]);
      Tile otherIsNaN = gen.comparison(CompareOp::NE, a[2], a[2]);
      Tile isNumber = gen.comparison(CompareOp::EQ, a[0], a[0]);
      better = either(better, both(isNumber, otherIsNaN));
      equal = either(equal, both(isNaN, otherIsNaN));
    }
    Tile preferred = gen.comparison(tieLeft ? CompareOp::LT : CompareOp::GT, a[1], a[3]);
    better = either(better, both(equal, preferred));
    return std::vector<Tile>{*gen.select(better, a[0], a[2]).tile(),
                             *gen.select(better, a[1], a[3]).tile()};
  };
}

static std::vector<Tile> withIndex(Generator &gen, Tile tile, const Value &axisValue, bool keepDims,
                                   bool wantMax, bool tieLeft) {
  Value axis = axisValue;
  if (axis.isNone()) {
    tile = gen.reshape(tile, {mlir::cast<RankedTensorType>(tile.value.getType()).getNumElements()});
    axis = Int{0};
  }
  int64_t rank = int64_t(tile.shape().size()), dim = gen.axisArgument(axis, rank, "the axis");
  Tile index = gen.rangeTile(0, tile.shape()[dim]);
  for (int64_t other = 0; other < rank; ++other)
    if (other != dim)
      index = gen.expandDims(index, other);
  index = gen.broadcastTo(index, tile.shape());
  return reduceTiles(gen, {tile, index}, axis, keepDims, argumentCombine(wantMax, tieLeft));
}

// Triton's types: bf16 is compared in fp32; without indices so is every small float, and small
// integers in int32.
static Tile comparable(Generator &gen, Tile tile, bool indices) {
  DType type = tile.element.dtype;
  if (type == DType::BF16)
    return gen.cast(tile, DType::FP32);
  if (indices || bitWidth(type) >= 32)
    return tile;
  return gen.cast(tile, isFloat(type) ? DType::FP32 : DType::Int32);
}

static Value extremum(Generator &gen, Arguments &args, bool wantMax) {
  bool indices = gen.constantBool(args[2], "return_indices");
  Tile tile = comparable(gen, gen.toTile(args[0]), indices);
  bool keepDims = gen.constantBool(args[4], "keep_dims");
  if (indices) {
    std::vector<Tile> both = withIndex(gen, tile, args[1], keepDims, wantMax,
                                       gen.constantBool(args[3], "return_indices_tie_break_left"));
    return makeTuple({both[0], both[1]});
  }
  return reduceTiles(gen, {tile}, args[1], keepDims, extremumCombine(wantMax))[0];
}

static Value argument(Generator &gen, Arguments &args, bool wantMax) {
  Tile tile = comparable(gen, gen.toTile(args[0]), true);
  return withIndex(gen, tile, args[1], gen.constantBool(args[3], "keep_dims"), wantMax,
                   gen.constantBool(args[2], "tie_break_left"))[1];
}

static std::vector<Tile> scanTiles(Generator &gen, std::vector<Tile> sources, const Value &axisValue,
                                   bool reverse, const Combine &combine) {
  if (sources[0].isScalar())
    gen.fail("a scalar has no axis to scan");
  int64_t axis = gen.axisArgument(axisValue, int64_t(sources[0].shape().size()), "the axis");
  SmallVector<mlir::Value> operands;
  SmallVector<Type> types;
  for (const Tile &source : sources) {
    operands.push_back(source.value);
    types.push_back(source.value.getType());
  }
  auto op = core::ScanOp::create(gen.builder, gen.loc(), types, operands, uint32_t(axis), reverse);
  fillRegion(gen, op.getCombine(), sources, combine);
  std::vector<Tile> results;
  for (auto [result, source] : llvm::zip(op.getResults(), sources))
    results.push_back({result, source.element});
  return results;
}

// bf16 gives fp32, as in Triton.
static Value cumulative(Generator &gen, Arguments &args, BinaryOp op, DType type) {
  Tile tile = widened(gen, gen.cast(gen.toTile(args[0]), type));
  std::vector<Tile> result = scanTiles(gen, {tile}, args[1], gen.constantBool(args[2], "reverse"),
                                       arithmeticCombine(op));
  return gen.cast(result[0], type);
}

static DType scanType(DType type) { return type == DType::BF16 ? DType::FP32 : type; }

static Value cumsum(Generator &gen, Arguments &args) {
  DType type = gen.toTile(args[0]).element.dtype;
  type = args[3].isNone() ? sumType(scanType(type)) : gen.dtypeOf(args[3], "the dtype");
  return cumulative(gen, args, BinaryOp::Add, type);
}

static Value cumprod(Generator &gen, Arguments &args) {
  return cumulative(gen, args, BinaryOp::Mul, scanType(gen.toTile(args[0]).element.dtype));
}

// exp(x - max(x)) / sum(exp(x - max(x))), in fp32.
static Value softmax(Generator &gen, Arguments &args) {
  Tile tile = gen.cast(gen.toTile(args[0]), gen.toTile(args[0]).element.dtype == DType::FP64
                                                ? DType::FP64 : DType::FP32);
  int64_t rank = int64_t(tile.shape().size());
  Value axis = args[1].isNone() ? Value(Int{0}) : args[1];
  gen.axisArgument(axis, rank, "the dim of tl.softmax");
  Tile top = reduceTiles(gen, {tile}, axis, true, extremumCombine(true))[0];
  Value shifted = gen.binary(BinaryOp::Sub, tile, top);
  Value powers = gen.call(BuiltinValue{findBuiltin(language, "exp")}, {shifted}, {});
  Tile total = reduceTiles(gen, {*powers.tile()}, axis, true, arithmeticCombine(BinaryOp::Add))[0];
  Tile result = *gen.binary(BinaryOp::Div, powers, total).tile();
  return result;
}

void addReductionBuiltins(BuiltinTable &table) {
  table.add(language, "reduce", "input, axis, combine_fn, keep_dims=False",
            [](Generator &gen, Arguments &args) {
              return packed(args[0], reduceTiles(gen, tilesOf(gen, args[0]), args[1],
                                                 gen.constantBool(args[3], "keep_dims"),
                                                 userCombine(args[2])));
            }, true);
  table.add(language, "associative_scan", "input, axis, combine_fn, reverse=False",
            [](Generator &gen, Arguments &args) {
              return packed(args[0], scanTiles(gen, tilesOf(gen, args[0]), args[1],
                                               gen.constantBool(args[3], "reverse"),
                                               userCombine(args[2])));
            }, true);
  table.add(language, "sum", "input, axis=None, keep_dims=False, dtype=None", sum, true);
  const char *extremumSignature = "input, axis=None, return_indices=False, "
                                  "return_indices_tie_break_left=True, keep_dims=False";
  table.add(language, "max", extremumSignature,
            [](Generator &gen, Arguments &args) { return extremum(gen, args, true); }, true);
  table.add(language, "min", extremumSignature,
            [](Generator &gen, Arguments &args) { return extremum(gen, args, false); }, true);
  table.add(language, "argmax", "input, axis, tie_break_left=True, keep_dims=False",
            [](Generator &gen, Arguments &args) { return argument(gen, args, true); }, true);
  table.add(language, "argmin", "input, axis, tie_break_left=True, keep_dims=False",
            [](Generator &gen, Arguments &args) { return argument(gen, args, false); }, true);
  table.add(language, "xor_sum", "input, axis=None, keep_dims=False",
            [](Generator &gen, Arguments &args) -> Value {
              Tile tile = gen.toTile(args[0]);
              if (isFloat(tile.element.dtype))
                gen.fail("tl.xor_sum needs integers, not " + tile.typeName());
              return reduceTiles(gen, {tile}, args[1], gen.constantBool(args[2], "keep_dims"),
                                 arithmeticCombine(BinaryOp::Xor))[0];
            }, true);
  table.add(language, "cumsum", "input, axis=0, reverse=False, dtype=None", cumsum, true);
  table.add(language, "cumprod", "input, axis=0, reverse=False", cumprod, true);
  table.add(language, "softmax", "x, dim=None, keep_dims=False, ieee_rounding=False", softmax, true);
}

} // namespace tilery::frontend
