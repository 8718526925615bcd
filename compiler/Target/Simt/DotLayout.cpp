// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Target/Simt/DotLayout.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace tilery::simt {
namespace {

struct Extents {
  int64_t m, n, k;
};

RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }

Extents extentsOf(core::DotOp dot) {
  auto lhs = typeOf(dot.getLhs()), rhs = typeOf(dot.getRhs());
  int64_t rank = lhs.getRank();
  return {lhs.getDimSize(rank - 2), rhs.getDimSize(rank - 1), lhs.getDimSize(rank - 1)};
}

/// Moves a row-major index of a small tile of `columns` into a tile of `toColumns`; what lies
/// outside of the larger tile's `toRows` x `toColumns` becomes 0, a copy.
int32_t placed(int32_t index, int64_t columns, int64_t toRows, int64_t toColumns) {
  int32_t row = int32_t(index / columns), column = int32_t(index % columns);
  if (row >= toRows || column >= toColumns)
    return 0;
  return int32_t(row * toColumns + column);
}

Bases placed(ArrayRef<int32_t> bases, int64_t columns, int64_t toRows, int64_t toColumns) {
  Bases result;
  for (int32_t base : bases)
    result.push_back(placed(base, columns, toRows, toColumns));
  return result;
}

// Further registers walk over the rest of a rows x columns tile from (row, column) on.
void addRepetitions(Bases &registers, int64_t row, int64_t rows, int64_t column, int64_t columns) {
  for (; column < columns; column *= 2)
    registers.push_back(int32_t(column));
  for (; row < rows; row *= 2)
    registers.push_back(int32_t(row * columns));
}

bool isPerElement(Operation *op) {
  return isa<arith::ArithDialect, math::MathDialect>(op->getDialect()) && op->getNumResults() == 1;
}

// The result, after operations on its elements, is another product's left operand.
bool leadsToDot(Value result) {
  llvm::SetVector<Value> values;
  values.insert(result);
  for (unsigned i = 0; i < values.size(); ++i)
    for (OpOperand &use : values[i].getUses()) {
      if (isa<core::DotOp>(use.getOwner()) && use.getOperandNumber() == 0)
        return true;
      if (isPerElement(use.getOwner()))
        values.insert(use.getOwner()->getResult(0));
    }
  return false;
}

bool comesFromDot(Value operand) {
  llvm::SetVector<Value> values;
  values.insert(operand);
  for (unsigned i = 0; i < values.size(); ++i) {
    Operation *op = values[i].getDefiningOp();
    if (op && isa<core::DotOp>(op))
      return true;
    if (op && isPerElement(op))
      values.insert(op->operand_begin(), op->operand_end());
  }
  return false;
}

} // namespace

std::optional<MatrixInstruction> instructionFor(core::DotOp dot, const Machine &machine) {
  if (typeOf(dot.getLhs()).getRank() != 2)
    return std::nullopt;
  auto instruction = machine.matrixInstruction(typeOf(dot.getLhs()).getElementType(),
                                               typeOf(dot.getAccumulator()).getElementType(),
                                               dot.getPrecision());
  // Rows and columns that are missing can be copies of others; depth that is missing cannot.
  if (instruction && extentsOf(dot).k < instruction->k)
    return std::nullopt;
  return instruction;
}

LinearLayout dotLayout(core::DotOp dot, const Machine &machine, unsigned warpBits) {
  auto acc = typeOf(dot.getAccumulator());
  auto instruction = instructionFor(dot, machine);
  if (!instruction)
    return defaultLayout(acc.getShape(), acc.getElementType().getIntOrFloatBitWidth(),
                         machine.laneBits(), warpBits);
  Extents e = extentsOf(dot);
  LinearLayout layout;
  layout.registers = placed(instruction->accRegisters, instruction->n, e.m, e.n);
  layout.lanes = placed(instruction->accLanes, instruction->n, e.m, e.n);
  // Warps divide the longer side first, so that both operands are read as little as possible. Of two
  // chained products (attention) each warp has whole rows: what one gives is in the registers that the
  // other takes, and reductions along rows stay within warps.
  bool isChained = leadsToDot(dot.getResult()) || comesFromDot(dot.getLhs());
  int64_t row = instruction->m, column = instruction->n;
  for (unsigned bit = 0; bit < warpBits; ++bit) {
    bool rowsLeft = row < e.m, columnsLeft = column < e.n;
    if (rowsLeft && (!columnsLeft || isChained || e.m / row >= e.n / column)) {
      layout.warps.push_back(int32_t(row * e.n));
      row *= 2;
    } else {
      layout.warps.push_back(columnsLeft ? int32_t(column) : 0);
      column *= columnsLeft ? 2 : 1;
    }
  }
  addRepetitions(layout.registers, row, e.m, column, e.n);
  return withoutCopies(layout);
}

// From the accumulator: an operand's warps follow its rows (columns), copies along the others.
DotOperandLayouts dotOperandLayouts(core::DotOp dot, const Machine &machine,
                                    const LinearLayout &acc) {
  auto instruction = instructionFor(dot, machine);
  unsigned warpBits = unsigned(acc.warps.size());
  auto plain = [&](Value operand) {
    auto type = typeOf(operand);
    return defaultLayout(type.getShape(), type.getElementType().getIntOrFloatBitWidth(),
                         machine.laneBits(), warpBits);
  };
  if (!instruction)
    return {plain(dot.getLhs()), plain(dot.getRhs())};
  Extents e = extentsOf(dot);
  DotOperandLayouts layouts;
  layouts.lhs.registers = placed(instruction->lhsRegisters, instruction->k, e.m, e.k);
  layouts.lhs.lanes = placed(instruction->lhsLanes, instruction->k, e.m, e.k);
  layouts.rhs.registers = placed(instruction->rhsRegisters, instruction->n, e.k, e.n);
  layouts.rhs.lanes = placed(instruction->rhsLanes, instruction->n, e.k, e.n);
  int64_t row = instruction->m, column = instruction->n;
  for (int32_t warp : acc.warps) {
    int32_t warpRow = warp / int32_t(e.n), warpColumn = warp % int32_t(e.n);
    layouts.lhs.warps.push_back(warpRow * int32_t(e.k));
    layouts.rhs.warps.push_back(warpColumn);
    row *= warpRow ? 2 : 1;
    column *= warpColumn ? 2 : 1;
  }
  addRepetitions(layouts.lhs.registers, row, e.m, instruction->k, e.k);
  addRepetitions(layouts.rhs.registers, instruction->k, e.k, column, e.n);
  layouts.lhs = withoutCopies(layouts.lhs);
  layouts.rhs = withoutCopies(layouts.rhs);
  return layouts;
}

} // namespace tilery::simt
