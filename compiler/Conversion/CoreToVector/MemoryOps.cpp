// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Loads and stores of tiles: one vector access where lanes are neighbours in memory, gather
// and scatter elsewhere. Memory is never touched where the mask is 0.
#include "compiler/Conversion/CoreToVector/Elementwise.h"

#include "llvm/Support/SaveAndRestore.h"

namespace tilery::vec {

using core::shapeOf;

static core::PointerType pointerOf(Value pointers) {
  return cast<core::PointerType>(getElementTypeOrSelf(pointers.getType()));
}

static Coords firstLane(Coords coords) {
  for (Coord &coord : coords)
    coord.lane = false;
  return coords;
}

static bool hasLane(const Coords &coords) {
  return llvm::any_of(coords, [](const Coord &coord) { return coord.lane; });
}

Value Lowering::evaluateFirstLane(Nest &nest, Value tile, const Coords &coords) {
  return evaluate(nest, tile, firstLane(coords));
}

int Lowering::chooseLaneDim(Value pointers, ArrayRef<int64_t> shape) {
  int64_t size = byteSize(pointerOf(pointers).getPointee());
  for (int dim = int(shape.size()) - 1; dim >= 0; --dim) {
    if (shape[dim] == 1)
      continue;
    Nest nest(builder, loc, lanesFor(shape[dim]));
    Coords coords(shape.size());
    coords[dim].lane = true;
    if (laneStride(nest, pointers, coords) == size)
      return dim;
  }
  return lastDim(shape);
}

//===-- Loads ------------------------------------------------------------------------------===//

namespace {
// One access, with its operands evaluated.
struct Access {
  Type stored; // the element in memory
  int64_t lanes;
  unsigned align;
  Value mask; // null when all lanes are active
  bool isVolatile;
};
} // namespace

static Value emitScalarLoad(OpBuilder &b, Location loc, const Access &access, Value address,
                            Value other) {
  auto load = [&](OpBuilder &inner) -> Value {
    return LLVM::LoadOp::create(inner, loc, access.stored, address, access.align,
                                access.isVolatile);
  };
  if (!access.mask)
    return load(b);
  auto branch = scf::IfOp::create(b, loc, TypeRange(access.stored), access.mask, true);
  OpBuilder then = branch.getThenBodyBuilder(), otherwise = branch.getElseBodyBuilder();
  scf::YieldOp::create(then, loc, load(then));
  scf::YieldOp::create(otherwise, loc, other);
  return branch.getResult(0);
}

Value Lowering::emitLoad(Nest &nest, core::LoadOp op, const Coords &coords) {
  core::PointerType pointer = pointerOf(op.getPointer());
  Type element = pointer.getPointee();
  int64_t lanes = hasLane(coords) ? nest.lanes : 0;
  Value mask, other;
  if (op.getMask() && !isConstantTrue(op.getMask())) {
    mask = evaluate(nest, op.getMask(), coords);
    other = op.getOther() ? toStored(evaluate(nest, op.getOther(), coords), element)
                          : constantLike(builder, nest.loc, storedType(element), 0);
    other = splat(builder, nest.loc, other, lanes);
  }
  Value value = pointer.getRemote() ? emitRemoteLoad(nest, op, coords, mask, other)
                                    : emitDirectLoad(nest, op, coords, mask, other);
  return fromStored(value, element);
}

Value Lowering::emitDirectLoad(Nest &nest, core::LoadOp op, const Coords &coords, Value mask,
                               Value other) {
  Type element = pointerOf(op.getPointer()).getPointee();
  Access access{storedType(element), hasLane(coords) ? nest.lanes : 0,
                unsigned(byteSize(element)), mask, op.getIsVolatile()};
  if (!access.lanes)
    return emitScalarLoad(builder, nest.loc, access, evaluate(nest, op.getPointer(), coords),
                          other);
  std::optional<int64_t> stride = laneStride(nest, op.getPointer(), coords);
  if (stride == access.align) {
    Value address = evaluateFirstLane(nest, op.getPointer(), coords);
    return emitVectorLoad(op, nest.lanes, address, mask, other);
  }
  bool oneElement = stride == 0 && (!mask || (!lanesOf(mask) && !op.getOther()));
  if (oneElement) {
    Value address = evaluateFirstLane(nest, op.getPointer(), coords);
    if (mask)
      other = constantLike(builder, nest.loc, access.stored, 0);
    return splat(builder, nest.loc, emitScalarLoad(builder, nest.loc, access, address, other),
                 access.lanes);
  }
  if (!stride)
    if (Value value = emitWrappedLoad(nest, op, coords, mask, other))
      return value;
  return emitGather(nest, op, coords, mask, other);
}

Value Lowering::emitVectorLoad(core::LoadOp op, int64_t lanes, Value address, Value mask,
                               Value other) {
  Type element = pointerOf(op.getPointer()).getPointee();
  Type type = vectorOr(storedType(element), lanes);
  unsigned align = unsigned(byteSize(element));
  if (!mask)
    return LLVM::LoadOp::create(builder, loc, type, address, align, op.getIsVolatile());
  return LLVM::MaskedLoadOp::create(builder, loc, type, address,
                                    splat(builder, loc, mask, lanes), other, align,
                                    /*nontemporal=*/false);
}

// `(start + range) % n`, which Triton kernels write instead of a mask, is consecutive except
// where it wraps: decided for each chunk at run time. Null when that is not the reason.
Value Lowering::emitWrappedLoad(Nest &nest, core::LoadOp op, const Coords &coords, Value mask,
                                Value other) {
  SmallVector<Wrap> found;
  int64_t size = byteSize(pointerOf(op.getPointer()).getPointee());
  if (laneStrideBetweenWraps(nest, op.getPointer(), coords, found) != size)
    return {};
  Value consecutive = areConsecutive(nest, found);
  Value address = evaluateFirstLane(nest, op.getPointer(), coords);
  Type type = vectorOr(storedType(pointerOf(op.getPointer()).getPointee()), nest.lanes);
  auto branch = scf::IfOp::create(builder, nest.loc, TypeRange(type), consecutive, true);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToEnd(branch.thenBlock());
  scf::YieldOp::create(builder, nest.loc,
                       emitVectorLoad(op, nest.lanes, address, mask, other));
  builder.setInsertionPointToEnd(branch.elseBlock());
  auto outside = nest.memo; // what the branch computes is known only in it
  scf::YieldOp::create(builder, nest.loc, emitGather(nest, op, coords, mask, other));
  nest.memo = std::move(outside);
  return branch.getResult(0);
}

std::optional<int64_t> Lowering::laneStrideBetweenWraps(Nest &nest, Value tile,
                                                        const Coords &coords,
                                                        SmallVectorImpl<Wrap> &found) {
  llvm::SaveAndRestore scope(wraps, &found);
  return laneStride(nest, tile, coords);
}

// The last lane is as far from the first as there are lanes between.
Value Lowering::areConsecutive(Nest &nest, ArrayRef<Wrap> found) {
  Value all;
  for (const Wrap &wrap : found) {
    Coords last = firstLane(wrap.coords);
    for (auto [coord, given] : llvm::zip(last, wrap.coords))
      if (given.lane) {
        Value distance = i64(nest.lanes - 1);
        coord.base = coord.base ? addI(coord.base, distance) : distance;
        coord.level = nest.depth();
      }
    Value from = evaluateWide(nest, wrap.tile, firstLane(wrap.coords));
    Value to = evaluateWide(nest, wrap.tile, last);
    Value distance = arith::SubIOp::create(builder, nest.loc, to, from);
    Value holds = arith::CmpIOp::create(builder, nest.loc, arith::CmpIPredicate::eq, distance,
                                        i64(nest.lanes - 1));
    all = all ? arith::AndIOp::create(builder, nest.loc, all, holds).getResult() : holds;
  }
  return all;
}

// Addresses of all lanes as pointers.
static Value lanePointers(Lowering &lowering, Nest &nest, Value pointers, const Coords &coords) {
  Value addresses = lowering.splat(nest.builder, nest.loc,
                                   lowering.evaluate(nest, pointers, coords), nest.lanes);
  return LLVM::IntToPtrOp::create(nest.builder, nest.loc,
                                  VectorType::get({nest.lanes}, lowering.ptrType), addresses);
}

Value Lowering::emitGather(Nest &nest, core::LoadOp op, const Coords &coords, Value mask,
                           Value other) {
  Type element = pointerOf(op.getPointer()).getPointee();
  Type type = vectorOr(storedType(element), nest.lanes);
  mask = mask ? splat(builder, nest.loc, mask, nest.lanes)
              : constantLike(builder, nest.loc, vectorOr(builder.getI1Type(), nest.lanes), 1);
  Value addresses = lanePointers(*this, nest, op.getPointer(), coords);
  return LLVM::masked_gather::create(
      builder, nest.loc, type, addresses, mask, other ? ValueRange(other) : ValueRange(),
      builder.getI32IntegerAttr(int32_t(byteSize(element))));
}

LogicalResult Lowering::lowerLoad(core::LoadOp op) {
  auto type = dyn_cast<RankedTensorType>(op.getType());
  if (core::isPointerLike(getElementTypeOrSelf(op.getType())))
    return op.emitError("loading pointers from memory is not supported");
  if (!type) {
    Nest nest(builder, loc, 0);
    setScalar(op, emitLoad(nest, op, {}));
    return success();
  }
  if (isFusedLoad(op))
    return success();
  int dim = chooseLaneDim(op.getPointer(), type.getShape());
  SmallVector<int64_t> order; // the lane dimension is last in memory
  if (dim >= 0 && dim != lastDim(type.getShape())) {
    for (int64_t other = 0; other < type.getRank(); ++other)
      if (other != dim)
        order.push_back(other);
    order.push_back(dim);
  }
  Buffer buffer = allocate(type, loc, order);
  forEachChunk(loc, type.getShape(), dim, dim < 0 ? 0 : lanesFor(type.getDimSize(dim)),
               [&](Nest &nest, const Coords &coords) {
                 storeBuffer(nest, buffer, coords, emitLoad(nest, op, coords));
               });
  setBuffer(op, buffer);
  return success();
}

//===-- Stores ---------------------------------------------------------------------------------===//

void Lowering::emitStore(Nest &nest, core::StoreOp op, const Coords &coords) {
  core::PointerType pointer = pointerOf(op.getPointer());
  Type element = pointer.getPointee();
  int64_t lanes = hasLane(coords) ? nest.lanes : 0;
  Value mask;
  if (op.getMask() && !isConstantTrue(op.getMask()))
    mask = splat(builder, nest.loc, evaluate(nest, op.getMask(), coords), lanes);
  Value value = splat(builder, nest.loc,
                      toStored(evaluate(nest, op.getValue(), coords), element), lanes);
  if (pointer.getRemote())
    emitRemoteStore(nest, op, coords, value, mask);
  else
    emitDirectStore(nest, op, coords, value, mask);
}

void Lowering::emitDirectStore(Nest &nest, core::StoreOp op, const Coords &coords, Value value,
                               Value mask) {
  int64_t lanes = lanesOf(value);
  unsigned align = unsigned(byteSize(pointerOf(op.getPointer()).getPointee()));
  if (!lanes) {
    Value address = evaluate(nest, op.getPointer(), coords);
    OpBuilder::InsertionGuard guard(builder);
    if (mask) {
      auto branch = scf::IfOp::create(builder, nest.loc, mask, /*withElseRegion=*/false);
      builder.setInsertionPointToStart(branch.thenBlock());
    }
    LLVM::StoreOp::create(builder, nest.loc, value, address, align);
    return;
  }
  if (laneStride(nest, op.getPointer(), coords) == int64_t(align)) {
    Value address = evaluate(nest, op.getPointer(), firstLane(coords));
    if (mask)
      LLVM::MaskedStoreOp::create(builder, nest.loc, value, address, mask, align);
    else
      LLVM::StoreOp::create(builder, nest.loc, value, address, align);
    return;
  }
  if (!mask)
    mask = constantLike(builder, nest.loc, vectorOr(builder.getI1Type(), lanes), 1);
  Value addresses = lanePointers(*this, nest, op.getPointer(), coords);
  LLVM::masked_scatter::create(builder, nest.loc, value, addresses, mask,
                               builder.getI32IntegerAttr(int32_t(align)));
}

LogicalResult Lowering::lowerStore(core::StoreOp op) {
  ArrayRef<int64_t> shape = shapeOf(op.getValue().getType());
  int dim = chooseLaneDim(op.getPointer(), shape);
  forEachChunk(loc, shape, dim, dim < 0 ? 0 : lanesFor(shape[dim]),
               [&](Nest &nest, const Coords &coords) { emitStore(nest, op, coords); });
  return success();
}

} // namespace tilery::vec
