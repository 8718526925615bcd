// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Tensor maps that the kernel makes, because base, strides or extents are what only it knows: those
// of a group of a grouped product, read from memory.
#pragma once

#include "compiler/Target/Nvidia/AffineAccess.h"
#include "compiler/Target/Simt/IR/Simt.h"

namespace tilery::nvidia {

/// What a tensor map is made of, as values.
struct MapOperands {
  mlir::Value base;
  llvm::SmallVector<mlir::Value> extents,
      strides; ///< strides in bytes, without the contiguous dimension's

  static MapOperands of(mlir::OpBuilder &b, mlir::Location loc, const AffineAccess &access);
};

class KernelMaps {
public:
  /// The number, as simt.produce counts maps, of one for copies of `buffer` to `ring` by `access`.
  int32_t addForRing(const AffineAccess &access, simt::BufferType buffer, unsigned ring);
  /// Of one for stores by warps that have room for so many boxes.
  int32_t addForStores(const AffineAccess &access, simt::BufferType box, unsigned slots);
  bool empty() const { return maps.empty(); }
  int32_t count() const { return int32_t(maps.size()); }
  /// Each where its last operand is known.
  llvm::SmallVector<mlir::Operation *> emit();

private:
  struct Map {
    AffineAccess access;
    simt::BufferType buffer;
    unsigned slots = 0;
    llvm::SmallVector<int32_t> rings; ///< that it fills

    bool describes(const AffineAccess &other, simt::BufferType tile) const;
  };
  Map &find(const AffineAccess &access, simt::BufferType buffer, unsigned slots);
  int32_t numberOf(const Map &map) const { return -1 - int32_t(&map - maps.data()); }
  std::vector<Map> maps;
};

} // namespace tilery::nvidia
