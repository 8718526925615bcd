// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// A loop nest under construction, and positions inside a tile.
#pragma once

#include "mlir/Dialect/SCF/IR/SCF.h"

#include <map>
#include <vector>

namespace tilery::vec {

/// Where one dimension of a tile stands: `base` (i64, null for 0) or, for the lane
/// dimension, base .. base + lanes - 1. `level` is the loop whose body first knows `base`.
struct Coord {
  mlir::Value base;
  bool lane = false;
  unsigned level = 0;
};
using Coords = llvm::SmallVector<Coord, 4>;

/// A remainder of consecutive numbers, which are consecutive unless they wrap.
struct Wrap {
  mlir::Value tile;
  Coords coords;
};

/// Loops around one evaluation. Values are emitted in the outermost loop that knows their
/// coordinates and remembered, so a row's values are computed once a row.
class Nest {
public:
  Nest(mlir::OpBuilder &builder, mlir::Location loc, int64_t lanes)
      : builder(builder), loc(loc), lanes(lanes) {}

  /// Opens a loop from 0 to `extent` and moves the builder into it. An extent of one step
  /// needs no loop: the coordinate is 0.
  Coord open(int64_t extent, int64_t step = 1);
  /// The same with carried values, available through `carried()` (the initial values
  /// themselves when there is no loop).
  Coord open(int64_t lower, int64_t extent, int64_t step, mlir::ValueRange inits);
  mlir::ValueRange carried() const { return levels.back().carried; }
  /// Closes the innermost loop; returns the loop's results.
  llvm::SmallVector<mlir::Value> close(mlir::ValueRange yields = {});

  /// Moves the builder to where a value that depends on `level` belongs.
  void moveTo(unsigned level);
  unsigned depth() const;

  mlir::OpBuilder &builder;
  mlir::Location loc;
  /// Width of the lane dimension.
  const int64_t lanes;

  using Key = std::vector<const void *>;
  std::map<Key, mlir::Value> memo;

private:
  struct Level {
    mlir::scf::ForOp loop; // null when it runs once
    llvm::SmallVector<mlir::Value> carried;
  };
  llvm::SmallVector<Level> levels;
};

} // namespace tilery::vec
