// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Matrix products: by the warp's matrix instruction, else by multiply-adds on operands that all
// threads read from shared memory.
#include "compiler/Conversion/MathExpansion/MathExpansion.h"
#include "compiler/Target/Simt/DotLayout.h"
#include "compiler/Target/Simt/Lowering.h"

#include "llvm/Support/MathExtras.h"

namespace tilery::simt {

LogicalResult Lowering::lowerDot(core::DotOp op) {
  if (auto instruction = instructionFor(op, machine))
    return lowerMatrixDot(op, *instruction);
  return lowerSharedDot(op);
}

//===-- Matrix instructions --------------------------------------------------------------------------===//

namespace {
/// Which registers of a thread make one operand of one instruction.
struct Fragment {
  std::function<Value(unsigned)> valueOf; ///< of a register
  Span span;
  int64_t rows, columns, instructionColumns;

  Fragment(std::function<Value(unsigned)> valueOf, Value tile, int64_t instructionColumns)
      : valueOf(std::move(valueOf)), span(LinearLayout::of(tile.getType()).registers),
        rows(core::shapeOf(tile.getType())[0]), columns(core::shapeOf(tile.getType())[1]),
        instructionColumns(instructionColumns) {}

  // Of the element at `index` in the instruction's tile that starts at (row, column).
  unsigned registerOf(int32_t index, int64_t row, int64_t column) const {
    int64_t r = index / instructionColumns, c = index % instructionColumns;
    // What lies outside of a small tile is a copy of what lies inside.
    int64_t element = (row + (r < rows ? r : 0)) * columns + column + (c < columns ? c : 0);
    return *span.express(int32_t(element));
  }

  bool isOutside(int32_t base) const {
    return base / instructionColumns >= rows || base % instructionColumns >= columns;
  }

  Elements at(ArrayRef<int32_t> bases, int64_t row, int64_t column) const {
    Elements result;
    for (unsigned i = 0; i < 1u << bases.size(); ++i) {
      int32_t index = 0;
      for (auto [bit, base] : llvm::enumerate(bases))
        if (i >> bit & 1 && !isOutside(base))
          index ^= base;
      result.push_back(valueOf(registerOf(index, row, column)));
    }
    return result;
  }

