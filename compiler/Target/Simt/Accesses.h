// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// What loads and stores touch: which argument's memory, and how much of it at once.
#pragma once

#include "compiler/Target/Simt/AxisInfo.h"
#include "compiler/Target/Simt/LinearLayout.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tilery::simt {

/// The kernel's argument that a pointer is computed from; null when it cannot be seen.
mlir::Value argumentOf(mlir::Value pointer);

/// Whether the kernel may write the array behind `argument`.
bool writes(mlir::func::FuncOp kernel, mlir::Value argument);

/// Of what a pointer points to.
unsigned pointeeBytes(mlir::Type pointer);

/// A mask that takes nothing away; null is one.
bool isAllTrue(mlir::Value mask);

/// Register bits along dimension `dim` of a tile that one access may hold, the lowest first: at most
/// `width` elements, under no other bit.
llvm::SmallVector<unsigned> neighbourBits(const LinearLayout &layout,
                                          llvm::ArrayRef<int64_t> shape, unsigned dim,
                                          unsigned width);

} // namespace tilery::simt
