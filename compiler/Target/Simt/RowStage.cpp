// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Target/Simt/RowStage.h"

#include "compiler/Target/Simt/AsyncDot.h"

namespace tilery::simt {

RowStage::RowStage(llvm::ArrayRef<int64_t> shape, unsigned elementBytes, unsigned numWarps)
    : tile(asyncDotLayout(shape[0], shape[1], numWarps)),
      columns(GroupGrid::of(shape[0], shape[1], numWarps).columns), width(shape[1]),
      elementBytes(elementBytes) {
  auto add = [&](int32_t base) {
    if (base >= width)
      owned.push_back(int32_t(base / width));
  };
  llvm::for_each(tile.lanes, add); // the rows of one matrix come first
  llvm::for_each(tile.registers, add);
  size_t inLanes = std::min(owned.size(), tile.lanes.size());
  rows.lanes.assign(owned.begin(), owned.begin() + ptrdiff_t(inLanes));
  rows.lanes.resize(tile.lanes.size(), 0);
  rows.registers.assign(owned.begin() + ptrdiff_t(inLanes), owned.end());
  for (int32_t base : tile.warps)
    rows.warps.push_back(int32_t(base / width));
}

int64_t RowStage::ownRow(int32_t index) const {
  int64_t row = 0;
  for (auto [bit, base] : llvm::enumerate(owned))
    row |= index / width & base ? int64_t(1) << bit : 0;
  return row;
}

std::pair<int64_t, int64_t> RowStage::boxStart(int64_t box) const {
  int64_t across = columns / boxColumns(), first = box / across * boxRows, row = 0;
  for (auto [bit, base] : llvm::enumerate(owned))
    row |= first >> bit & 1 ? base : 0;
  return {row, box % across * boxColumns()};
}

} // namespace tilery::simt
