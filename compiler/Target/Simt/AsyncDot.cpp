// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Target/Simt/AsyncDot.h"

namespace tilery::simt {

GroupGrid GroupGrid::of(int64_t m, int64_t n, unsigned numWarps) {
  GroupGrid grid;
  int64_t groups = numWarps / 4;
  grid.rowGroups = std::min(groups, m / GroupRows);
  grid.columnGroups = groups / grid.rowGroups;
  grid.columns = n / grid.columnGroups;
  return grid;
}

LinearLayout asyncDotLayout(int64_t m, int64_t n, unsigned numWarps) {
  GroupGrid grid = GroupGrid::of(m, n, numWarps);
  auto row = [&](int64_t rows) { return int32_t(rows * n); };
  LinearLayout layout;
  layout.registers = {1, row(8)};
  layout.lanes = {2, 4, row(1), row(2), row(4)};
  layout.warps = {row(16), row(32)};
  int64_t rows = GroupRows;
  for (; rows < GroupRows * grid.rowGroups; rows *= 2)
    layout.warps.push_back(row(rows));
  for (int64_t column = grid.columns; column < n; column *= 2)
    layout.warps.push_back(int32_t(column));
  for (int64_t column = 8; column < grid.columns; column *= 2)
    layout.registers.push_back(int32_t(column));
  for (; rows < m; rows *= 2)
    layout.registers.push_back(row(rows));
  return layout;
}

LinearLayout asyncLhsLayout(int64_t m, int64_t n, int64_t k, unsigned numWarps) {
  GroupGrid grid = GroupGrid::of(m, n, numWarps);
  auto row = [&](int64_t rows) { return int32_t(rows * k); };
  LinearLayout layout;
  layout.registers = {1, row(8)};
  layout.lanes = {2, 4, row(1), row(2), row(4)};
  layout.warps = {row(16), row(32)};
  int64_t rows = GroupRows;
  for (; rows < GroupRows * grid.rowGroups; rows *= 2)
    layout.warps.push_back(row(rows));
  for (int64_t group = 1; group < grid.columnGroups; group *= 2)
    layout.warps.push_back(0);
  for (int64_t depth = 8; depth < k; depth *= 2)
    layout.registers.push_back(int32_t(depth));
  for (; rows < m; rows *= 2)
    layout.registers.push_back(row(rows));
  return layout;
}

} // namespace tilery::simt
