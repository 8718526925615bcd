// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Operands of a product: used where they lie when their layout allows, else copied.
#include "compiler/Conversion/CoreToVector/Dot.h"

namespace tilery::vec {

static Value convertTo(Lowering &lowering, Value value, Type element) {
  OpBuilder &b = lowering.builder;
  Type from = getElementTypeOrSelf(value.getType());
  if (from == element)
    return value;
  Type type = vectorOr(element, lanesOf(value));
  if (isHalf(from)) {
    value = toF32(b, lowering.loc, value);
    if (element.isF32())
      return value;
  }
  if (isa<FloatType>(element))
    return arith::ExtFOp::create(b, lowering.loc, type, value);
  return arith::ExtSIOp::create(b, lowering.loc, type, value);
}

// A stored tile, seen through transpositions; none for expressions.
static std::optional<Buffer> storedView(Lowering &lowering, Value tile) {
  if (lowering.isStored(tile))
    return lowering.bufferOf(tile);
  auto trans = tile.getDefiningOp<core::TransOp>();
  if (!trans)
    return std::nullopt;
  auto source = storedView(lowering, trans.getSource());
  if (!source)
    return std::nullopt;
  Buffer view = *source;
  for (auto [index, dim] : llvm::enumerate(trans.getOrder())) {
    view.shape[index] = source->shape[dim];
    view.strides[index] = source->strides[dim];
  }
  return view;
}

// Evaluates `tile` into a new row-major buffer of `element`.
static Buffer convertInto(Lowering &lowering, Value tile, Type element) {
  ArrayRef<int64_t> shape = core::shapeOf(tile.getType());
  Buffer buffer = lowering.allocateAs(shape, element, lowering.loc);
  int dim = lowering.lastDim(shape);
  lowering.forEachChunk(lowering.loc, shape, dim, dim < 0 ? 0 : lowering.lanesFor(shape[dim]),
                        [&](Nest &nest, const Coords &coords) {
                          Value value = lowering.evaluate(nest, tile, coords);
                          lowering.storeBuffer(nest, buffer, coords,
                                               convertTo(lowering, value, element));
                        });
  return buffer;
}

FailureOr<Buffer> packLhs(Lowering &lowering, core::DotOp op, const DotPlan &plan) {
  auto view = storedView(lowering, op.getLhs());
  bool pairsAdjacent = !plan.bf16Pairs || (view && view->strides.back() == 1);
  if (view && view->element == plan.operand && pairsAdjacent)
    return *view;
  return convertInto(lowering, op.getLhs(), plan.operand);
}

//===-- Transposition -----------------------------------------------------------------------===//

// lo: a0 b0 a1 b1 ...; hi: the same of the upper halves.
static Value interleave(OpBuilder &b, Location loc, Value first, Value second, bool high) {
  int64_t lanes = lanesOf(first);
  SmallVector<int64_t> mask;
  for (int64_t lane = 0; lane < lanes / 2; ++lane) {
    mask.push_back(lane + (high ? lanes / 2 : 0));
    mask.push_back(lane + (high ? lanes / 2 : 0) + lanes);
  }
  return vector::ShuffleOp::create(b, loc, first, second, mask);
}

void transposeBlocks(Lowering &lowering, const Buffer &from, const Buffer &to, int64_t lanes) {
  OpBuilder &b = lowering.builder;
  Location loc = lowering.loc;
  int64_t rank = int64_t(from.shape.size());
  Nest nest(b, loc, lanes);
  Coords block(rank);
  for (int64_t dim = 0; dim < rank; ++dim)
    block[dim] = nest.open(from.shape[dim], dim < rank - 2 ? 1 : lanes);
  auto offset = [&](const Coord &coord, int64_t step) -> Coord {
    if (!step)
      return coord;
    Value base = lowering.i64(step);
    return {coord.base ? lowering.addI(coord.base, base) : base, false, nest.depth()};
  };
  SmallVector<Value> vectors;
  for (int64_t column = 0; column < lanes; ++column) {
    Coords coords(block);
    coords[rank - 1] = offset(block[rank - 1], column);
    coords[rank - 2].lane = true;
    vectors.push_back(convertTo(lowering, lowering.loadBuffer(nest, from, coords), to.element));
  }
  // Each round interleaves the halves; after log2(lanes) of them columns have become rows.
  for (int64_t round = 1; round < lanes; round *= 2) {
    SmallVector<Value> next;
    for (int64_t pair = 0; pair < lanes / 2; ++pair)
      for (bool high : {false, true})
        next.push_back(interleave(b, loc, vectors[pair], vectors[pair + lanes / 2], high));
    vectors = next;
  }
  for (int64_t row = 0; row < lanes; ++row) {
    Coords coords(block);
    coords[rank - 2] = offset(block[rank - 2], row);
    coords[rank - 1].lane = true;
    lowering.storeBuffer(nest, to, coords, vectors[row]);
  }
  for (int64_t dim = 0; dim < rank; ++dim)
    nest.close();
}

//===-- The rhs --------------------------------------------------------------------------------===//

// Two rows of bf16 side by side: the lanes of one i32 vector.
static Value pairRows(OpBuilder &b, Location loc, Value first, Value second) {
  int64_t lanes = lanesOf(first);
  SmallVector<int64_t> mask;
  for (int64_t lane = 0; lane < lanes; ++lane) {
    mask.push_back(lane);
    mask.push_back(lane + lanes);
  }
  Value pairs = vector::ShuffleOp::create(b, loc, first, second, mask);
  return LLVM::BitcastOp::create(b, loc, VectorType::get({lanes}, b.getI32Type()), pairs);
}

static Buffer packPairs(Lowering &lowering, core::DotOp op, const DotPlan &plan) {
  Type i32 = lowering.builder.getI32Type();
  SmallVector<int64_t> shape(core::shapeOf(op.getRhs().getType()));
  size_t kDim = shape.size() - 2;
  shape[kDim] /= 2;
  Buffer packed = lowering.allocateAs(shape, i32, lowering.loc);
  auto view = storedView(lowering, op.getRhs());
  if (view && view->strides[kDim] == 1 && shape[kDim] >= plan.lanes) {
    // Neighbours in k are neighbours in memory: pairs are transposed as they are.
    Buffer pairs = *view;
    pairs.element = i32;
    pairs.shape = packed.shape;
    for (auto [dim, stride] : llvm::enumerate(pairs.strides))
      if (dim != kDim)
        stride /= 2;
    transposeBlocks(lowering, pairs, packed, plan.lanes);
    return packed;
  }
  lowering.forEachChunk(
      lowering.loc, shape, int(shape.size()) - 1, plan.lanes,
      [&](Nest &nest, const Coords &coords) {
        Value rows[2];
        for (int64_t row = 0; row < 2; ++row) {
          Coords position(coords);
          Coord &k = position[kDim];
          Value base = k.base ? lowering.mulI(k.base, lowering.i64(2)) : lowering.i64(0);
          k = {lowering.addI(base, lowering.i64(row)), false, nest.depth()};
          rows[row] = lowering.splat(lowering.builder, nest.loc,
                                     lowering.evaluate(nest, op.getRhs(), position), plan.lanes);
        }
        lowering.storeBuffer(nest, packed, coords,
                             pairRows(lowering.builder, nest.loc, rows[0], rows[1]));
      });
  return packed;
}

FailureOr<Buffer> packRhs(Lowering &lowering, core::DotOp op, const DotPlan &plan) {
  if (plan.bf16Pairs)
    return packPairs(lowering, op, plan);
  auto view = storedView(lowering, op.getRhs());
  if (view && view->element == plan.operand && (view->strides.back() == 1 || plan.n == 1))
    return *view;
  size_t kDim = core::shapeOf(op.getRhs().getType()).size() - 2;
  int64_t lanes = std::min({plan.lanes, plan.k, plan.n});
  if (view && view->strides[kDim] == 1 && lanes >= 4) {
    Buffer packed = lowering.allocateAs(view->shape, plan.operand, lowering.loc);
    transposeBlocks(lowering, *view, packed, lanes);
    return packed;
  }
  return convertInto(lowering, op.getRhs(), plan.operand);
}

} // namespace tilery::vec
