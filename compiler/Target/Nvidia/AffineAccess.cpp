// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Reads an access's pointers and mask as dimensions of an array with starts and extents.
#include "compiler/Target/Nvidia/AffineAccess.h"

#include "compiler/Dialect/Device/IR/Device.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/LoopLikeInterface.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;

namespace tilery::nvidia {
namespace {

//===-- Dimensions ----------------------------------------------------------------------------------------===//

// A uniform term as a multiple of a stride: what remains is a part of the index.
std::optional<AffineTerm> dividedBy(const AffineTerm &term, const AffineTerm &stride) {
  if (term.factor % stride.factor != 0)
    return std::nullopt;
  AffineTerm rest{term.factor / stride.factor, term.scalars, -1};
  for (Value scalar : stride.scalars) {
    auto at = llvm::find(rest.scalars, scalar);
    if (at == rest.scalars.end())
      return std::nullopt;
    rest.scalars.erase(at);
  }
  return rest;
}

bool contains(const AffineSum &sum, const AffineTerm &term) {
  return llvm::any_of(sum, [&](const AffineTerm &present) {
    return present.sameAs(term) && present.factor == term.factor;
  });
}

/// Where the mask says that the contiguous and the other dimension of the tile start.
struct MaskedStarts {
  std::optional<AffineSum> fast, slow;
};

// A constant stride divides many a term: it has those that the mask gives it, and those that the mask
// denies the contiguous dimension.
bool ownsTerm(const AccessDim &dim, const AffineTerm &rest, const MaskedStarts &starts) {
  if (!dim.stride.scalars.empty())
    return true;
  return starts.slow ? contains(*starts.slow, rest) : starts.fast.has_value();
}

// Gives each uniform term to the dimension whose stride it is a multiple of; products with another
// argument open a dimension of their own (batches, heads).
bool distribute(AffineAccess &access, const AffineSum &offset, const MaskedStarts &starts) {
  for (const AffineTerm &term : offset) {
    if (term.dim >= 0)
      continue;
    AccessDim *owner = nullptr;
    std::optional<AffineTerm> index;
    if (starts.fast && contains(*starts.fast, term)) {
      addTerm(access.dims.front().start, term);
      continue;
    }
    for (AccessDim &dim : llvm::drop_begin(access.dims))
      if (auto rest = dividedBy(term, dim.stride); rest && ownsTerm(dim, *rest, starts)) {
        owner = &dim;
        index = rest;
        break;
      }
    if (!owner) {
      auto stride = llvm::find_if(term.scalars, isArgument);
      bool opens = stride != term.scalars.end() && term.scalars.size() > 1;
      if (opens && access.dims.size() < 5) {
        AffineTerm own{1, {*stride}, -1};
        access.dims.push_back({own, {}, {}, 1});
        owner = &access.dims.back();
        index = dividedBy(term, own);
      } else if (opens) {
        return false;
      } else {
        owner = &access.dims.front();
        index = term;
      }
    }
    addTerm(owner->start, *index);
  }
  return true;
}

bool isSplatOfZero(Value value) {
  DenseElementsAttr elements;
  if (matchPattern(value, m_Constant(&elements)) && elements.isSplat()) {
    if (isa<FloatType>(elements.getElementType()))
      return elements.getSplatValue<APFloat>().isZero() &&
             !elements.getSplatValue<APFloat>().isNegative();
    return elements.getSplatValue<APInt>().isZero();
  }
  return false;
}

Value scalarOf(Value tile) {
  while (Operation *op = tile.getDefiningOp()) {
    if (!isa<core::SplatOp, core::BroadcastOp, core::ExpandDimsOp, arith::ExtSIOp>(op))
      break;
    tile = op->getOperand(0);
    if (!isa<RankedTensorType>(tile.getType()))
      return tile;
  }
  return isa<RankedTensorType>(tile.getType()) ? Value() : tile;
}

Value constantBound(OpBuilder &b, Value tile) {
  DenseElementsAttr elements;
  if (!matchPattern(tile, m_Constant(&elements)) || !elements.isSplat())
    return {};
  return arith::ConstantIntOp::create(b, tile.getLoc(),
                                      elements.getSplatValue<APInt>().getSExtValue(), 64);
}

/// The dimension of the tile that an index expression walks along, with the index's start.
std::optional<std::pair<int, AffineSum>> indexAlong(Value index) {
  MaybeSum sum = sumOfValue(index);
  if (!sum)
    return std::nullopt;
  int dim = -1;
  AffineSum start;
  for (const AffineTerm &term : *sum) {
    if (term.dim < 0) {
      addTerm(start, term);
      continue;
    }
    if (dim >= 0 || term.factor != 1 || !term.scalars.empty())
      return std::nullopt;
    dim = term.dim;
  }
  return std::make_pair(dim, start);
}

/// `index < extent`, or `index >= extent`, of a mask.
struct Comparison {
  int dim;         ///< of the tile, that the index walks along
  AffineSum start; ///< of the index
  Value extent;    ///< scalar; null when the launcher cannot know it
  bool isUpper;
};

// A sum of one argument or of a constant as a value.
Value valueOf(OpBuilder &b, Location loc, const AffineSum &sum) {
  if (sum.empty() || (sum.size() == 1 && sum[0].scalars.empty()))
    return arith::ConstantIntOp::create(b, loc, sum.empty() ? 0 : sum[0].factor, 64);
  bool isOne = sum.size() == 1 && sum[0].factor == 1 && sum[0].scalars.size() == 1;
  return isOne ? sum[0].scalars[0] : Value();
}

/// Whether the one who makes the tensor map knows a scalar.
using Known = llvm::function_ref<bool(Value)>;

// Arguments and what is computed of them alone.
bool launcherKnows(Value scalar) {
  Operation *op = scalar.getDefiningOp();
  if (!op)
    return isArgument(scalar);
  return isa<arith::ArithDialect>(op->getDialect()) && llvm::all_of(op->getOperands(), launcherKnows);
}

// `lane < K - k * step` is `k * step + lane < K`: what the maker of the map does not know moves to
// the index's side, which then is the index that makes the address.
void moveToIndex(Comparison &comparison, arith::CmpIOp compare, Value bound, Known isKnown) {
  MaybeSum sum = sumOfValue(bound);
  if (!sum)
    return;
  AffineSum known, moved;
  for (const AffineTerm &term : *sum)
    addTerm(llvm::all_of(term.scalars, isKnown) ? known : moved, term);
  if (moved.empty())
    return;
  OpBuilder b(compare);
  comparison.start = sumOf(comparison.start, moved, -1);
  comparison.extent = valueOf(b, compare.getLoc(), known);
}

std::optional<Comparison> comparisonOf(arith::CmpIOp compare, Known isKnown) {
  auto predicate = compare.getPredicate();
  Value index = compare.getLhs(), bound = compare.getRhs();
  if (predicate == arith::CmpIPredicate::sgt) {
    std::swap(index, bound);
    predicate = arith::CmpIPredicate::slt;
  }
  auto along = indexAlong(index);
  bool isUpper = predicate == arith::CmpIPredicate::slt;
  if (!along || along->first < 0 || (!isUpper && predicate != arith::CmpIPredicate::sge))
    return std::nullopt;
  Comparison result{along->first, along->second, scalarOf(bound), isUpper};
  OpBuilder b(compare);
  if (!result.extent)
    result.extent = constantBound(b, bound);
  if (isUpper)
    moveToIndex(result, compare, bound, isKnown);
  else if (!isSplatOfZero(bound))
    result.extent = {};
  return result;
}

// Where the mask says that the index along tile dimension `wanted` starts; none when it does not say.
std::optional<AffineSum> startInMask(Value mask, int wanted, Known isKnown) {
  Operation *op = mask ? mask.getDefiningOp() : nullptr;
  if (!op)
    return std::nullopt;
  if (isa<arith::AndIOp>(op)) {
    auto first = startInMask(op->getOperand(0), wanted, isKnown);
    return first ? first : startInMask(op->getOperand(1), wanted, isKnown);
  }
  if (auto repeat = dyn_cast<core::BroadcastOp>(op))
    return startInMask(repeat.getSource(), wanted, isKnown);
  if (auto expand = dyn_cast<core::ExpandDimsOp>(op)) {
    int axis = int(expand.getAxis());
    if (axis == wanted)
      return std::nullopt;
    return startInMask(expand.getSource(), wanted - (axis < wanted), isKnown);
  }
  auto compare = dyn_cast<arith::CmpIOp>(op);
  auto comparison = compare ? comparisonOf(compare, isKnown) : std::nullopt;
  if (!comparison || comparison->dim != wanted)
    return std::nullopt;
  return comparison->start;
}

// The mask must be a conjunction of `index < extent` (and `index >= 0`, which bulk copies imply) for
// the very indices that make the addresses. `place[d]` is the position of tile dimension d.
bool readMask(AffineAccess &access, Value mask, ArrayRef<int> place, Known isKnown) {
  Operation *op = mask.getDefiningOp();
  if (!op)
    return false;
  if (isa<arith::AndIOp>(op))
    return readMask(access, op->getOperand(0), place, isKnown) &&
           readMask(access, op->getOperand(1), place, isKnown);
  if (matchPattern(mask, m_One()))
    return true;
  SmallVector<int> inner(place);
  if (auto repeat = dyn_cast<core::BroadcastOp>(op))
    return readMask(access, repeat.getSource(), inner, isKnown);
  if (auto expand = dyn_cast<core::ExpandDimsOp>(op)) {
    inner.erase(inner.begin() + expand.getAxis());
    return readMask(access, expand.getSource(), inner, isKnown);
  }
  auto compare = dyn_cast<arith::CmpIOp>(op);
  if (!compare)
    return false;
  std::optional<Comparison> comparison = comparisonOf(compare, isKnown);
  if (!comparison)
    return false;
  AccessDim &dim = access.dims[size_t(inner[size_t(comparison->dim)])];
  if (!sameSum(comparison->start, dim.start)) {
    std::optional<int64_t> kept = keptByMask(mask, comparison->dim);
    dim.kept = kept && (!dim.kept || *kept < dim.kept) ? *kept : dim.kept;
    return kept.has_value();
  }
  if (!comparison->extent)
    return false;
  if (!comparison->isUpper) {
    dim.startsBefore = true;
    return true;
  }
  if (dim.extent)
    return false;
  dim.extent = comparison->extent;
  return true;
}

/// A product of which a hint says what divides it.
struct Promise {
  AffineTerm product;
  int64_t divisor;
};

// The hints that an address is computed through.
void collectPromises(Value address, SmallVectorImpl<Promise> &promises,
                     DenseSet<Operation *> &seen) {
  Operation *op = address.getDefiningOp();
  if (!op || op->getNumRegions() || !isMemoryEffectFree(op) || !seen.insert(op).second)
    return;
  if (auto hint = dyn_cast<core::HintOp>(op); hint && hint.getDivisibility().size() == 1)
    if (MaybeSum sum = sumOfValue(hint.getSource()); sum && sum->size() == 1)
      promises.push_back({sum->front(), hint.getDivisibility()[0]});
  for (Value operand : op->getOperands())
    collectPromises(operand, promises, seen);
}

int64_t divisorOf(const AffineTerm &stride, ArrayRef<Promise> promises) {
  int64_t divisor = stride.factor & -stride.factor;
  for (Value scalar : stride.scalars) {
    auto argument = dyn_cast<BlockArgument>(scalar);
    auto function =
        argument ? dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp()) : func::FuncOp();
    if (!function)
      continue;
    if (auto attr =
            function.getArgAttrOfType<IntegerAttr>(argument.getArgNumber(), "core.divisibility"))
      divisor *= attr.getInt();
  }
  for (const Promise &promise : promises)
    if (promise.product.sameAs(stride) && promise.product.factor == stride.factor)
      divisor = std::max(divisor, promise.divisor);
  return divisor;
}

bool isAlignedBase(Value base) {
  if (!isArgument(base))
    return isPromisedBase(base);
  auto argument = cast<BlockArgument>(base);
  auto function = cast<func::FuncOp>(argument.getOwner()->getParentOp());
  auto aligned =
      function.getArgAttrOfType<IntegerAttr>(argument.getArgNumber(), "core.divisibility");
  return aligned && aligned.getInt() % 16 == 0;
}

// Bases and strides of tensor maps are multiples of 16 bytes.
bool isAligned(const AffineAccess &access, ArrayRef<Promise> promises) {
  int64_t bytes = access.element.getIntOrFloatBitWidth() / 8;
  return isAlignedBase(access.base) &&
         llvm::all_of(llvm::drop_begin(access.dims), [&](const AccessDim &dim) {
           return divisorOf(dim.stride, promises) * bytes % 16 == 0;
         });
}

} // namespace

