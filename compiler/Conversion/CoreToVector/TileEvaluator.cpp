// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Evaluates lazy tiles at coordinates, and tells how their values change along lanes.
#include "compiler/Conversion/CoreToVector/Lowering.h"

namespace tilery::vec {

using core::shapeOf;

static unsigned levelOf(const Coords &coords) {
  unsigned level = 0;
  for (const Coord &coord : coords)
    level = std::max(level, coord.level);
  return level;
}

static bool hasLane(const Coords &coords) {
  return llvm::any_of(coords, [](const Coord &coord) { return coord.lane; });
}

static Nest::Key keyOf(uintptr_t kind, Value tile, const Coords &coords) {
  Nest::Key key{reinterpret_cast<const void *>(kind), tile.getAsOpaquePointer()};
  for (const Coord &coord : coords) {
    key.push_back(coord.base.getAsOpaquePointer());
    key.push_back(reinterpret_cast<const void *>(uintptr_t(coord.lane)));
  }
  return key;
}

// A reshape that only inserts or drops extents of 1 keeps the other coordinates.
static std::optional<Coords> reshapeCoords(core::ReshapeOp op, const Coords &coords) {
  ArrayRef<int64_t> from = shapeOf(op.getSource().getType()), to = shapeOf(op.getType());
  Coords kept, result;
  SmallVector<int64_t> keptExtents, extents;
  for (auto [extent, coord] : llvm::zip(to, coords))
    if (extent != 1) {
      kept.push_back(coord);
      keptExtents.push_back(extent);
    }
  size_t next = 0;
  for (int64_t extent : from) {
    if (extent != 1)
      extents.push_back(extent);
    result.push_back(extent == 1 || next >= kept.size() ? Coord() : kept[next++]);
  }
  if (extents != keptExtents)
    return std::nullopt;
  return result;
}

std::optional<Coords> Lowering::sourceCoords(Operation *op, const Coords &coords) {
  Coords result(coords);
  if (auto broadcast = dyn_cast<core::BroadcastOp>(op)) {
    for (auto [extent, coord] : llvm::zip(shapeOf(broadcast.getSource().getType()), result))
      if (extent == 1)
        coord = Coord();
    return result;
  }
  if (auto expand = dyn_cast<core::ExpandDimsOp>(op)) {
    result.erase(result.begin() + expand.getAxis());
    return result;
  }
  if (auto trans = dyn_cast<core::TransOp>(op)) {
    for (auto [index, dim] : llvm::enumerate(trans.getOrder()))
      result[dim] = coords[index];
    return result;
  }
  if (auto reshape = dyn_cast<core::ReshapeOp>(op))
    return reshapeCoords(reshape, coords);
  return std::nullopt;
}

//===-- Evaluation ------------------------------------------------------------------------===//

Value Lowering::splat(OpBuilder &b, Location at, Value value, int64_t lanes) {
  if (!lanes || lanesOf(value))
    return value;
  if (isa<LLVM::LLVMPointerType>(value.getType()))
    value = LLVM::PtrToIntOp::create(b, at, b.getI64Type(), value);
  return vector::BroadcastOp::create(b, at, VectorType::get({lanes}, value.getType()), value);
}

// start + base + 0, 1, ..., as i32 or i64.
static Value emitRange(Nest &nest, int64_t start, const Coord &coord, Type type) {
  OpBuilder &b = nest.builder;
  Value first;
  if (coord.base) {
    first = coord.base;
    if (!type.isInteger(64))
      first = arith::TruncIOp::create(b, nest.loc, type, first);
  }
  if (start || !first) {
    Value constant = arith::ConstantOp::create(b, nest.loc, b.getIntegerAttr(type, start));
    first = first ? arith::AddIOp::create(b, nest.loc, first, constant).getResult() : constant;
  }
  if (!coord.lane)
    return first;
  SmallVector<Attribute> steps;
  for (int64_t lane = 0; lane < nest.lanes; ++lane)
    steps.push_back(b.getIntegerAttr(type, lane));
  auto vectorType = VectorType::get({nest.lanes}, type);
  Value lanes =
      arith::ConstantOp::create(b, nest.loc, DenseElementsAttr::get(vectorType, steps));
  Value wide = vector::BroadcastOp::create(b, nest.loc, vectorType, first);
  return arith::AddIOp::create(b, nest.loc, wide, lanes);
}

// A pointer that a stored tile or an integer gave, in the form evaluate() promises.
static Value asAddress(OpBuilder &b, Location loc, Value value, Type ptrType) {
  if (lanesOf(value) || isa<LLVM::LLVMPointerType>(value.getType()))
    return value;
  return LLVM::IntToPtrOp::create(b, loc, ptrType, value);
}

Value Lowering::evaluate(Nest &nest, Value tile, const Coords &coords) {
  Nest::Key key = keyOf(0, tile, coords);
  if (auto found = nest.memo.find(key); found != nest.memo.end())
    return found->second;
  OpBuilder::InsertionGuard guard(builder);
  nest.moveTo(levelOf(coords));
  Value value = evaluateHere(nest, tile, coords);
  nest.memo[key] = value;
  return value;
}

Value Lowering::evaluateHere(Nest &nest, Value tile, const Coords &coords) {
  if (!isa<RankedTensorType>(tile.getType()))
    return scalar(tile);
  if (isStored(tile))
    return loadBuffer(nest, bufferOf(tile), coords);
  Operation *op = tile.getDefiningOp();
  Location at = nest.loc;
  DenseElementsAttr constant;
  if (matchPattern(tile, m_Constant(&constant)) && constant.isSplat())
    return arith::ConstantOp::create(builder, at,
                                     cast<TypedAttr>(constant.getSplatValue<Attribute>()));
  if (auto source = sourceCoords(op, coords))
    return evaluate(nest, op->getOperand(0), *source);
  if (auto splatOp = dyn_cast<core::SplatOp>(op))
    return scalar(splatOp.getSource());
  if (auto range = dyn_cast<core::RangeOp>(op))
    return emitRange(nest, int32_t(range.getStart()), coords[0], builder.getI32Type());
  if (isa<core::HintOp, core::PtrCastOp, device::LocalOp>(op))
    return evaluate(nest, op->getOperand(0), coords);
  if (auto advance = dyn_cast<core::AddPtrOp>(op))
    return evaluateAddPtr(nest, advance, coords);
  if (auto cast = dyn_cast<core::PtrToIntOp>(op)) {
    Value value = evaluate(nest, cast.getSource(), coords);
    return lanesOf(value) ? value
                          : LLVM::PtrToIntOp::create(builder, at, builder.getI64Type(), value);
  }
  if (auto cast = dyn_cast<core::IntToPtrOp>(op))
    return asAddress(builder, at, evaluate(nest, cast.getSource(), coords), ptrType);
  if (auto load = dyn_cast<core::LoadOp>(op))
    return emitLoad(nest, load, coords);
  SmallVector<Value> operands;
  for (Value operand : op->getOperands())
    operands.push_back(evaluate(nest, operand, coords));
  return emitElementwise(builder, op, operands)[cast<OpResult>(tile).getResultNumber()];
}

Value Lowering::evaluateAddPtr(Nest &nest, core::AddPtrOp op, const Coords &coords) {
  int64_t size = pointeeBytes(getElementTypeOrSelf(op.getType()));
  Value base = evaluate(nest, op.getPointer(), coords);
  Value offset = evaluateWide(nest, op.getOffset(), coords);
  if (!lanesOf(base) && !lanesOf(offset))
    return ptrAt(base, mulI(offset, i64(size)));
  int64_t lanes = nest.lanes;
  Value scaled = mulI(offset, splat(builder, nest.loc, i64(size), lanesOf(offset)));
  return addI(splat(builder, nest.loc, base, lanes), splat(builder, nest.loc, scaled, lanes));
}

//===-- Wide integers ----------------------------------------------------------------------===//

static Value extend(OpBuilder &b, Location loc, Value value, Extend mode) {
  Type element = getElementTypeOrSelf(value.getType());
  if (element.isIndex())
    return arith::IndexCastOp::create(b, loc, b.getI64Type(), value);
  if (element.isInteger(64))
    return value;
  Type wide = vectorOr(b.getI64Type(), lanesOf(value));
  if (mode == Extend::Zero || element.isInteger(1))
    return arith::ExtUIOp::create(b, loc, wide, value);
  return arith::ExtSIOp::create(b, loc, wide, value);
}

// Whether the operation gives the same number when its operands are widened first.
static bool widens(Operation *op, Extend mode) {
  if (isa_and_nonnull<arith::AddIOp, arith::MulIOp>(op))
    return true;
  return mode == Extend::Sign && isa_and_nonnull<arith::SubIOp>(op);
}

static Value emitWide(OpBuilder &b, Location loc, Operation *op, Value lhs, Value rhs) {
  if (isa<arith::AddIOp>(op))
    return b.createOrFold<arith::AddIOp>(loc, lhs, rhs);
  if (isa<arith::SubIOp>(op))
    return b.createOrFold<arith::SubIOp>(loc, lhs, rhs);
  return b.createOrFold<arith::MulIOp>(loc, lhs, rhs);
}

// The mode for the operand of an extension, none when it must be evaluated as it is.
static std::optional<Extend> throughExtension(Operation *op, Extend mode) {
  if (isa_and_nonnull<arith::ExtSIOp>(op) && mode == Extend::Sign)
    return Extend::Sign;
  if (isa_and_nonnull<arith::ExtUIOp>(op))
    return Extend::Zero;
  return std::nullopt;
}

Value Lowering::wideScalar(Value old, Extend mode) {
  Operation *op = old.getDefiningOp();
  if (auto inner = throughExtension(op, mode))
    return wideScalar(op->getOperand(0), *inner);
  if (isa_and_nonnull<core::HintOp>(op))
    return wideScalar(op->getOperand(0), mode);
  if (widens(op, mode))
    return emitWide(builder, loc, op, wideScalar(op->getOperand(0), mode),
                    wideScalar(op->getOperand(1), mode));
  return extend(builder, loc, scalar(old), mode);
}

Value Lowering::evaluateWide(Nest &nest, Value tile, const Coords &coords, Extend mode) {
  Nest::Key key = keyOf(mode == Extend::Sign ? 1 : 2, tile, coords);
  if (auto found = nest.memo.find(key); found != nest.memo.end())
    return found->second;
  OpBuilder::InsertionGuard guard(builder);
  nest.moveTo(levelOf(coords));
  Value value = evaluateWideHere(nest, tile, coords, mode);
  nest.memo[key] = value;
  return value;
}

Value Lowering::evaluateWideHere(Nest &nest, Value tile, const Coords &coords, Extend mode) {
  if (!isa<RankedTensorType>(tile.getType()))
    return wideScalar(tile, mode);
  Operation *op = isStored(tile) ? nullptr : tile.getDefiningOp();
  if (auto splatOp = dyn_cast_or_null<core::SplatOp>(op))
    return wideScalar(splatOp.getSource(), mode);
  if (auto range = dyn_cast_or_null<core::RangeOp>(op))
    return emitRange(nest, int32_t(range.getStart()), coords[0], builder.getI64Type());
  if (op)
    if (auto source = sourceCoords(op, coords))
      return evaluateWide(nest, op->getOperand(0), *source, mode);
  if (isa_and_nonnull<core::HintOp>(op))
    return evaluateWide(nest, op->getOperand(0), coords, mode);
  if (auto inner = throughExtension(op, mode))
    return evaluateWide(nest, op->getOperand(0), coords, *inner);
  if (widens(op, mode)) {
    Value lhs = evaluateWide(nest, op->getOperand(0), coords, mode);
    Value rhs = evaluateWide(nest, op->getOperand(1), coords, mode);
    int64_t lanes = std::max(lanesOf(lhs), lanesOf(rhs));
    return emitWide(builder, nest.loc, op, splat(builder, nest.loc, lhs, lanes),
                    splat(builder, nest.loc, rhs, lanes));
  }
  return extend(builder, nest.loc, evaluate(nest, tile, coords), mode);
}

//===-- Strides ------------------------------------------------------------------------------===//

static std::optional<int64_t> constantOf(Value value) {
  APInt integer;
  if (matchPattern(value, m_ConstantInt(&integer)))
    return integer.getSExtValue();
  Operation *op = value.getDefiningOp();
  if (isa_and_nonnull<core::SplatOp, core::BroadcastOp, core::ExpandDimsOp, arith::ExtSIOp,
                      core::HintOp>(op))
    return constantOf(op->getOperand(0));
  return std::nullopt;
}

std::optional<int64_t> Lowering::hintedStride(Nest &nest, core::HintOp hint,
                                              const Coords &coords) {
  auto lane = llvm::find_if(coords, [](const Coord &coord) { return coord.lane; });
  size_t dim = lane - coords.begin();
  Type type = getElementTypeOrSelf(hint.getType());
  auto promised = [&](ArrayRef<int32_t> runs) {
    return dim < runs.size() && runs[dim] >= nest.lanes;
  };
  if (promised(hint.getConstancy()))
    return 0;
  if (!promised(hint.getContiguity()))
    return std::nullopt;
  return core::isPointerLike(type) ? pointeeBytes(type) : 1;
}

std::optional<int64_t> Lowering::laneStride(Nest &nest, Value tile, const Coords &coords) {
  if (!isa<RankedTensorType>(tile.getType()) || !hasLane(coords))
    return 0;
  if (isStored(tile))
    return std::nullopt;
  Operation *op = tile.getDefiningOp();
  if (isa<arith::ConstantOp, core::SplatOp>(op))
    return 0;
  if (isa<core::RangeOp>(op))
    return 1;
  if (auto source = sourceCoords(op, coords))
    return laneStride(nest, op->getOperand(0), *source);
  auto operand = [&](unsigned index) { return laneStride(nest, op->getOperand(index), coords); };
  if (auto hint = dyn_cast<core::HintOp>(op)) {
    auto known = operand(0);
    return known ? known : hintedStride(nest, hint, coords);
  }
  if (isa<arith::ExtSIOp, arith::ExtUIOp, core::PtrCastOp, device::LocalOp, core::PtrToIntOp,
          core::IntToPtrOp>(op))
    return operand(0);
  if (op->getNumOperands() != 2)
    return std::nullopt;
  // Not both when one decides or they are one value: chains of index arithmetic would be looked at
  // exponentially often.
  auto lhs = operand(0);
  if (!lhs)
    return std::nullopt;
  auto rhs = op->getOperand(0) == op->getOperand(1) ? lhs : operand(1);
  if (!rhs)
    return std::nullopt;
  if (isa<arith::AddIOp>(op))
    return *lhs + *rhs;
  if (isa<arith::SubIOp>(op))
    return *lhs - *rhs;
  if (isa<core::AddPtrOp>(op))
    return *lhs + *rhs * pointeeBytes(getElementTypeOrSelf(tile.getType()));
  if (*lhs == 0 && *rhs == 0 && isElementwise(op))
    return 0;
  if (wraps && isa<arith::RemSIOp, arith::RemUIOp>(op) && *lhs == 1 && *rhs == 0) {
    wraps->push_back({tile, coords}); // 1, unless these lanes pass a multiple of the divisor
    return 1;
  }
  if (isa<arith::MulIOp>(op)) {
    auto factor = constantOf(op->getOperand(*lhs == 0 ? 0 : 1));
    if ((*lhs == 0 || *rhs == 0) && factor)
      return *factor * (*lhs + *rhs);
  }
  return std::nullopt;
}

} // namespace tilery::vec
