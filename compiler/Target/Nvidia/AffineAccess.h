// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Accesses of tiles whose addresses are affine in the tile's coordinates and whose mask only cuts off
// what lies outside of an array: what a bulk copy by tensor map does by itself.
#pragma once

#include "compiler/Target/Nvidia/AffineSum.h"

namespace tilery::nvidia {

/// One dimension of the array that an access walks over.
struct AccessDim {
  /// Elements from one index to the next: a constant or a constant times an argument.
  AffineTerm stride;
  /// Index of the tile's first element, a uniform sum.
  AffineSum start;
  /// Indices at or beyond it read as 0 and are not written; null when nothing is cut off.
  mlir::Value extent;
  /// Of the tile, 1 where only `start` moves.
  int64_t box = 1;
  /// The mask keeps only so many indices of the tile, from its first; 0: all.
  int64_t kept = 0;
  /// The mask also says `index >= 0`: the tile may start before the array.
  bool startsBefore = false;
};

/// Who knows base, strides and extents, and so can make a tensor map of them.
enum class MadeBy {
  Launcher, ///< arguments and what is computed of them
  Kernel    ///< what stays the same in the innermost loop around the access
};

struct AffineAccess {
  MadeBy maker = MadeBy::Launcher;
  mlir::Value base; ///< a scalar; of the launcher's an argument
  mlir::Type element;
  /// The contiguous dimension first; at most five.
  llvm::SmallVector<AccessDim, 5> dims;
  /// Which dimension of the tile is contiguous.
  unsigned fastest = 0;
};

/// None when the access is of another kind, or not aligned for bulk copies. A bulk copy moves more
/// than the mask keeps where `kept` is set. `mask` may be null.
std::optional<AffineAccess> affineAccess(mlir::Value pointer, mlir::Value mask,
                                         MadeBy maker = MadeBy::Launcher);
std::optional<AffineAccess> affineAccess(core::LoadOp load, MadeBy maker = MadeBy::Launcher);

/// The coordinate of the tile's first element, i32.
mlir::Value emitStart(mlir::OpBuilder &b, mlir::Location loc, const AccessDim &dim);

/// How many indices of a tile, from its first along `dim`, a mask keeps at most, as it says by a
/// comparison of tl.arange with a constant; none when it does not.
std::optional<int64_t> keptByMask(mlir::Value mask, int dim);

} // namespace tilery::nvidia
