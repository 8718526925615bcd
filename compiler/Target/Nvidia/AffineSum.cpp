// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Sums of products, and how integers and pointers of the IR are read as them.
#include "compiler/Target/Nvidia/AffineSum.h"

#include "compiler/Dialect/Device/IR/Device.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;

namespace tilery::nvidia {

//===-- Sums ---------------------------------------------------------------------------------------===//

static constexpr size_t MostTerms = 16;
void addTerm(AffineSum &sum, AffineTerm term, int64_t sign) {
  term.factor *= sign;
  for (AffineTerm &present : sum)
    if (present.sameAs(term)) {
      present.factor += term.factor;
      return;
    }
  sum.push_back(std::move(term));
}

static AffineSum simplified(AffineSum sum) {
  llvm::erase_if(sum, [](const AffineTerm &term) { return term.factor == 0; });
  return sum;
}

AffineSum sumOf(AffineSum lhs, const AffineSum &rhs, int64_t sign) {
  for (const AffineTerm &term : rhs)
    addTerm(lhs, term, sign);
  return simplified(std::move(lhs));
}

static MaybeSum productOf(const AffineSum &lhs, const AffineSum &rhs) {
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

static AffineSum constantSum(int64_t value) {
  AffineSum sum;
  if (value)
    sum.push_back({value, {}, -1});
  return sum;
}

//===-- From IR ----------------------------------------------------------------------------------------===//

// A counter that a loop carries beside its induction variable: init + (iv - lower) / step * stride.
static MaybeSum carriedSum(scf::ForOp loop, BlockArgument argument) {
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

static MaybeSum leaf(Value value) {
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
static AffineSum renumbered(AffineSum sum, llvm::function_ref<int(int)> place) {
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

bool isArgument(Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  return argument && isa<func::FuncOp>(argument.getOwner()->getParentOp());
}

bool isPromisedBase(Value pointer) {
  auto hint = pointer.getDefiningOp<core::HintOp>();
  return hint && isa<core::PointerType>(pointer.getType()) && hint.getDivisibility().size() == 1 &&
         hint.getDivisibility()[0] % 16 == 0;
}

std::optional<PointerSum> sumOfPointer(Value pointer, bool fromPromise) {
  Operation *op = pointer.getDefiningOp();
  if (!op && (fromPromise || !isArgument(pointer)))
    return std::nullopt;
  if (!op || (fromPromise && isPromisedBase(pointer)))
    return PointerSum{pointer, {}};
  auto inner = [&] { return sumOfPointer(op->getOperand(0), fromPromise); };
  if (isa<core::SplatOp, core::HintOp, device::LocalOp>(op))
    return inner();
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