  // Where the results of one instruction go; copies of what lies inside are dropped.
  void keep(ArrayRef<int32_t> bases, int64_t row, int64_t column, const Elements &results,
            Elements &list) const {
    for (unsigned i = 0; i < results.size(); ++i) {
      int32_t index = 0;
      for (auto [bit, base] : llvm::enumerate(bases))
        if (i >> bit & 1)
          index = isOutside(base) ? -1 : index < 0 ? index : index ^ base;
      if (index >= 0)
        list[registerOf(index, row, column)] = results[i];
    }
  }
};
} // namespace

// Rows (columns) that all warps together take at a time.
static std::pair<int64_t, int64_t> stepOf(const LinearLayout &acc, const MatrixInstruction &one,
                                          int64_t columns) {
  int64_t row = one.m, column = one.n;
  for (int32_t warp : acc.warps) {
    row *= warp / columns ? 2 : 1;
    column *= warp % columns ? 2 : 1;
  }
  return {row, column};
}

std::function<Value(unsigned)> Lowering::operandRegisters(Value operand) {
  auto read = operand.getDefiningOp<ReadSlotOp>();
  if (!read || !isReadByDot(read))
    return [list = elements(operand)](unsigned r) { return list[r]; };
  auto tile = std::make_shared<SharedTile>(slotTile(read));
  return [this, tile](unsigned r) { return loadRegister(*tile, r); };
}

LogicalResult Lowering::lowerMatrixDot(core::DotOp op, const MatrixInstruction &one) {
  LinearLayout acc = layoutOf(op.getResult());
  Elements sums = elements(op.getAccumulator());
  Fragment lhs(operandRegisters(op.getLhs()), op.getLhs(), one.k);
  Fragment rhs(operandRegisters(op.getRhs()), op.getRhs(), one.n);
  Fragment sum([&](unsigned r) { return sums[r]; }, op.getResult(), one.n);
  auto [rowStep, columnStep] = stepOf(acc, one, rhs.columns);
  // Operands in shared memory are read one step ahead of their products.
  auto fetch = [&](int64_t depth) {
    for (int64_t row = 0; row < lhs.rows && depth < lhs.columns; row += rowStep)
      lhs.at(one.lhsRegisters, row, depth);
    for (int64_t column = 0; column < rhs.columns && depth < rhs.rows; column += columnStep)
      rhs.at(one.rhsRegisters, depth, column);
  };
  fetch(0);
  for (int64_t depth = 0; depth < lhs.columns; depth += one.k) {
    fetch(depth + one.k);
    for (int64_t row = 0; row < lhs.rows; row += rowStep)
      for (int64_t column = 0; column < rhs.columns; column += columnStep) {
        Elements result = machine.emitMatrix(b, loc, one, lhs.at(one.lhsRegisters, row, depth),
                                             rhs.at(one.rhsRegisters, depth, column),
                                             sum.at(one.accRegisters, row, column));
        sum.keep(one.accRegisters, row, column, result, sums);
      }
  }
  define(op, std::move(sums));
  return success();
}

//===-- Multiply-adds -----------------------------------------------------------------------------------===//

// Each thread walks over the depth and keeps its elements of the result in registers.
LogicalResult Lowering::lowerSharedDot(core::DotOp op) {
  auto lhsType = cast<RankedTensorType>(op.getLhs().getType());
  auto rhsType = cast<RankedTensorType>(op.getRhs().getType());
  Type element = lhsType.getElementType();
  Type accElement = getElementTypeOrSelf(op.getType());
  int64_t bytes = (element.getIntOrFloatBitWidth() + 7) / 8;
  int64_t lhsBytes = llvm::alignTo(lhsType.getNumElements() * bytes, 16);
  FailureOr<Value> base = scratch(lhsBytes + rhsType.getNumElements() * bytes);
  if (failed(base))
    return failure();
  Value rhsBase = sharedAddress(*base, i32(lhsBytes));
  storeShared(*base, layoutOf(op.getLhs()), elements(op.getLhs()), {});
  storeShared(rhsBase, layoutOf(op.getRhs()), elements(op.getRhs()), {});
  scratchWritten();

  LinearLayout layout = layoutOf(op.getResult());
  ArrayRef<int64_t> shape = core::shapeOf(op.getType());
  int64_t rank = int64_t(shape.size()), k = lhsType.getDimSize(rank - 1), n = shape[rank - 1];
  bool isFloat = isa<FloatType>(accElement);
  Type sumType = isFloat && accElement.getIntOrFloatBitWidth() <= 16 ? Type(b.getF32Type())
                                                                     : accElement;
  auto widened = [&](Value value) -> Value {
    if (value.getType() == sumType)
      return value;
    if (isFp8(element))
      return toF32(value, element);
    return isFloat ? Value(arith::ExtFOp::create(b, loc, sumType, value))
                   : Value(arith::ExtSIOp::create(b, loc, sumType, value));
  };
  Elements inits;
  for (Value value : elements(op.getAccumulator()))
    inits.push_back(value.getType() == sumType ? value : toF32(value, accElement));
  auto loop = scf::ForOp::create(b, loc, i32(0), i32(k), i32(1), inits);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    Value depth = loop.getInductionVar();
    DenseMap<int32_t, Value> rows, columns;
    unsigned columnBits = llvm::Log2_64(uint64_t(n));
    int64_t m = shape[rank - 2];
    auto load = [&](Value start, Value index) {
      Value address = sharedAddress(start, arith::MulIOp::create(b, loc, index, i32(bytes)));
      return widened(LLVM::LoadOp::create(b, loc, loweredElement(element), address));
    };
    Elements sums;
    for (unsigned r = 0; r < layout.numRegisters(); ++r) {
      int32_t own = layout.ofRegister(r);
      Value index = elementIndex(layout, r);
      Value row = arith::ShRUIOp::create(b, loc, index, i32(columnBits)); // with the batch
      Value &left = rows[own >> columnBits];
      if (!left) {
        Value at = arith::AddIOp::create(b, loc, arith::MulIOp::create(b, loc, row, i32(k)), depth);
        left = load(*base, at);
      }
      int32_t batchOwn = own >> columnBits >> llvm::Log2_64(uint64_t(m));
      Value &right = columns[(batchOwn << columnBits) | (own & int32_t(n - 1))];
      if (!right) {
        Value batch = arith::ShRUIOp::create(b, loc, row, i32(llvm::Log2_64(uint64_t(m))));
        Value line = arith::AddIOp::create(
            b, loc, arith::MulIOp::create(b, loc, batch, i32(k)), depth);
        Value column = arith::AndIOp::create(b, loc, index, i32(n - 1));
        right = load(rhsBase, arith::AddIOp::create(
                                  b, loc, arith::MulIOp::create(b, loc, line, i32(n)), column));
      }
      Value sum = loop.getRegionIterArgs()[r];
      if (isFloat)
        sums.push_back(math::FmaOp::create(b, loc, left, right, sum));
      else
        sums.push_back(arith::AddIOp::create(b, loc, sum,
                                             arith::MulIOp::create(b, loc, left, right)));
    }
    scf::YieldOp::create(b, loc, sums);
  }
  scratchRead();
  Elements list;
  for (Value sum : loop.getResults())
    list.push_back(isFloat ? fromF32Or(sum, accElement) : sum);
  define(op, std::move(list));
  return success();
}

} // namespace tilery::simt
