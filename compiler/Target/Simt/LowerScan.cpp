// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Inclusive scans. The layout (AssignLayouts) keeps the axis within a warp: its low bits in
// registers, its high bits in lanes.
#include "compiler/Target/Simt/Lowering.h"

#include "llvm/Support/MathExtras.h"

namespace tilery::simt {

LogicalResult Lowering::lowerScan(core::ScanOp op) {
  auto type = cast<RankedTensorType>(op.getSources()[0].getType());
  LinearLayout layout = layoutOf(op.getSources()[0]);
  int32_t mask = axisMask(type.getShape(), op.getAxis());
  unsigned count = op.getSources().size(), registers = layout.numRegisters();
  unsigned axisRegisters = 0, axisLanes = 0, firstLaneBit = 0;
  for (int32_t base : layout.registers)
    axisRegisters += (base & mask) != 0;
  for (auto [i, base] : llvm::enumerate(layout.lanes))
    if (base & mask) {
      firstLaneBit = axisLanes ? firstLaneBit : unsigned(i);
      ++axisLanes;
    }
  unsigned run = 1u << axisRegisters; // registers of one line, in order along the axis
  SmallVector<Elements> tuples(registers);
  for (unsigned r = 0; r < registers; ++r)
    for (unsigned source = 0; source < count; ++source) {
      Value value = elements(op.getSources()[source])[r];
      Type element = getElementTypeOrSelf(op.getSources()[source].getType());
      tuples[r].push_back(isHalf(element) ? toF32(value, element) : value);
    }
  auto at = [&](unsigned line, unsigned i) -> Elements & {
    return tuples[line * run + (op.getReverse() ? run - 1 - i : i)];
  };
  auto select = [&](Value condition, const Elements &yes, const Elements &no) {
    Elements list;
    for (auto [x, y] : llvm::zip(yes, no))
      list.push_back(arith::SelectOp::create(b, loc, condition, x, y));
    return list;
  };
  Value axisLane = arith::AndIOp::create(
      b, loc, arith::ShRUIOp::create(b, loc, lane(), i32(firstLaneBit)), i32((1 << axisLanes) - 1));
  for (unsigned line = 0; line < registers / run; ++line) {
    for (unsigned i = 1; i < run; ++i)
      at(line, i) = combinePair(op.getCombine(), at(line, i - 1), at(line, i));
    // Totals of the lanes before this one (after it, in reverse), by doubling.
    Elements total = at(line, run - 1), before;
    for (unsigned step = 0; step < axisLanes; ++step) {
      Value distance = i32(int64_t(1) << (step + firstLaneBit));
      Value from = op.getReverse() ? arith::AddIOp::create(b, loc, lane(), distance).getResult()
                                   : arith::SubIOp::create(b, loc, lane(), distance).getResult();
      Elements other;
      for (Value value : total)
        other.push_back(shuffleFrom(value, from));
      auto predicate = op.getReverse() ? arith::CmpIPredicate::ult : arith::CmpIPredicate::uge;
      int64_t bound = op.getReverse() ? (1 << axisLanes) - (1 << step) : 1 << step;
      Value exists = arith::CmpIOp::create(b, loc, predicate, axisLane, i32(bound));
      total = select(exists, combinePair(op.getCombine(), other, total), total);
    }
    if (!axisLanes)
      continue;
    Value distance = i32(int64_t(1) << firstLaneBit);
    Value neighbour = op.getReverse() ? arith::AddIOp::create(b, loc, lane(), distance).getResult()
                                      : arith::SubIOp::create(b, loc, lane(), distance).getResult();
    for (Value value : total)
      before.push_back(shuffleFrom(value, neighbour));
    int64_t end = op.getReverse() ? (1 << axisLanes) - 1 : 0;
    Value hasBefore = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, axisLane, i32(end));
    for (unsigned i = 0; i < run; ++i)
      at(line, i) = select(hasBefore, combinePair(op.getCombine(), before, at(line, i)), at(line, i));
  }
  for (unsigned source = 0; source < count; ++source) {
    Type element = getElementTypeOrSelf(op.getSources()[source].getType());
    Elements list;
    for (Elements &tuple : tuples)
      list.push_back(isa<FloatType>(element) ? fromF32Or(tuple[source], element) : tuple[source]);
    define(op.getResult(source), std::move(list));
  }
  return success();
}

} // namespace tilery::simt
