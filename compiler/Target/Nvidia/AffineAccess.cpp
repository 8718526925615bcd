// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Target/Nvidia/AffineAccess.h"

#include "compiler/Dialect/Device/IR/Device.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;

namespace tilery::nvidia {
namespace {

//===-- Sums ---------------------------------------------------------------------------------------===//

constexpr size_t MostTerms = 16;
using MaybeSum = std::optional<AffineSum>;

void addTerm(AffineSum &sum, AffineTerm term, int64_t sign = 1) {
  term.factor *= sign;
  for (AffineTerm &present : sum)
    if (present.sameAs(term)) {
      present.factor += term.factor;
      return;
    }
  sum.push_back(std::move(term));
}

AffineSum simplified(AffineSum sum) {
  llvm::erase_if(sum, [](const AffineTerm &term) { return term.factor == 0; });
  return sum;
}

AffineSum sumOf(AffineSum lhs, const AffineSum &rhs, int64_t sign = 1) {
  for (const AffineTerm &term : rhs)
    addTerm(lhs, term, sign);
  return simplified(std::move(lhs));
}

MaybeSum productOf(const AffineSum &lhs, const AffineSum &rhs) {
  AffineSum result;
  for (const AffineTerm &x : lhs)
    for (const AffineTerm &y : rhs) {
      if (x.dim >= 0 && y.dim >= 0)
        return std::nullopt;
      AffineTerm term{x.factor * y.factor, x.scalars, std::max(x.dim, y.dim)};
      llvm::append_range(term.scalars, y.scalars);
      llvm::sort(term.scalars, [](Value a, Value b) {
        return a.getAsOpaquePointer() < b.getAsOpaquePointer();
      });
      addTerm(result, std::move(term));
    }
  if (result.size() > MostTerms)
    return std::nullopt;
  return simplified(std::move(result));
}

bool sameSum(const AffineSum &a, const AffineSum &b) { return sumOf(a, b, -1).empty(); }

AffineSum constantSum(int64_t value) {
  AffineSum sum;
  if (value)
    sum.push_back({value, {}, -1});
  return sum;
}

//===-- From IR ----------------------------------------------------------------------------------------===//

MaybeSum sumOfValue(Value value);

// A counter that a loop carries beside its induction variable: init + (iv - lower) / step * stride.
MaybeSum carriedSum(scf::ForOp loop, BlockArgument argument) {
  unsigned position = argument.getArgNumber() - 1;
  auto add = loop.getYieldedValues()[position].getDefiningOp<arith::AddIOp>();
  APInt step;
  if (!add || add.getLhs() != argument || !matchPattern(loop.getStep(), m_ConstantInt(&step)) ||
      step.isZero())
    return std::nullopt;
  MaybeSum init = sumOfValue(loop.getInits()[position]), increment = sumOfValue(add.getRhs()),
           lower = sumOfValue(loop.getLowerBound());
  if (!init || !increment || !lower)
    return std::nullopt;
  for (AffineTerm &term : *increment) {
    if (term.factor % step.getSExtValue() != 0 || term.dim >= 0)
      return std::nullopt;
    for (Value scalar : term.scalars)
      if (!loop.isDefinedOutsideOfLoop(scalar))
        return std::nullopt;
    term.factor /= step.getSExtValue();
  }
  AffineSum steps = sumOf({{1, {loop.getInductionVar()}, -1}}, *lower, -1);
  MaybeSum walked = productOf(steps, *increment);
  if (!walked)
    return std::nullopt;
  return sumOf(*init, *walked);
}

MaybeSum leaf(Value value) {
  if (isa<RankedTensorType>(value.getType()))
    return std::nullopt;
  if (auto argument = dyn_cast<BlockArgument>(value))
    if (auto loop = dyn_cast<scf::ForOp>(argument.getOwner()->getParentOp()))
      if (argument != loop.getInductionVar())
        if (MaybeSum carried = carriedSum(loop, argument))
          return carried;
  return AffineSum{{1, {value}, -1}};
}

// Dimensions of the source of a moving operation, in the result's numbering.
AffineSum renumbered(AffineSum sum, llvm::function_ref<int(int)> place) {
  for (AffineTerm &term : sum)
    if (term.dim >= 0)
      term.dim = place(term.dim);
  return sum;
}

MaybeSum sumOfValue(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op)
    return leaf(value);
  APInt number;
  if (matchPattern(value, m_ConstantInt(&number)))
    return constantSum(number.getSExtValue());
  if (auto range = dyn_cast<core::RangeOp>(op)) {
    AffineSum sum = constantSum(int32_t(range.getStart()));
    sum.push_back({1, {}, 0});
    return sum;
  }
  auto source = [&](unsigned i) { return sumOfValue(op->getOperand(i)); };
  if (isa<core::SplatOp, core::BroadcastOp, core::HintOp, arith::ExtSIOp, arith::TruncIOp>(op)) {
    if (auto repeat = dyn_cast<core::BroadcastOp>(op)) {
      // The index along a dimension of extent 1 is 0.
      MaybeSum sum = source(0);
      ArrayRef<int64_t> shape = core::shapeOf(repeat.getSource().getType());
      if (sum)
        llvm::erase_if(*sum, [&](AffineTerm &t) { return t.dim >= 0 && shape[size_t(t.dim)] == 1; });
      return sum;
    }
    return source(0);
  }
  if (auto expand = dyn_cast<core::ExpandDimsOp>(op)) {
    MaybeSum sum = source(0);
    if (sum)
      sum = renumbered(*sum, [&](int dim) { return dim >= int(expand.getAxis()) ? dim + 1 : dim; });
    return sum;
  }
  if (auto trans = dyn_cast<core::TransOp>(op)) {
    MaybeSum sum = source(0);
    if (sum)
      sum = renumbered(*sum, [&](int dim) {
        return int(llvm::find(trans.getOrder(), dim) - trans.getOrder().begin());
      });
    return sum;
  }
  if (isa<arith::AddIOp, arith::SubIOp, arith::MulIOp>(op)) {
    MaybeSum lhs = source(0), rhs = source(1);
    if (!lhs || !rhs)
      return leaf(value);
    MaybeSum result = isa<arith::MulIOp>(op) ? productOf(*lhs, *rhs)
                                             : MaybeSum(sumOf(*lhs, *rhs, isa<arith::SubIOp>(op) ? -1 : 1));
    return result ? result : leaf(value);
  }
  return leaf(value);
}

struct PointerSum {
  BlockArgument base;
  AffineSum offset; ///< in elements
};

std::optional<PointerSum> sumOfPointer(Value pointer) {
  Operation *op = pointer.getDefiningOp();
  if (!op) {
    auto argument = cast<BlockArgument>(pointer);
    if (!isa<func::FuncOp>(argument.getOwner()->getParentOp()))
      return std::nullopt;
    return PointerSum{argument, {}};
  }
  if (isa<core::SplatOp, core::HintOp, device::LocalOp>(op))
    return sumOfPointer(op->getOperand(0));
  auto inner = [&] { return sumOfPointer(op->getOperand(0)); };
  if (auto repeat = dyn_cast<core::BroadcastOp>(op)) {
    auto sum = inner();
    ArrayRef<int64_t> shape = core::shapeOf(repeat.getSource().getType());
    if (sum)
      llvm::erase_if(sum->offset,
                     [&](AffineTerm &t) { return t.dim >= 0 && shape[size_t(t.dim)] == 1; });
    return sum;
  }
  if (auto expand = dyn_cast<core::ExpandDimsOp>(op)) {
    auto sum = inner();
    if (sum)
      sum->offset = renumbered(sum->offset,
                               [&](int dim) { return dim >= int(expand.getAxis()) ? dim + 1 : dim; });
    return sum;
  }
  if (isa<core::AddPtrOp>(op)) {
    auto sum = inner();
    MaybeSum offset = sumOfValue(op->getOperand(1));
    if (!sum || !offset)
      return std::nullopt;
    sum->offset = sumOf(sum->offset, *offset);
    return sum;
  }
  return std::nullopt;
}

std::optional<std::pair<int, AffineSum>> indexAlong(Value index);

//===-- Dimensions ----------------------------------------------------------------------------------------===//

bool isArgument(Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  return argument && isa<func::FuncOp>(argument.getOwner()->getParentOp());
}

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

// Gives each uniform term to the dimension whose stride it is a multiple of; products with another
// argument open a dimension of their own (batches, heads).
bool distribute(AffineAccess &access, const AffineSum &offset, const AffineSum &maskedStart) {
  for (const AffineTerm &term : offset) {
    if (term.dim >= 0)
      continue;
    AccessDim *owner = nullptr;
    std::optional<AffineTerm> index;
    if (llvm::any_of(maskedStart, [&](const AffineTerm &masked) {
          return masked.sameAs(term) && masked.factor == term.factor;
        })) {
      addTerm(access.dims.front().start, term);
      continue;
    }
    for (AccessDim &dim : llvm::drop_begin(access.dims))
      if (auto rest = dividedBy(term, dim.stride); rest && !dim.stride.scalars.empty()) {
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

// Where the mask says that the index along tile dimension `wanted` starts; empty when it does not say.
AffineSum startInMask(Value mask, int wanted) {
  Operation *op = mask ? mask.getDefiningOp() : nullptr;
  if (!op)
    return {};
  if (isa<arith::AndIOp>(op)) {
    AffineSum first = startInMask(op->getOperand(0), wanted);
    return first.empty() ? startInMask(op->getOperand(1), wanted) : first;
  }
  if (auto repeat = dyn_cast<core::BroadcastOp>(op))
    return startInMask(repeat.getSource(), wanted);
  if (auto expand = dyn_cast<core::ExpandDimsOp>(op)) {
    int axis = int(expand.getAxis());
    return axis == wanted ? AffineSum() : startInMask(expand.getSource(), wanted - (axis < wanted));
  }
  auto compare = dyn_cast<arith::CmpIOp>(op);
  if (!compare)
    return {};
  for (Value side : compare->getOperands())
    if (auto along = indexAlong(side); along && along->first == wanted)
      return along->second;
  return {};
}

// The mask must be a conjunction of `index < extent` (and `index >= 0`, which bulk copies imply) for
// the very indices that make the addresses. `place[d]` is the position of tile dimension d.
bool readMask(AffineAccess &access, Value mask, ArrayRef<int> place) {
  Operation *op = mask.getDefiningOp();
  if (!op)
    return false;
  if (isa<arith::AndIOp>(op))
    return readMask(access, op->getOperand(0), place) && readMask(access, op->getOperand(1), place);
  if (matchPattern(mask, m_One()))
    return true;
  SmallVector<int> inner(place);
  if (auto repeat = dyn_cast<core::BroadcastOp>(op))
    return readMask(access, repeat.getSource(), inner);
  if (auto expand = dyn_cast<core::ExpandDimsOp>(op)) {
    inner.erase(inner.begin() + expand.getAxis());
    return readMask(access, expand.getSource(), inner);
  }
  auto compare = dyn_cast<arith::CmpIOp>(op);
  if (!compare)
    return false;
  auto predicate = compare.getPredicate();
  Value index = compare.getLhs(), bound = compare.getRhs();
  if (predicate == arith::CmpIPredicate::sgt) {
    std::swap(index, bound);
    predicate = arith::CmpIPredicate::slt;
  }
  auto along = indexAlong(index);
  if (!along || along->first < 0)
    return false;
  AccessDim &dim = access.dims[size_t(inner[size_t(along->first)])];
  if (!sameSum(along->second, dim.start)) {
    std::optional<int64_t> kept = keptByMask(mask, along->first);
    dim.kept = kept && (!dim.kept || *kept < dim.kept) ? *kept : dim.kept;
    return kept.has_value();
  }
  if (predicate == arith::CmpIPredicate::sge)
    return isSplatOfZero(bound);
  if (predicate != arith::CmpIPredicate::slt || dim.extent)
    return false;
  OpBuilder b(compare);
  dim.extent = scalarOf(bound);
  if (!dim.extent)
    dim.extent = constantBound(b, bound);
  return bool(dim.extent);
}

int64_t divisorOf(const AffineTerm &stride) {
  int64_t divisor = stride.factor & -stride.factor;
  for (Value scalar : stride.scalars) {
    auto argument = cast<BlockArgument>(scalar);
    auto function = cast<func::FuncOp>(argument.getOwner()->getParentOp());
    if (auto attr = function.getArgAttrOfType<IntegerAttr>(argument.getArgNumber(),
                                                           "core.divisibility"))
      divisor *= attr.getInt();
  }
  return divisor;
}

// Bases and strides of tensor maps are multiples of 16 bytes.
bool isAligned(const AffineAccess &access) {
  auto function = cast<func::FuncOp>(access.base.getOwner()->getParentOp());
  auto aligned = function.getArgAttrOfType<IntegerAttr>(access.base.getArgNumber(),
                                                        "core.divisibility");
  int64_t bytes = access.element.getIntOrFloatBitWidth() / 8;
  return aligned && aligned.getInt() % 16 == 0 &&
         llvm::all_of(llvm::drop_begin(access.dims), [&](const AccessDim &dim) {
           return divisorOf(dim.stride) * bytes % 16 == 0;
         });
}

} // namespace

std::optional<AffineAccess> affineAccess(core::LoadOp load) {
  auto tile = dyn_cast<RankedTensorType>(load.getType());
  if (!tile || tile.getRank() != 2 || load.getIsVolatile() ||
      !tile.getElementType().isIntOrFloat() || tile.getElementTypeBitWidth() < 8)
    return std::nullopt;
  if (load.getOther() && !isSplatOfZero(load.getOther()))
    return std::nullopt;
  auto pointer = sumOfPointer(load.getPointer());
  if (!pointer)
    return std::nullopt;
  AffineAccess access{pointer->base, tile.getElementType(), {}, 0};
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
  for (Value scalar : strides[slow].scalars)
    if (!isArgument(scalar))
      return std::nullopt;
  access.dims.push_back({strides[access.fastest], {}, {}, tile.getDimSize(access.fastest)});
  access.dims.push_back({strides[slow], {}, {}, tile.getDimSize(slow)});
  if (!distribute(access, pointer->offset, startInMask(load.getMask(), int(access.fastest))) ||
      !isAligned(access))
    return std::nullopt;
  SmallVector<int> place = {access.fastest == 0 ? 0 : 1, access.fastest == 0 ? 1 : 0};
  if (load.getMask() && !readMask(access, load.getMask(), place))
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

Value emitSum(OpBuilder &b, Location loc, const AffineSum &sum) {
  auto narrow = [&](Value value) -> Value {
    unsigned bits = value.getType().getIntOrFloatBitWidth();
    if (bits > 32)
      return arith::TruncIOp::create(b, loc, b.getI32Type(), value);
    return bits < 32 ? arith::ExtSIOp::create(b, loc, b.getI32Type(), value).getResult() : value;
  };
  Value total;
  for (const AffineTerm &term : sum) {
    Value product = arith::ConstantIntOp::create(b, loc, term.factor, 32);
    for (Value scalar : term.scalars)
      product = arith::MulIOp::create(b, loc, product, narrow(scalar));
    total = total ? Value(arith::AddIOp::create(b, loc, total, product)) : product;
  }
  return total ? total : arith::ConstantIntOp::create(b, loc, 0, 32);
}

} // namespace tilery::nvidia
