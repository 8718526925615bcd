// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Products by matrix units that read shared memory on their own, four warps together.
#pragma once

#include "compiler/Target/Simt/LinearLayout.h"

namespace tilery::simt {

/// Rows that a group of four warps takes at a time.
inline constexpr int64_t GroupRows = 64;

/// How an m x n accumulator is divided among groups of four warps: rows first, then columns.
struct GroupGrid {
  int64_t rowGroups = 1, columnGroups = 1;
  int64_t columns = 0; ///< of one group
  static GroupGrid of(int64_t m, int64_t n, unsigned numWarps);
};

/// The accumulator's layout: registers over neighbouring columns, eight rows below, columns in
/// steps of 8, then further rows (PTX ISA, wgmma, "Register Fragment of D").
LinearLayout asyncDotLayout(int64_t m, int64_t n, unsigned numWarps);
/// The left operand's layout when it comes in registers.
LinearLayout asyncLhsLayout(int64_t m, int64_t n, int64_t k, unsigned numWarps);

/// Products read whole groups of rows, whatever lies behind a tile of fewer: how many bytes must.
inline int64_t bytesBehind(BufferType tile) {
  constexpr int64_t group = GroupRows * 128;
  return tile.bytes() < group ? group : 0;
}

/// One product, as lowering hands it to the machine.
struct AsyncDot {
  mlir::RankedTensorType accType;
  llvm::ArrayRef<int64_t> lhsShape;
  unsigned numWarps;
  mlir::Type element; ///< of the operands
  mlir::Value lhsStart; ///< Machine::operandStart of the tile; null when in registers
  mlir::ValueRange lhsRegisters;
  BufferType lhsType; ///< when in shared memory
  mlir::Value rhsStart;
  BufferType rhsType;
  mlir::ValueRange accumulator;
  int64_t columns = 0; ///< that are computed, 0: all
};

} // namespace tilery::simt