std::optional<AffineAccess> affineAccess(core::LoadOp load, MadeBy maker) {
  if (load.getIsVolatile() || (load.getOther() && !isSplatOfZero(load.getOther())))
    return std::nullopt;
  return affineAccess(load.getPointer(), load.getMask(), maker);
}

std::optional<AffineAccess> affineAccess(Value pointers, Value mask, MadeBy maker) {
  auto tile = dyn_cast<RankedTensorType>(pointers.getType());
  if (!tile || tile.getRank() != 2)
    return std::nullopt;
  Type element = cast<core::PointerType>(tile.getElementType()).getPointee();
  if (!element.isIntOrFloat() || element.getIntOrFloatBitWidth() < 8)
    return std::nullopt;
  auto pointer = sumOfPointer(pointers, maker == MadeBy::Kernel);
  if (!pointer)
    return std::nullopt;
  Operation *op = pointers.getDefiningOp();
  auto loop = op ? op->getParentOfType<LoopLikeOpInterface>() : LoopLikeOpInterface();
  auto isKnown = [&](Value scalar) {
    return maker == MadeBy::Launcher ? launcherKnows(scalar)
                                     : loop && loop.isDefinedOutsideOfLoop(scalar);
  };
  AffineAccess access{maker, pointer->base, element, {}, 0};
  // One term a dimension of the tile: its stride.
  AffineTerm strides[2];
  int found[2] = {0, 0};
  for (const AffineTerm &term : pointer->offset)
    if (term.dim >= 0) {
      strides[term.dim] = {term.factor, term.scalars, -1};
      ++found[term.dim];
    }
  if (found[0] != 1 || found[1] != 1)
    return std::nullopt;
  auto isUnit = [](const AffineTerm &term) { return term.factor == 1 && term.scalars.empty(); };
  if (!isUnit(strides[0]) && !isUnit(strides[1]))
    return std::nullopt;
  access.fastest = isUnit(strides[1]) ? 1 : 0;
  unsigned slow = 1 - access.fastest;
  if (!isKnown(pointer->base))
    return std::nullopt;
  for (Value scalar : strides[slow].scalars)
    if (maker == MadeBy::Launcher ? !isArgument(scalar) : !isKnown(scalar))
      return std::nullopt;
  access.dims.push_back({strides[access.fastest], {}, {}, tile.getDimSize(access.fastest)});
  access.dims.push_back({strides[slow], {}, {}, tile.getDimSize(slow)});
  MaskedStarts starts{startInMask(mask, int(access.fastest), isKnown),
                      startInMask(mask, int(slow), isKnown)};
  SmallVector<Promise> promises;
  if (maker == MadeBy::Kernel) {
    DenseSet<Operation *> seen;
    collectPromises(pointers, promises, seen);
  }
  if (!distribute(access, pointer->offset, starts) || !isAligned(access, promises))
    return std::nullopt;
  SmallVector<int> place = {access.fastest == 0 ? 0 : 1, access.fastest == 0 ? 1 : 0};
  if (mask && !readMask(access, mask, place, isKnown))
    return std::nullopt;
  auto isReady = [&](const AccessDim &dim) { return !dim.extent || isKnown(dim.extent); };
  if (maker == MadeBy::Kernel && !llvm::all_of(access.dims, isReady))
    return std::nullopt;
  return access;
}

