// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// `index % extent` in the address of a load becomes `index` and a mask; Passes.td shows it.
//
// Algorithm, for each load:
// 1) find remainders by a scalar in what makes the address, and the dimension of the loaded tile that
//    their index walks along;
// 2) the elements that wrap around, those with index >= extent, must reach nothing but stores under
//    the mask index < extent;
// 3) make the address again without the remainder, and the comparison a part of the load's mask.
#include "compiler/Dialect/Core/Analysis/UnusedElements.h"
#include "compiler/Dialect/Core/IR/Core.h"
#include "compiler/Dialect/Core/Transforms/Passes.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace tilery::core {
#define GEN_PASS_DEF_UNWRAPINDICES
#include "compiler/Dialect/Core/Transforms/Passes.h.inc"

namespace {

/// `index % extent` in an address, with the dimension of the loaded tile that it walks along.
struct Wrap {
  Value wrapped;
  Value index, extents; ///< tiles, the latter with one value
  Value extent;
  int dim;
};

/// For each dimension of a tile the dimension of the loaded tile.
using Places = SmallVector<int, 4>;

std::optional<Places> placesOfSource(Operation *op, const Places &places) {
  if (auto expand = dyn_cast<ExpandDimsOp>(op)) {
    Places inner(places);
    inner.erase(inner.begin() + expand.getAxis());
    return inner;
  }
  if (auto trans = dyn_cast<TransOp>(op)) {
    Places inner(places);
    for (auto [to, from] : llvm::enumerate(trans.getOrder()))
      inner[size_t(from)] = places[to];
    return inner;
  }
  if (isa<AddPtrOp, BroadcastOp, HintOp, arith::AddIOp, arith::MulIOp, arith::ExtSIOp>(op))
    return places;
  return std::nullopt;
}

std::optional<Wrap> wrapOf(arith::RemSIOp op, const Places &places) {
  auto extent = op.getRhs().getDefiningOp<SplatOp>();
  std::optional<int> dim;
  ArrayRef<int64_t> shape = shapeOf(op.getType());
  for (auto [size, place] : llvm::zip(shape, places))
    if (size > 1) {
      if (dim)
        return std::nullopt;
      dim = place;
    }
  if (!extent || !dim)
    return std::nullopt;
  return Wrap{op.getResult(), op.getLhs(), op.getRhs(), extent.getSource(), *dim};
}

/// Looks for remainders in an address, once at each value.
class WrapSearch {
public:
  SmallVector<Wrap> wraps;

