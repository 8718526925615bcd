// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// What is known of integer and pointer tiles along each dimension: runs of consecutive values,
// runs of equal values, and what the values divide by. Decides how wide memory accesses are.
#pragma once

#include "mlir/IR/Value.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallVector.h"

#include <cstdint>

namespace tilery::simt {

/// Powers of two, one a dimension; scalars have one dimension of extent 1.
struct AxisInfo {
  using List = llvm::SmallVector<int64_t, 4>;
  /// Aligned runs of that many elements count up by 1.
  List contiguity;
  /// The first value of every such run divides by it; of pointers in bytes.
  List divisibility;
  /// Aligned runs of that many elements are equal.
  List constancy;

  bool operator==(const AxisInfo &) const = default;
};

class AxisAnalysis {
public:
  AxisInfo of(mlir::Value value);
  /// Elements that one access may take along `dim`: consecutive, aligned, under one mask.
  unsigned vectorWidth(mlir::Value pointer, mlir::Value mask, unsigned dim);
  /// The dimension along which addresses are consecutive, else the last.
  unsigned fastestDim(mlir::Value pointer);

private:
  AxisInfo compute(mlir::Value value);
  AxisInfo computeArgument(mlir::BlockArgument argument);
  AxisInfo computeOp(mlir::Operation *op);
  llvm::DenseMap<mlir::Value, AxisInfo> known;
};

} // namespace tilery::simt
