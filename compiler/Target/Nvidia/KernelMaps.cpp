// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Target/Nvidia/KernelMaps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace tilery::simt;

namespace tilery::nvidia {

bool KernelMaps::Map::describes(const AffineAccess &other, BufferType tile) const {
  auto sameDim = [](const AccessDim &a, const AccessDim &b) {
    return a.extent == b.extent && a.box == b.box && a.stride.factor == b.stride.factor &&
           a.stride.sameAs(b.stride);
  };
  return access.base == other.base && buffer == tile && access.dims.size() == other.dims.size() &&
         llvm::equal(access.dims, other.dims, sameDim);
}

KernelMaps::Map &KernelMaps::find(const AffineAccess &access, BufferType buffer, unsigned slots) {
  auto known = llvm::find_if(
      maps, [&](const Map &map) { return map.slots == slots && map.describes(access, buffer); });
  if (known == maps.end())
    known = maps.insert(maps.end(), {access, buffer, slots, {}});
  return *known;
}

int32_t KernelMaps::addForRing(const AffineAccess &access, BufferType buffer, unsigned ring) {
  Map &map = find(access, buffer, 0);
  if (!llvm::is_contained(map.rings, int32_t(ring)))
    map.rings.push_back(int32_t(ring));
  return numberOf(map);
}

int32_t KernelMaps::addForStores(const AffineAccess &access, BufferType box, unsigned slots) {
  return numberOf(find(access, box, slots));
}

//===-- Where a map can be made
//------------------------------------------------------------------------===//

static unsigned depthOf(Block *block) {
  unsigned depth = 0;
  for (Operation *op = block->getParentOp(); op; op = op->getParentOp())
    ++depth;
  return depth;
}

// All values are known at one place, so of two blocks that define some the inner one comes later.
static bool isLater(Value value, Value than) {
  Block *own = value.getParentBlock(), *other = than.getParentBlock();
  if (own != other)
    return depthOf(own) > depthOf(other);
  Operation *op = value.getDefiningOp(), *before = than.getDefiningOp();
  return op && (!before || before->isBeforeInBlock(op));
}

static Value inBytes(OpBuilder &b, Location loc, const AffineTerm &stride, int64_t elementBytes) {
  Value product = arith::ConstantIntOp::create(b, loc, stride.factor * elementBytes, 64);
  for (Value scalar : stride.scalars) {
    if (!scalar.getType().isInteger(64))
      scalar = arith::ExtSIOp::create(b, loc, b.getI64Type(), scalar);
    product = arith::MulIOp::create(b, loc, product, scalar);
  }
  return product;
}

MapOperands MapOperands::of(OpBuilder &b, Location loc, const AffineAccess &access) {
  constexpr int64_t unbounded = 0x7fffffff; // what no mask cuts off lies inside
  MapOperands made{access.base, {}, {}};
  for (const AccessDim &dim : access.dims)
    made.extents.push_back(
        dim.extent ? dim.extent : arith::ConstantIntOp::create(b, loc, unbounded, 32).getResult());
  for (const AccessDim &dim : llvm::drop_begin(access.dims))
    made.strides.push_back(inBytes(b, loc, dim.stride, access.element.getIntOrFloatBitWidth() / 8));
  return made;
}

SmallVector<Operation *> KernelMaps::emit() {
  SmallVector<Operation *> made;
  for (auto [number, map] : llvm::enumerate(maps)) {
    Value last = map.access.base;
    auto note = [&](Value value) { last = value && isLater(value, last) ? value : last; };
    SmallVector<int32_t> box = {int32_t(map.buffer.panelBytes() / map.buffer.elementBytes())};
    for (const AccessDim &dim : map.access.dims) {
      note(dim.extent);
      llvm::for_each(dim.stride.scalars, note);
    }
    for (const AccessDim &dim : llvm::drop_begin(map.access.dims))
      box.push_back(int32_t(dim.box));
    OpBuilder b(last.getContext());
    b.setInsertionPointAfterValue(last);
    Location loc = map.access.base.getLoc();
    MapOperands operands = MapOperands::of(b, loc, map.access);
    made.push_back(MakeMapOp::create(b, loc, uint32_t(number), operands.base, operands.extents,
                                     operands.strides, uint32_t(map.buffer.elementBytes()), box,
                                     uint32_t(map.buffer.panelBytes()), map.rings, map.slots));
  }
  return made;
}

} // namespace tilery::nvidia
