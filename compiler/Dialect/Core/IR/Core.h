// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// The core dialect's types and operations, and questions about tile types.
#pragma once

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/InferIntRangeInterface.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "compiler/Dialect/Core/IR/CoreDialect.h.inc"
#include "compiler/Dialect/Core/IR/CoreEnums.h.inc"
#define GET_TYPEDEF_CLASSES
#include "compiler/Dialect/Core/IR/CoreTypes.h.inc"

namespace tilery::core {

/// A core pointer, or a pointer-like type of a higher level (symmetric pointer, signal):
/// what core.addptr can advance.
bool isPointerLike(mlir::Type type);

/// A scalar that a tile may hold: integer, float or pointer-like.
bool isTileElement(mlir::Type type);

/// A ranked tensor of tile elements whose extents are powers of two.
bool isTile(mlir::Type type);

/// `type` as a tile of `shape`; a scalar when the shape is empty.
mlir::Type tileOf(mlir::Type element, llvm::ArrayRef<int64_t> shape);

/// Extents of a tile; empty for a scalar.
llvm::ArrayRef<int64_t> shapeOf(mlir::Type type);

/// The type with the same shape (and encoding, if it has one) and another element type.
mlir::Type withElement(mlir::Type tileOrScalar, mlir::Type element);

} // namespace tilery::core

#define GET_OP_CLASSES
#include "compiler/Dialect/Core/IR/CoreOps.h.inc"
