// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Sums of products of scalars and tile indices: what addresses and masks are read as.
#pragma once

#include "compiler/Dialect/Core/IR/Core.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/SmallVector.h"

#include <optional>

namespace tilery::nvidia {

/// A product of scalars of the kernel and a constant; of a tile's index along `dim`, or uniform.
struct AffineTerm {
  int64_t factor = 1;
  llvm::SmallVector<mlir::Value, 2> scalars; ///< sorted, so that equal products compare equal
  int dim = -1;

  bool sameAs(const AffineTerm &other) const { return scalars == other.scalars && dim == other.dim; }
};

/// A sum of terms, each product once.
using AffineSum = llvm::SmallVector<AffineTerm, 4>;

using MaybeSum = std::optional<AffineSum>;

void addTerm(AffineSum &sum, AffineTerm term, int64_t sign = 1);
/// lhs + sign * rhs, without terms that are 0.
AffineSum sumOf(AffineSum lhs, const AffineSum &rhs, int64_t sign = 1);
bool sameSum(const AffineSum &a, const AffineSum &b);

/// A scalar or tile of integers; none when it is no such sum.
MaybeSum sumOfValue(mlir::Value value);

struct PointerSum {
  mlir::Value base; ///< a scalar
  AffineSum offset; ///< in elements
};
/// From an argument of the kernel or, with `fromPromise`, from the last scalar on the way that is
/// promised to be aligned to 16 bytes.
std::optional<PointerSum> sumOfPointer(mlir::Value pointer, bool fromPromise = false);
/// A scalar pointer of which a hint says that it is a multiple of 16 bytes.
bool isPromisedBase(mlir::Value pointer);

/// An argument of the kernel, which the launcher knows.
bool isArgument(mlir::Value value);

/// Emits a uniform sum as i32.
mlir::Value emitSum(mlir::OpBuilder &b, mlir::Location loc, const AffineSum &sum);

} // namespace tilery::nvidia
