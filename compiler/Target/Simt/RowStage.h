// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// How warps stage a product's result in shared memory, from where copies take it that run by themselves.
#pragma once

#include "compiler/Target/Simt/LinearLayout.h"

namespace tilery::simt {

/// Each warp stages the rows that it holds, by itself.
struct RowStage {
  RowStage(llvm::ArrayRef<int64_t> shape, unsigned elementBytes, unsigned numWarps);

  LinearLayout tile; ///< of the result: that of the product
  LinearLayout rows; ///< of what there is once a row: a lane of the row's warp has it
  int64_t columns;   ///< that one warp holds
  int64_t width;     ///< of the tile
  unsigned elementBytes;
  Bases owned; ///< rows of the tile that the bits of a number of a warp's own rows stand for

  int64_t rowsOfWarp() const { return int64_t(1) << owned.size(); }
  unsigned warps() const { return 1u << tile.warps.size(); }
  /// The warp's own number of the row that an element's index (or a base) is part of; its column is
  /// that modulo `width`.
  int64_t ownRow(int32_t index) const;

  //===-- Whole rows, some columns at a time (store_rows) -----------------------------------------===//
  /// From one row to the next: eight rows and four lanes meet no bank twice.
  int64_t pitch(int64_t staged) const { return (staged + 8) * elementBytes; }
  int64_t bytesOfRows(int64_t staged) const { return pitch(staged) * rowsOfWarp(); }
  /// Of a warp's post box (LowerSenders.cpp), before the destinations of its rows, and with them.
  static constexpr int64_t postBytes = 40;
  int64_t bytesOfPost() const { return postBytes + 8 * rowsOfWarp(); }

  //===-- Boxes of 16 rows and 128 bytes of columns, swizzled (store_tile) -------------------------===//
  static constexpr int64_t boxRows = 16, boxBytes = boxRows * 128;
  int64_t boxColumns() const { return 128 / elementBytes; }
  int64_t boxes() const { return columns / boxColumns() * (rowsOfWarp() / boxRows); }
  /// Of the tile, where the box with this number starts in the part of the first warp: row and column.
  std::pair<int64_t, int64_t> boxStart(int64_t box) const;
};

} // namespace tilery::simt
