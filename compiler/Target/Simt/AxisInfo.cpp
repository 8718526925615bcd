// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Target/Simt/AxisInfo.h"

#include "compiler/Dialect/Core/IR/Core.h"
#include "compiler/Dialect/Device/IR/Device.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/TypeSwitch.h"

#include <numeric>

using namespace mlir;

namespace tilery::simt {
namespace {

constexpr int64_t Most = 1 << 20;

int64_t lowestBit(int64_t value) {
  return value == 0 ? Most : std::min<int64_t>(Most, value & -value);
}

AxisInfo unknown(unsigned rank) {
  rank = std::max(1u, rank);
  return {AxisInfo::List(rank, 1), AxisInfo::List(rank, 1), AxisInfo::List(rank, 1)};
}

unsigned rankOf(Value value) { return unsigned(core::shapeOf(value.getType()).size()); }

AxisInfo uniform(Type type, int64_t divisor) {
  AxisInfo info = unknown(unsigned(core::shapeOf(type).size()));
  for (auto [dim, extent] : llvm::enumerate(core::shapeOf(type)))
    info.constancy[dim] = extent;
  info.divisibility.assign(info.divisibility.size(), divisor);
  return info;
}

// What every value divides by, not only the first of each run.
int64_t everyDivisor(const AxisInfo &info, unsigned dim) {
  return info.contiguity[dim] > 1 ? 1 : info.divisibility[dim];
}

int64_t everyDivisor(const AxisInfo &info) {
  int64_t best = 1;
  for (unsigned dim = 0; dim < info.contiguity.size(); ++dim) {
    if (info.contiguity[dim] > 1)
      return 1;
    best = std::max(best, info.divisibility[dim]);
  }
  return best;
}

// The divisor of the first values of runs that were cut to `length`.
int64_t divisorOfRuns(const AxisInfo &info, unsigned dim, int64_t length) {
  if (info.contiguity[dim] <= length)
    return info.divisibility[dim];
  return std::gcd(info.divisibility[dim], length);
}

AxisInfo sum(const AxisInfo &a, const AxisInfo &b, int64_t scaleOfB = 1) {
  AxisInfo info = unknown(unsigned(a.contiguity.size()));
  for (unsigned d = 0; d < info.contiguity.size(); ++d) {
    int64_t run = std::max(std::gcd(a.contiguity[d], b.constancy[d]),
                           std::gcd(a.constancy[d], b.contiguity[d]));
    info.contiguity[d] = run;
    info.constancy[d] = std::gcd(a.constancy[d], b.constancy[d]);
    info.divisibility[d] = std::gcd(divisorOfRuns(a, d, run),
                                    std::min(Most, divisorOfRuns(b, d, run) * scaleOfB));
  }
  return info;
}

AxisInfo difference(const AxisInfo &a, const AxisInfo &b) {
  AxisInfo info = unknown(unsigned(a.contiguity.size()));
  for (unsigned d = 0; d < info.contiguity.size(); ++d) {
    int64_t run = std::gcd(a.contiguity[d], b.constancy[d]);
    info.contiguity[d] = run;
    info.constancy[d] = std::gcd(a.constancy[d], b.constancy[d]);
    info.divisibility[d] = std::gcd(divisorOfRuns(a, d, run), everyDivisor(b, d));
  }
  return info;
}

bool isOne(Value value) {
  APInt constant;
  if (auto splat = value.getDefiningOp<core::SplatOp>())
    return isOne(splat.getSource());
  return matchPattern(value, m_ConstantInt(&constant)) && constant.isOne();
}

AxisInfo product(Value lhs, Value rhs, const AxisInfo &a, const AxisInfo &b) {
  if (isOne(rhs))
    return a;
  if (isOne(lhs))
    return b;
  AxisInfo info = unknown(unsigned(a.contiguity.size()));
  for (unsigned d = 0; d < info.contiguity.size(); ++d) {
    info.constancy[d] = std::gcd(a.constancy[d], b.constancy[d]);
    info.divisibility[d] = std::min(Most, everyDivisor(a, d) * everyDivisor(b, d));
  }
  return info;
}

AxisInfo remainder(const AxisInfo &a, const AxisInfo &b) {
  AxisInfo info = unknown(unsigned(a.contiguity.size()));
  for (unsigned d = 0; d < info.contiguity.size(); ++d) {
    int64_t whole = std::gcd(a.divisibility[d], everyDivisor(b, d));
    info.contiguity[d] = b.constancy[d] >= a.contiguity[d] ? std::gcd(a.contiguity[d], whole) : 1;
    info.divisibility[d] = divisorOfRuns(a, d, info.contiguity[d]);
    info.divisibility[d] = std::gcd(info.divisibility[d], everyDivisor(b, d));
    info.constancy[d] = std::gcd(a.constancy[d], b.constancy[d]);
  }
  return info;
}

AxisInfo quotient(const AxisInfo &a, const AxisInfo &b) {
  AxisInfo info = unknown(unsigned(a.contiguity.size()));
  for (unsigned d = 0; d < info.contiguity.size(); ++d) {
    info.constancy[d] = std::gcd(a.constancy[d], b.constancy[d]);
    int64_t aligned = std::gcd(std::gcd(a.contiguity[d], a.divisibility[d]), everyDivisor(b, d));
    if (b.constancy[d] >= a.contiguity[d])
      info.constancy[d] = std::max(info.constancy[d], aligned);
  }
  return info;
}

// x < n is the same for all of an aligned run of x when its start and n divide by its length.
AxisInfo comparison(arith::CmpIOp op, AxisInfo a, AxisInfo b) {
  using P = arith::CmpIPredicate;
  P predicate = op.getPredicate();
  AxisInfo info = unknown(rankOf(op));
  bool leftRuns = predicate == P::slt || predicate == P::sge || predicate == P::ult ||
                  predicate == P::uge;
  bool rightRuns = predicate == P::sgt || predicate == P::sle || predicate == P::ugt ||
                   predicate == P::ule;
  for (unsigned d = 0; d < info.contiguity.size(); ++d) {
    int64_t equal = std::gcd(a.constancy[d], b.constancy[d]);
    const AxisInfo &run = leftRuns ? a : b, &bound = leftRuns ? b : a;
    int64_t whole = 1;
    if ((leftRuns || rightRuns) && bound.constancy[d] >= run.contiguity[d])
      whole = std::gcd(std::gcd(run.contiguity[d], run.divisibility[d]), everyDivisor(bound, d));
    info.constancy[d] = std::max(equal, whole);
  }
  return info;
}

AxisInfo meet(const AxisInfo &a, const AxisInfo &b) {
  AxisInfo info = unknown(unsigned(a.contiguity.size()));
  for (unsigned d = 0; d < info.contiguity.size(); ++d) {
    int64_t run = std::gcd(a.contiguity[d], b.contiguity[d]);
    info.contiguity[d] = run;
    info.divisibility[d] = std::gcd(divisorOfRuns(a, d, run), divisorOfRuns(b, d, run));
    info.constancy[d] = std::gcd(a.constancy[d], b.constancy[d]);
  }
  return info;
}

AxisInfo onlyConstancy(ArrayRef<AxisInfo> operands, unsigned rank) {
  AxisInfo info = unknown(rank);
  if (operands.empty())
    return info;
  for (unsigned d = 0; d < info.constancy.size(); ++d) {
    info.constancy[d] = operands[0].constancy[d];
    for (const AxisInfo &operand : operands)
      info.constancy[d] = std::gcd(info.constancy[d], operand.constancy[d]);
  }
  return info;
}

int64_t pointeeBytes(Value pointer) {
  Type element = getElementTypeOrSelf(pointer.getType());
  Type pointee;
  if (auto core = dyn_cast<core::PointerType>(element))
    pointee = core.getPointee();
  else if (auto symm = dyn_cast<device::SymmType>(element))
    pointee = symm.getPointee();
  return pointee && pointee.isIntOrFloat() ? (pointee.getIntOrFloatBitWidth() + 7) / 8 : 8;
}

AxisInfo range(core::RangeOp op) {
  AxisInfo info = unknown(1);
  info.contiguity[0] = int64_t(op.getEnd()) - int64_t(op.getStart());
  info.divisibility[0] = lowestBit(int32_t(op.getStart()));
  return info;
}

AxisInfo constant(arith::ConstantOp op) {
  Attribute value = op.getValue();
  if (auto splat = dyn_cast<SplatElementsAttr>(value))
    value = splat.getSplatValue<Attribute>();
  if (auto integer = dyn_cast<IntegerAttr>(value))
    return uniform(op.getType(), lowestBit(integer.getValue().getSExtValue()));
  return isa<ElementsAttr>(value) ? unknown(rankOf(op)) : uniform(op.getType(), 1);
}

AxisInfo expandDims(core::ExpandDimsOp op, AxisInfo info) {
  if (rankOf(op.getSource()) == 0)
    return unknown(rankOf(op));
  int64_t divisor = everyDivisor(info);
  unsigned axis = op.getAxis();
  info.contiguity.insert(info.contiguity.begin() + axis, 1);
  info.divisibility.insert(info.divisibility.begin() + axis, divisor);
  info.constancy.insert(info.constancy.begin() + axis, 1);
  return info;
}

AxisInfo broadcast(core::BroadcastOp op, AxisInfo info) {
  ArrayRef<int64_t> from = core::shapeOf(op.getSource().getType()), to = core::shapeOf(op.getType());
  for (unsigned d = 0; d < to.size(); ++d)
    if (from[d] != to[d])
      info.constancy[d] = to[d];
  return info;
}

AxisInfo transpose(core::TransOp op, const AxisInfo &from) {
  AxisInfo info = unknown(rankOf(op));
  for (auto [d, source] : llvm::enumerate(op.getOrder())) {
    info.contiguity[d] = from.contiguity[source];
    info.divisibility[d] = from.divisibility[source];
    info.constancy[d] = from.constancy[source];
  }
  return info;
}

AxisInfo hinted(core::HintOp op, AxisInfo info) {
  auto raise = [](AxisInfo::List &list, ArrayRef<int32_t> promised) {
    for (auto [entry, promise] : llvm::zip(list, promised))
      entry = std::max<int64_t>(entry, promise);
  };
  raise(info.contiguity, op.getContiguity());
  raise(info.divisibility, op.getDivisibility());
  raise(info.constancy, op.getConstancy());
  return info;
}

} // namespace

AxisInfo AxisAnalysis::computeOp(Operation *op) {
  auto operand = [&](unsigned i) { return of(op->getOperand(i)); };
  unsigned rank = rankOf(op->getResult(0));
  return llvm::TypeSwitch<Operation *, AxisInfo>(op)
      .Case([&](core::RangeOp range_) { return range(range_); })
      .Case([&](arith::ConstantOp value) { return constant(value); })
      .Case([&](core::SplatOp splat) { return uniform(splat.getType(), everyDivisor(operand(0))); })
      .Case([&](core::ExpandDimsOp expand) { return expandDims(expand, operand(0)); })
      .Case([&](core::BroadcastOp repeat) { return broadcast(repeat, operand(0)); })
      .Case([&](core::TransOp trans) { return transpose(trans, operand(0)); })
      .Case([&](core::HintOp hint) { return hinted(hint, operand(0)); })
      .Case([&](core::AddPtrOp add) {
        return sum(operand(0), operand(1), pointeeBytes(add.getPointer()));
      })
      .Case<core::PtrCastOp, device::LocalOp, device::SymmAtOp>([&](auto) {
        // A symmetric object lies equally far into every rank's heap, whose start is aligned.
        AxisInfo info = operand(0);
        return info;
      })
      .Case<arith::ExtSIOp, arith::ExtUIOp, arith::TruncIOp, arith::IndexCastOp>(
          [&](auto) { return operand(0); })
      .Case<arith::AddIOp>([&](auto) { return sum(operand(0), operand(1)); })
      .Case<arith::SubIOp>([&](auto) { return difference(operand(0), operand(1)); })
      .Case([&](arith::MulIOp mul) {
        return product(mul.getLhs(), mul.getRhs(), operand(0), operand(1));
      })
      .Case<arith::RemSIOp, arith::RemUIOp>([&](auto) { return remainder(operand(0), operand(1)); })
      .Case<arith::DivSIOp, arith::DivUIOp>([&](auto) { return quotient(operand(0), operand(1)); })
      .Case([&](arith::CmpIOp compare) { return comparison(compare, operand(0), operand(1)); })
      .Default([&](Operation *other) {
        if (!isa<arith::ArithDialect, math::MathDialect>(other->getDialect()))
          return unknown(rank);
        SmallVector<AxisInfo> operands;
        for (Value value : other->getOperands())
          if (rankOf(value) == rank)
            operands.push_back(of(value));
        return onlyConstancy(operands, rank);
      });
}

AxisInfo AxisAnalysis::computeArgument(BlockArgument argument) {
  unsigned rank = rankOf(argument);
  Operation *parent = argument.getOwner()->getParentOp();
  if (auto function = dyn_cast<func::FuncOp>(parent)) {
    auto divisor = function.getArgAttrOfType<IntegerAttr>(argument.getArgNumber(),
                                                          "core.divisibility");
    AxisInfo info = unknown(rank);
    info.divisibility[0] = divisor ? divisor.getInt() : pointeeBytes(argument);
    if (!core::isPointerLike(argument.getType()) && !divisor)
      info.divisibility[0] = 1;
    return info;
  }
  auto loop = dyn_cast<scf::ForOp>(parent);
  if (!loop)
    return unknown(rank);
  if (argument == loop.getInductionVar())
    return sum(of(loop.getLowerBound()), of(loop.getStep()));
  // The greatest fixed point below what the initial value promises.
  AxisInfo info = of(loop.getInits()[argument.getArgNumber() - 1]);
  while (true) {
    AxisAnalysis assumed;
    assumed.known = known;
    assumed.known[argument] = info;
    Value next = loop.getYieldedValues()[argument.getArgNumber() - 1];
    AxisInfo both = meet(info, assumed.of(next));
    if (both == info)
      return info;
    info = both;
  }
}

AxisInfo AxisAnalysis::compute(Value value) {
  if (auto argument = dyn_cast<BlockArgument>(value))
    return computeArgument(argument);
  return computeOp(value.getDefiningOp());
}

AxisInfo AxisAnalysis::of(Value value) {
  auto found = known.find(value);
  if (found != known.end())
    return found->second;
  // Answers questions that come back here by way of a loop.
  known[value] = unknown(rankOf(value));
  AxisInfo info = compute(value);
  known[value] = info;
  return info;
}

unsigned AxisAnalysis::fastestDim(Value pointer) {
  AxisInfo info = of(pointer);
  unsigned best = unsigned(info.contiguity.size()) - 1;
  for (unsigned d = 0; d < info.contiguity.size(); ++d)
    if (info.contiguity[d] > info.contiguity[best])
      best = d;
  return best;
}

unsigned AxisAnalysis::vectorWidth(Value pointer, Value mask, unsigned dim) {
  AxisInfo info = of(pointer);
  int64_t bytes = pointeeBytes(pointer);
  int64_t width = std::min<int64_t>(info.contiguity[dim], 16 / std::min<int64_t>(bytes, 16));
  width = std::min(width, std::max<int64_t>(1, info.divisibility[dim] / bytes));
  if (mask)
    width = std::min(width, of(mask).constancy[dim]);
  return unsigned(std::max<int64_t>(1, width));
}

} // namespace tilery::simt