  /// False when a value is moved in two ways: then an index walks along two dimensions.
  bool through(Value value, const Places &places) {
    Operation *op = value.getDefiningOp();
    if (!op || !isa<RankedTensorType>(value.getType()))
      return true;
    auto [known, isNew] = seen.try_emplace(value, places);
    if (!isNew)
      return known->second == places;
    if (auto remainder = dyn_cast<arith::RemSIOp>(op)) {
      if (auto wrap = wrapOf(remainder, places))
        wraps.push_back(*wrap);
      return true;
    }
    std::optional<Places> inner = placesOfSource(op, places);
    return !inner || llvm::all_of(op->getOperands(),
                                  [&](Value operand) { return through(operand, *inner); });
  }

private:
  DenseMap<Value, Places> seen;
};

// Indices below 0 would read other elements. Sizes and divisors count as positive: a kernel for which
// they are not stores outside of its arrays.
bool isNotNegative(Value value, unsigned depth = 0) {
  APInt number;
  DenseElementsAttr elements;
  if (matchPattern(value, m_ConstantInt(&number)))
    return !number.isNegative();
  if (matchPattern(value, m_Constant(&elements)))
    return elements.isSplat() && !elements.getSplatValue<APInt>().isNegative();
  Operation *op = value.getDefiningOp();
  if (depth > 12)
    return false;
  if (!op) {
    auto loop = dyn_cast<scf::ForOp>(cast<BlockArgument>(value).getOwner()->getParentOp());
    return !loop || (value == loop.getInductionVar() && isNotNegative(loop.getLowerBound(), depth + 1));
  }
  if (auto range = dyn_cast<RangeOp>(op))
    return int32_t(range.getStart()) >= 0;
  if (isa<ProgramIdOp, NumProgramsOp>(op))
    return true;
  if (isa<arith::RemSIOp, arith::DivSIOp>(op))
    return isNotNegative(op->getOperand(0), depth + 1);
  if (isa<arith::MaxSIOp>(op))
    return llvm::any_of(op->getOperands(), [&](Value v) { return isNotNegative(v, depth + 1); });
  return isa<arith::AddIOp, arith::MulIOp, arith::MinSIOp, arith::ExtSIOp, arith::TruncIOp, SplatOp,
             BroadcastOp, ExpandDimsOp, HintOp>(op) &&
         llvm::all_of(op->getOperands(), [&](Value v) { return isNotNegative(v, depth + 1); });
}

// Whether `mask` holds only where `index < extent`, with the index along `dim`.
bool keepsBelow(Value mask, int dim, Value index, Value extent) {
  Operation *op = mask.getDefiningOp();
  if (!op)
    return false;
  if (isa<arith::AndIOp>(op))
    return keepsBelow(op->getOperand(0), dim, index, extent) ||
           keepsBelow(op->getOperand(1), dim, index, extent);
  if (auto repeat = dyn_cast<BroadcastOp>(op))
    return keepsBelow(repeat.getSource(), dim, index, extent);
  if (auto expand = dyn_cast<ExpandDimsOp>(op)) {
    int axis = int(expand.getAxis());
    return axis != dim && keepsBelow(expand.getSource(), dim - (axis < dim), index, extent);
  }
  auto compare = dyn_cast<arith::CmpIOp>(op);
  if (!compare)
    return false;
  bool isBelow = compare.getPredicate() == arith::CmpIPredicate::slt;
  if (!isBelow && compare.getPredicate() != arith::CmpIPredicate::sgt)
    return false;
  Value left = isBelow ? compare.getLhs() : compare.getRhs();
  auto bound = (isBelow ? compare.getRhs() : compare.getLhs()).getDefiningOp<SplatOp>();
  // The compared index may have got its further dimensions before the comparison.
  while (auto expand = left.getDefiningOp<ExpandDimsOp>()) {
    int axis = int(expand.getAxis());
    if (axis == dim)
      return false;
    dim -= axis < dim;
    left = expand.getSource();
  }
  return left == index && bound && bound.getSource() == extent;
}

bool canUnwrap(LoadOp load, const Wrap &wrap) {
  Value index = wrap.index;
  while (auto hint = index.getDefiningOp<HintOp>())
    index = hint.getSource();
  auto leavesOut = [&](Value mask, int dim) {
    return keepsBelow(mask, dim, index, wrap.extent);
  };
  return isNotNegative(index) && areUnused(load.getResult(), wrap.dim, leavesOut);
}

/// Copies what an address is made of, with indices in place of remainders.
Value withoutWraps(Value value, ArrayRef<Wrap> wraps, IRMapping &map) {
  Operation *op = value.getDefiningOp();
  if (!op || map.contains(value))
    return map.lookupOrDefault(value);
  for (const Wrap &wrap : wraps)
    if (wrap.wrapped == value)
      return wrap.index;
  if (!placesOfSource(op, Places(4, 0)))
    return value;
  bool changed = false;
  for (Value operand : op->getOperands()) {
    Value inner = withoutWraps(operand, wraps, map);
    changed |= inner != operand;
    map.map(operand, inner);
  }
  if (!changed)
    return value;
  OpBuilder b(op);
  Operation *copy = b.clone(*op, map);
  map.map(value, copy->getResult(0));
  return copy->getResult(0);
}

Value insideMask(OpBuilder &b, Location loc, const Wrap &wrap, ArrayRef<int64_t> shape) {
  Value inside =
      arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, wrap.index, wrap.extents);
  // To the loaded tile's dimensions: the wrapped tile has one that is not 1.
  int64_t size = shape[size_t(wrap.dim)];
  auto bits = [&](ArrayRef<int64_t> extents) { return RankedTensorType::get(extents, b.getI1Type()); };
  if (shapeOf(wrap.index.getType()).size() > 1)
    inside = ReshapeOp::create(b, loc, bits({size}), inside);
  SmallVector<int64_t> extents = {size};
  for (int dim = 0; dim < int(shape.size()); ++dim) {
    if (dim == wrap.dim)
      continue;
    extents.insert(extents.begin() + dim, 1);
    inside = ExpandDimsOp::create(b, loc, bits(extents), inside, uint32_t(dim));
  }
  return BroadcastOp::create(b, loc, bits(shape), inside);
}

void unwrap(LoadOp load, ArrayRef<Wrap> wraps) {
  IRMapping map;
  Value pointer = withoutWraps(load.getPointer(), wraps, map);
  OpBuilder b(load);
  Location loc = load.getLoc();
  Value mask = load.getMask();
  for (const Wrap &wrap : wraps) {
    OpBuilder at(load.getContext());
    at.setInsertionPointAfterValue(wrap.wrapped);
    Value inside = insideMask(at, loc, wrap, shapeOf(load.getType()));
    mask = mask ? arith::AndIOp::create(b, loc, mask, inside).getResult() : inside;
  }
  Value other = load.getOther();
  if (!other)
    other = arith::ConstantOp::create(b, loc, b.getZeroAttr(load.getType()));
  auto masked = LoadOp::create(b, loc, load.getType(), pointer, mask, other, load.getIsVolatile());
  masked->setDiscardableAttrs(load->getDiscardableAttrDictionary());
  load.replaceAllUsesWith(masked.getResult());
  load.erase();
}

struct UnwrapIndices : impl::UnwrapIndicesBase<UnwrapIndices> {
  void runOnOperation() override {
    SmallVector<LoadOp> loads;
    getOperation()->walk([&](LoadOp load) {
      if (isa<RankedTensorType>(load.getType()) && !load.getIsVolatile() &&
          !isPointerLike(getElementTypeOrSelf(load.getType())))
        loads.push_back(load);
    });
    for (LoadOp load : loads) {
      Places places;
      for (int dim = 0; dim < int(shapeOf(load.getType()).size()); ++dim)
        places.push_back(dim);
      WrapSearch search;
      if (!search.through(load.getPointer(), places))
        continue;
      llvm::erase_if(search.wraps, [&](const Wrap &wrap) { return !canUnwrap(load, wrap); });
      if (!search.wraps.empty())
        unwrap(load, search.wraps);
    }
  }
};

} // namespace
} // namespace tilery::core