std::optional<int64_t> keptByMask(Value mask, int dim) {
  Operation *op = mask ? mask.getDefiningOp() : nullptr;
  if (!op)
    return std::nullopt;
  if (isa<arith::AndIOp>(op)) {
    auto lhs = keptByMask(op->getOperand(0), dim), rhs = keptByMask(op->getOperand(1), dim);
    return lhs && rhs ? std::min(*lhs, *rhs) : lhs ? lhs : rhs;
  }
  if (auto repeat = dyn_cast<core::BroadcastOp>(op))
    return keptByMask(repeat.getSource(), dim);
  if (auto expand = dyn_cast<core::ExpandDimsOp>(op)) {
    int axis = int(expand.getAxis());
    return axis == dim ? std::nullopt : keptByMask(expand.getSource(), dim - (axis < dim));
  }
  auto compare = dyn_cast<arith::CmpIOp>(op);
  if (!compare || compare.getPredicate() != arith::CmpIPredicate::slt)
    return std::nullopt;
  auto along = indexAlong(compare.getLhs());
  DenseElementsAttr bound;
  if (!along || along->first != dim || !along->second.empty() ||
      !matchPattern(compare.getRhs(), m_Constant(&bound)) || !bound.isSplat())
    return std::nullopt;
  return bound.getSplatValue<APInt>().getSExtValue();
}

// A map cannot have an extent of 0: the launcher makes it 1. What starts far outside reads as 0.
Value emitStart(OpBuilder &b, Location loc, const AccessDim &dim) {
  Value start = emitSum(b, loc, dim.start);
  if (!dim.extent || matchPattern(dim.extent, m_Constant()))
    return start;
  Value none = arith::ConstantOp::create(b, loc, b.getZeroAttr(dim.extent.getType()));
  Value isEmpty = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sle, dim.extent, none);
  Value outside = arith::ConstantIntOp::create(b, loc, 1 << 30, 32);
  return arith::SelectOp::create(b, loc, isEmpty, outside, start);
}

} // namespace tilery::nvidia
