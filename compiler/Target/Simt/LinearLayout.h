// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Linear maps over F2 from (register, lane, warp) bits to elements of a tile, and what follows
// from them by linear algebra: replication, vectors, layouts of operands and results.
//
// After "Linear Layouts: Robust Code Generation of Efficient Tensor Computation Using F2"
// (arXiv 2505.23819).
#pragma once

#include "compiler/Target/Simt/IR/Simt.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallVector.h"

#include <cstdint>
#include <optional>

namespace tilery::simt {

using Bases = llvm::SmallVector<int32_t, 8>;

struct LinearLayout {
  Bases registers, lanes, warps;

  static LinearLayout of(mlir::Type tile); ///< of a tile with an encoding
  static LinearLayout of(LayoutAttr attr);
  LayoutAttr attr(mlir::MLIRContext *context) const;

  unsigned numRegisters() const { return 1u << registers.size(); }
  /// The part of an element's index that register r contributes.
  int32_t ofRegister(unsigned r) const;
  int32_t at(unsigned r, unsigned lane, unsigned warp) const;
  /// Bits of the lane (warp) number that do not change the element.
  unsigned replicatedLanes() const;
  unsigned replicatedWarps() const;
  /// The largest 2^n such that every aligned group of 2^n registers, in an order given by
  /// `contiguousRegisters`, holds neighbours in row-major order.
  unsigned contiguity() const;
  /// The register bit that holds base 1 << i, for the first bits.
  llvm::SmallVector<unsigned> contiguousBits() const;

  bool operator==(const LinearLayout &other) const = default;
};

/// Calls `access` with the registers of each vector, whose members differ in the register bits `bits`
/// (the lowest first).
void forEachVector(const LinearLayout &layout, llvm::ArrayRef<unsigned> bits,
                   llvm::function_ref<void(llvm::ArrayRef<unsigned>)> access);

/// Applies a linear map, given by the images of the bits, to each base.
LinearLayout mapped(const LinearLayout &layout, llvm::ArrayRef<int32_t> images);

/// Drops registers that hold what other registers hold. `kept[i]` (if asked for) is the register of
/// the result that holds the elements of register i of `layout`.
LinearLayout withoutCopies(const LinearLayout &layout,
                           llvm::SmallVectorImpl<unsigned> *kept = nullptr);

/// A subspace over F2 of given generators; expresses vectors in them.
class Span {
public:
  explicit Span(llvm::ArrayRef<int32_t> generators);
  /// The set of generators (as bits) whose XOR is `vector`.
  std::optional<unsigned> express(int32_t vector) const;

private:
  struct Row {
    int32_t vector;
    unsigned generators;
  };
  llvm::SmallVector<Row> rows;
};

//===-- Maps between indices of differently shaped tiles -----------------------------------------===//

/// Images of the bits of an index under permutation: result dimension i is source dimension
/// order[i]. The first from source to result, the second back.
llvm::SmallVector<int32_t> transposeImages(llvm::ArrayRef<int64_t> sourceShape,
                                           llvm::ArrayRef<int32_t> order);
llvm::SmallVector<int32_t> transposeBackImages(llvm::ArrayRef<int64_t> sourceShape,
                                               llvm::ArrayRef<int32_t> order);
/// From a broadcast's result to its source: coordinates of repeated dimensions become 0.
llvm::SmallVector<int32_t> broadcastBackImages(llvm::ArrayRef<int64_t> sourceShape,
                                               llvm::ArrayRef<int64_t> resultShape);
/// From a tile to the tile without `axis`.
llvm::SmallVector<int32_t> dropAxisImages(llvm::ArrayRef<int64_t> shape, unsigned axis);
/// Bits of an index that belong to `axis`.
int32_t axisMask(llvm::ArrayRef<int64_t> shape, unsigned axis);
/// Number of bits to the right of those of `axis`.
unsigned axisShift(llvm::ArrayRef<int64_t> shape, unsigned axis);
unsigned indexBits(llvm::ArrayRef<int64_t> shape);

//===-- Constructions ---------------------------------------------------------------------------------===//

/// A layout for accesses along `order` (the fastest dimension first): `vector` neighbours a
/// thread, then lanes, then warps, then further registers.
LinearLayout blockedLayout(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<unsigned> order,
                           unsigned vector, unsigned laneBits, unsigned warpBits);
/// The last dimension fastest, at most 16 bytes of `elementBits` a thread.
LinearLayout defaultLayout(llvm::ArrayRef<int64_t> shape, unsigned elementBits, unsigned laneBits,
                           unsigned warpBits);

} // namespace tilery::simt
