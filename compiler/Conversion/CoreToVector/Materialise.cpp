// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Which tiles are stored, and how tiles are written to and read from buffers.
#include "compiler/Conversion/CoreToVector/Elementwise.h"

namespace tilery::vec {

using core::shapeOf;

//===-- Policy -----------------------------------------------------------------------------===//

static constexpr int kExpensive = 8, kCostCap = 40;

// Rough cycles of one operation on a vector; 0 for what LLVM folds or hoists well.
static int costOf(Operation *op) {
  if (!Lowering::isElementwise(op))
    return 0;
  if (!isa<FloatType>(getElementTypeOrSelf(op->getResult(0).getType())))
    return 0; // offsets and masks: better computed again than stored
  if (isa<math::MathDialect>(op->getDialect()) && !isa<math::AbsFOp, math::FmaOp>(op))
    return kExpensive;
  if (isa<arith::DivFOp, arith::RemFOp>(op))
    return kExpensive;
  return 1;
}

int Lowering::expressionCost(Value tile) {
  if (!isa<RankedTensorType>(tile.getType()) || isStored(tile))
    return 0;
  auto [found, fresh] = expressionCosts.try_emplace(tile, 0);
  if (!fresh)
    return found->second;
  Operation *op = tile.getDefiningOp();
  int cost = costOf(op);
  for (Value operand : op->getOperands())
    cost += expressionCost(operand);
  return expressionCosts[tile] = std::min(cost, 1000);
}

static bool usedDeeper(Operation *op) {
  return llvm::any_of(op->getUsers(), [&](Operation *user) {
    return user->getBlock() != op->getBlock() &&
           !isa<scf::IfOp>(user->getBlock()->getParentOp());
  });
}

bool Lowering::shouldStore(Operation *op) {
  DenseElementsAttr constant;
  if (matchPattern(op, m_Constant(&constant)))
    return !constant.isSplat();
  if (op->use_empty() || !(isElementwise(op) || isa<core::BroadcastOp>(op)))
    return false;
  int cost = expressionCost(op->getResult(0));
  SmallPtrSet<Operation *, 4> users(op->user_begin(), op->user_end());
  bool store = false;
  if (isElementwise(op)) {
    bool widened = llvm::any_of(users, llvm::IsaPred<core::BroadcastOp, core::ExpandDimsOp>);
    store = (cost >= 2 && users.size() > 1) || (cost >= 1 && usedDeeper(op)) ||
            cost >= kCostCap || (cost >= kExpensive / 2 && widened);
  }
  if (store)
    for (Value result : op->getResults())
      expressionCosts[result] = 0;
  return store;
}

//===-- Loops over a tile ------------------------------------------------------------------------===//

int64_t Lowering::lanesFor(int64_t extent) const {
  return extent > 1 ? std::min<int64_t>(extent, options.vectorBits / 32) : 0;
}

int Lowering::lastDim(ArrayRef<int64_t> shape) const {
  for (int dim = int(shape.size()) - 1; dim >= 0; --dim)
    if (shape[dim] > 1)
      return dim;
  return -1;
}

void Lowering::forEachChunk(Location at, ArrayRef<int64_t> shape, int laneDim, int64_t lanes,
                            llvm::function_ref<void(Nest &, const Coords &)> body) {
  Nest nest(builder, at, lanes);
  Coords coords(shape.size());
  for (auto [dim, extent] : llvm::enumerate(shape))
    if (int(dim) != laneDim)
      coords[dim] = nest.open(extent);
  if (laneDim >= 0) {
    coords[laneDim] = nest.open(shape[laneDim], std::max<int64_t>(lanes, 1));
    coords[laneDim].lane = lanes > 0;
  }
  body(nest, coords);
  for (size_t dim = 0; dim < shape.size(); ++dim)
    nest.close();
}

//===-- Buffers -----------------------------------------------------------------------------------===//

Buffer Lowering::allocateAs(ArrayRef<int64_t> shape, Type element, Location at,
                            ArrayRef<int64_t> order) {
  Buffer buffer;
  buffer.element = element;
  buffer.shape.assign(shape.begin(), shape.end());
  buffer.strides.resize(shape.size());
  int64_t stride = 1;
  for (int64_t position = int64_t(shape.size()) - 1; position >= 0; --position) {
    int64_t dim = order.empty() ? position : order[position];
    buffer.strides[dim] = stride;
    stride *= shape[dim];
  }
  buffer.base = allocator.allocate(stride * byteSize(storedType(element)), at);
  return buffer;
}

Buffer Lowering::allocate(RankedTensorType type, Location at, ArrayRef<int64_t> order) {
  return allocateAs(type.getShape(), type.getElementType(), at, order);
}

Value Lowering::bufferAddress(Nest &nest, const Buffer &buffer, const Coords &coords) {
  int64_t size = byteSize(storedType(buffer.element));
  Value address = buffer.base;
  for (auto [coord, stride] : llvm::zip(coords, buffer.strides))
    if (coord.base)
      address = ptrAt(address, mulI(coord.base, i64(stride * size)));
  return address;
}

// Elements of one dimension that are not neighbours in memory.
static Value laneAddresses(OpBuilder &b, Location loc, Value address, int64_t lanes,
                           int64_t strideBytes, Type ptrType) {
  SmallVector<int64_t> offsets;
  for (int64_t lane = 0; lane < lanes; ++lane)
    offsets.push_back(lane * strideBytes);
  auto type = VectorType::get({lanes}, b.getI64Type());
  Value vector = arith::ConstantOp::create(
      b, loc, DenseElementsAttr::get(type, ArrayRef<int64_t>(offsets)));
  return LLVM::GEPOp::create(b, loc, VectorType::get({lanes}, ptrType), b.getI8Type(), address,
                             ArrayRef<LLVM::GEPArg>{vector});
}

static int laneDimOf(const Coords &coords) {
  for (auto [dim, coord] : llvm::enumerate(coords))
    if (coord.lane)
      return int(dim);
  return -1;
}

Value Lowering::loadBuffer(Nest &nest, const Buffer &buffer, const Coords &coords) {
  Type stored = storedType(buffer.element);
  int dim = laneDimOf(coords);
  int64_t lanes = dim < 0 ? 0 : nest.lanes, align = byteSize(stored);
  Type type = vectorOr(stored, lanes);
  Value address = bufferAddress(nest, buffer, coords), value;
  if (!lanes || buffer.strides[dim] == 1) {
    value = LLVM::LoadOp::create(builder, nest.loc, type, address, unsigned(align));
  } else {
    Value all = constantLike(builder, nest.loc, vectorOr(builder.getI1Type(), lanes), 1);
    Value addresses = laneAddresses(builder, nest.loc, address, lanes,
                                    buffer.strides[dim] * align, ptrType);
    value = LLVM::masked_gather::create(builder, nest.loc, type, addresses, all, ValueRange(),
                                        builder.getI32IntegerAttr(int32_t(align)));
  }
  return fromStored(value, buffer.element);
}

Value Lowering::fromStored(Value value, Type element) {
  if (element.isInteger(1)) {
    Value zero = constantLike(builder, loc, value.getType(), 0);
    return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne, value, zero);
  }
  if (core::isPointerLike(element) && !lanesOf(value))
    return LLVM::IntToPtrOp::create(builder, loc, ptrType, value);
  if (element.isBF16())
    return arith::BitcastOp::create(builder, loc, vectorOr(element, lanesOf(value)), value);
  return value;
}

