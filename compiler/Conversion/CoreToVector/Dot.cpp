// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// core.dot: chooses the types and register block of a product, and where its accumulator
// lives. An accumulator that nobody else reads is updated in place.
#include "compiler/Conversion/CoreToVector/Dot.h"

namespace tilery::vec {

static RankedTensorType tileType(Value value) { return cast<RankedTensorType>(value.getType()); }

static bool isSmallFloat(Type type) {
  return isa<FloatType>(type) && type.getIntOrFloatBitWidth() < 32;
}

static DotPlan planFor(core::DotOp op, const CoreToVectorOptions &options) {
  ArrayRef<int64_t> a = tileType(op.getLhs()).getShape(), b = tileType(op.getRhs()).getShape();
  DotPlan plan{};
  plan.batch = a.size() == 3 ? a[0] : 1;
  plan.m = a[a.size() - 2];
  plan.k = a.back();
  plan.n = b.back();
  Type element = tileType(op.getLhs()).getElementType();
  Type result = tileType(op.getResult()).getElementType();
  plan.accumulator = isSmallFloat(result) ? Type(Float32Type::get(op.getContext())) : result;
  plan.operand = plan.accumulator;
  int64_t full = options.vectorBits / plan.accumulator.getIntOrFloatBitWidth();
  plan.lanes = plan.n == 1 ? 0 : std::min(plan.n, full);
  plan.bf16Pairs = options.hasBf16Dot && element.isBF16() && plan.accumulator.isF32() &&
                   plan.k >= 2 && plan.lanes == 16;
  if (plan.bf16Pairs)
    plan.operand = element;
  // 16 accumulators with 32 vector registers, 8 with 16; few rows leave room for columns.
  int64_t registers = options.vectorBits == 512 ? 16 : 8;
  int64_t columns = plan.n / std::max<int64_t>(plan.lanes, 1);
  plan.vectors = std::min(columns, registers / 4);
  plan.rows = std::min(plan.m, registers / plan.vectors);
  plan.vectors = std::min({columns, registers / plan.rows, int64_t(8)});
  return plan;
}

//===-- The accumulator -------------------------------------------------------------------===//

static bool isZero(Value tile) {
  if (auto splat = tile.getDefiningOp<core::SplatOp>())
    return matchPattern(splat.getSource(), m_AnyZeroFloat()) ||
           matchPattern(splat.getSource(), m_Zero());
  DenseElementsAttr constant;
  if (!matchPattern(tile, m_Constant(&constant)) || !constant.isSplat())
    return false;
  Attribute value = constant.getSplatValue<Attribute>();
  if (auto number = dyn_cast<FloatAttr>(value))
    return number.getValue().isZero();
  return cast<IntegerAttr>(value).getValue().isZero();
}

// The buffer in which the accumulator can be computed and updated: that of a stored tile
// which only the accumulator's expression reads, at the same position.
static Value reusableTile(Lowering &lowering, Value tile, Block *block, int depth = 0) {
  if (depth > 3 || !tile.hasOneUse() || tile.getParentBlock() != block)
    return {};
  if (lowering.isStored(tile))
    return tile;
  Operation *op = tile.getDefiningOp();
  if (!Lowering::isElementwise(op))
    return {};
  for (Value operand : op->getOperands())
    if (operand.getType() == tile.getType())
      if (Value found = reusableTile(lowering, operand, block, depth + 1))
        return found;
  return {};
}

static bool hasRows(const Buffer &buffer) {
  return buffer.strides.back() == 1 || buffer.shape.back() == 1;
}

static FailureOr<Buffer> prepareAccumulator(Lowering &lowering, core::DotOp op) {
  Value accumulator = op.getAccumulator();
  if (Value tile = reusableTile(lowering, accumulator, op->getBlock())) {
    Buffer buffer = lowering.bufferOf(tile);
    if (hasRows(buffer)) {
      if (tile != accumulator && failed(lowering.evaluateInto(accumulator, buffer, lowering.loc)))
        return failure();
      return buffer;
    }
  }
  Buffer buffer = lowering.allocate(tileType(op.getResult()), lowering.loc);
  if (failed(lowering.evaluateInto(accumulator, buffer, lowering.loc)))
    return failure();
  return buffer;
}

// Sums of half precision are kept in fp32 and rounded at the end.
static LogicalResult dotInHalf(Lowering &lowering, core::DotOp op, const DotPlan &plan,
                               const Buffer &a, const Buffer &b) {
  auto type = tileType(op.getResult());
  Location loc = lowering.loc;
  Buffer sums = lowering.allocateAs(type.getShape(), plan.accumulator, loc);
  Buffer result = lowering.allocate(type, loc);
  int dim = lowering.lastDim(type.getShape());
  int64_t lanes = dim < 0 ? 0 : lowering.lanesFor(type.getDimSize(dim));
  lowering.forEachChunk(loc, type.getShape(), dim, lanes, [&](Nest &nest, const Coords &coords) {
    Value value = lowering.evaluate(nest, op.getAccumulator(), coords);
    lowering.storeBuffer(nest, sums, coords, toF32(lowering.builder, loc, value));
  });
  emitDotKernel(lowering, plan, a, b, sums, /*overwrite=*/false);
  lowering.forEachChunk(loc, type.getShape(), dim, lanes, [&](Nest &nest, const Coords &coords) {
    Value value = lowering.loadBuffer(nest, sums, coords);
    lowering.storeBuffer(nest, result, coords,
                         fromF32(lowering.builder, loc, value, type.getElementType()));
  });
  lowering.setBuffer(op, result);
  return success();
}

LogicalResult Lowering::lowerDot(core::DotOp op) {
  DotPlan plan = planFor(op, options);
  Type element = tileType(op.getLhs()).getElementType();
  if (isa<FloatType>(element) != isa<FloatType>(plan.accumulator))
    return op.emitError("dot of ") << element << " into " << plan.accumulator
                                   << " is not supported";
  auto a = packLhs(*this, op, plan);
  auto b = packRhs(*this, op, plan);
  if (failed(a) || failed(b))
    return failure();
  if (plan.accumulator != tileType(op.getResult()).getElementType())
    return dotInHalf(*this, op, plan, *a, *b);
  if (isZero(op.getAccumulator())) {
    Buffer c = allocate(tileType(op.getResult()), loc);
    emitDotKernel(*this, plan, *a, *b, c, /*overwrite=*/true);
    setBuffer(op, c);
    return success();
  }
  auto c = prepareAccumulator(*this, op);
  if (failed(c))
    return failure();
  emitDotKernel(*this, plan, *a, *b, *c, /*overwrite=*/false);
  setBuffer(op, *c);
  return success();
}

//===-- Loads that a product packs itself ----------------------------------------------------===//

// The product that alone uses a value, perhaps through conversions, null otherwise.
static core::DotOp onlyDot(Value value) {
  while (value.hasOneUse()) {
    Operation *user = *value.getUsers().begin();
    if (auto dot = dyn_cast<core::DotOp>(user))
      return dot.getAccumulator() == value ? core::DotOp() : dot;
    if (!isa<arith::ExtFOp, arith::TruncFOp>(user))
      return {};
    value = user->getResult(0);
  }
  return {};
}

bool Lowering::isFusedLoad(core::LoadOp op) {
  core::DotOp dot = onlyDot(op.getResult());
  auto pointer = cast<core::PointerType>(getElementTypeOrSelf(op.getPointer().getType()));
  if (!dot || dot->getBlock() != op->getBlock() || op.getIsVolatile() || pointer.getRemote())
    return false;
  ArrayRef<int64_t> shape = tileType(op.getResult()).getShape();
  if (chooseLaneDim(op.getPointer(), shape) != lastDim(shape))
    return false; // stored the other way around, which the product can read
  for (Operation *next = op->getNextNode(); next != dot; next = next->getNextNode())
    if (next->getNumRegions() || !(isMemoryEffectFree(next) || isa<core::LoadOp>(next)))
      return false; // memory may change before the product reads it
  return true;
}

} // namespace tilery::vec
