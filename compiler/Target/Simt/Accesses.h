// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// What loads and stores touch: which argument's memory, and how much of it at once.
#pragma once

#include "compiler/Target/Simt/AxisInfo.h"
#include "compiler/Target/Simt/LinearLayout.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace tilery::simt {

/// The kernel's argument that a pointer is computed from; null when it cannot be seen.
mlir::Value argumentOf(mlir::Value pointer);

/// Whether the kernel may write the array behind `argument`.
bool writes(mlir::func::FuncOp kernel, mlir::Value argument);

/// Two accesses of which each element is touched by one thread in both: the same address, or the
/// same offsets from different arguments (which overlap as a whole or not at all).
bool sameThreads(mlir::Value first, mlir::Value second);

/// Whether no iteration touches what another one has written: all accesses have the same offsets from
/// arguments, consecutive ones, which move on by at least as many as they are.
bool iterationsAreApart(mlir::scf::ForOp loop);

/// Whether `op` is a `while` loop that looks at memory, until others have changed it.
bool waitsForMemory(mlir::Operation *op);

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