Value Lowering::toStored(Value value, Type element) {
  if (element.isInteger(1))
    return arith::ExtUIOp::create(builder, loc, vectorOr(builder.getI8Type(), lanesOf(value)),
                                  value);
  if (element.isBF16())
    return arith::BitcastOp::create(builder, loc, vectorOr(builder.getI16Type(), lanesOf(value)),
                                    value);
  if (isa<LLVM::LLVMPointerType>(value.getType()))
    return LLVM::PtrToIntOp::create(builder, loc, builder.getI64Type(), value);
  return value;
}

void Lowering::storeBuffer(Nest &nest, const Buffer &buffer, const Coords &coords, Value value) {
  int dim = laneDimOf(coords);
  int64_t lanes = dim < 0 ? 0 : nest.lanes, align = byteSize(storedType(buffer.element));
  value = splat(builder, nest.loc, toStored(value, buffer.element), lanes);
  Value address = bufferAddress(nest, buffer, coords);
  if (!lanes || buffer.strides[dim] == 1) {
    LLVM::StoreOp::create(builder, nest.loc, value, address, unsigned(align));
    return;
  }
  Value all = constantLike(builder, nest.loc, vectorOr(builder.getI1Type(), lanes), 1);
  Value addresses =
      laneAddresses(builder, nest.loc, address, lanes, buffer.strides[dim] * align, ptrType);
  LLVM::masked_scatter::create(builder, nest.loc, value, addresses, all,
                               builder.getI32IntegerAttr(int32_t(align)));
}

//===-- Whole tiles ------------------------------------------------------------------------------------===//

LogicalResult Lowering::evaluateInto(Value tile, const Buffer &buffer, Location at) {
  ArrayRef<int64_t> shape = buffer.shape;
  DenseElementsAttr constant;
  if (matchPattern(tile, m_Constant(&constant)) && !constant.isSplat())
    return storeConstant(constant, buffer);
  int dim = lastDim(shape);
  forEachChunk(at, shape, dim, dim < 0 ? 0 : lanesFor(shape[dim]),
               [&](Nest &nest, const Coords &coords) {
                 storeBuffer(nest, buffer, coords, evaluate(nest, tile, coords));
               });
  return success();
}

void Lowering::copyBuffer(const Buffer &from, const Buffer &to) {
  int dim = lastDim(from.shape);
  forEachChunk(loc, from.shape, dim, dim < 0 ? 0 : lanesFor(from.shape[dim]),
               [&](Nest &nest, const Coords &coords) {
                 storeBuffer(nest, to, coords, loadBuffer(nest, from, coords));
               });
}

LogicalResult Lowering::storeConstant(DenseElementsAttr constant, const Buffer &buffer) {
  if (constant.getNumElements() > 1024)
    return emitError(loc, "a constant tile of more than 1024 different elements is not "
                          "supported on the CPU target");
  int64_t size = byteSize(storedType(buffer.element));
  for (auto [index, attr] : llvm::enumerate(constant.getValues<Attribute>())) {
    Value value = arith::ConstantOp::create(builder, loc, cast<TypedAttr>(attr));
    LLVM::StoreOp::create(builder, loc, toStored(value, buffer.element),
                          ptrAt(buffer.base, int64_t(index) * size), unsigned(size));
  }
  return success();
}

FailureOr<Buffer> Lowering::materialise(Value tile, Location at) {
  if (isStored(tile))
    return bufferOf(tile);
  Buffer buffer = allocate(cast<RankedTensorType>(tile.getType()), at);
  if (failed(evaluateInto(tile, buffer, at)))
    return failure();
  return buffer;
}

} // namespace tilery::vec
