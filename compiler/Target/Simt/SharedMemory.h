// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// How a tile is laid out in shared memory so that warps meet few bank conflicts, and how warps read
// it by rows of small matrices.
#pragma once

#include "compiler/Target/Simt/LinearLayout.h"

namespace tilery::simt {

/// Byte offset o of the row-major tile is stored at o ^ ((o >> shift) & mask). With mask 0 as is.
struct Swizzle {
  unsigned shift = 0;
  int32_t mask = 0;

  int32_t apply(int32_t offset) const { return offset ^ ((offset >> shift) & mask); }
  bool operator==(const Swizzle &) const = default;
};

/// Byte offsets of the bits of an element's row-major index, in a tile of which dimension `fastest` is
/// contiguous: images for `mapped`.
llvm::SmallVector<int32_t> sharedImages(llvm::ArrayRef<int64_t> shape, unsigned fastest,
                                        unsigned elementBytes, const Swizzle &swizzle);

/// Passes through shared memory that one access of a warp takes: 1 is without conflict. Each lane
/// accesses `vectorBytes` from the element of register 0 on.
unsigned bankPasses(const LinearLayout &layout, unsigned elementBytes, unsigned vectorBytes,
                    const Swizzle &swizzle);

/// The swizzle with the fewest passes for writing as `from` and reading as `to`; it leaves groups of
/// `vectorBytes` together.
Swizzle chooseSwizzle(const LinearLayout &from, const LinearLayout &to, unsigned elementBytes,
                      unsigned vectorBytes, int64_t tileBytes);

/// An access by matrices: a warp reads one, two or four matrices of 8 rows of 16 bytes together. Lane
/// 8m + r says where row r of matrix m starts; lane l then has 4 bytes of each: the (l % 4)th of row
/// l / 4, or, transposed and for elements of 2 bytes, column l / 4 of rows 2 (l % 4) and the next.
struct MatrixRows {
  static constexpr unsigned rowBytes = 16;

  bool transposed = false;
  /// Registers, as bits of their numbers: within 4 bytes; in matrices of one access; in others.
  llvm::SmallVector<unsigned> wordBits, matrixBits, otherBits;
  /// Byte offsets: a register for each of `otherBits`; lanes are rows and then matrices.
  LinearLayout addresses;

  /// For the layout of a tile in registers, given as byte offsets; none where words do not come so.
  static std::optional<MatrixRows> of(const LinearLayout &offsets, unsigned elementBytes);
  /// The register that holds element `inWord` of matrix `matrix` of access `other`.
  unsigned registerOf(unsigned other, unsigned matrix, unsigned inWord) const;
};

/// The swizzle for a tile that is written as `from`, `vectorBytes` at a time, and read by matrices.
/// Both layouts in byte offsets without a swizzle.
Swizzle chooseSwizzle(const LinearLayout &from, unsigned vectorBytes, const MatrixRows &to,
                      int64_t tileBytes);

} // namespace tilery::simt
