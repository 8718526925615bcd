// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Arithmetic for functions that LLVM leaves to a C library, and for fp8, which few machines convert.
#pragma once

#include "mlir/IR/Builders.h"
#include "mlir/IR/Operation.h"

namespace tilery {

/// Of fp32, on vectors or scalars: exp, exp2, log, log2, tanh, erf, rsqrt; null for other operations.
mlir::Value expandFloatMath(mlir::OpBuilder &b, mlir::Operation *op, mlir::ValueRange operands);

/// What a machine without a C library needs beyond that, on scalars: sin, cos and remainders of
/// fp32 and fp64; exp, exp2, log, log2, tanh and erf of fp64. May branch; null for other operations.
mlir::Value expandScalarMath(mlir::OpBuilder &b, mlir::Operation *op, mlir::ValueRange operands);

/// The fp32 with the value of the 8 bits (i8 scalar) of type `fp8`, e4m3fn or e5m2.
mlir::Value decodeFp8(mlir::OpBuilder &b, mlir::Location loc, mlir::Type fp8, mlir::Value bits);
/// fp32 to the nearest `fp8`, ties to even; beyond the largest finite value that value; NaN stays.
mlir::Value encodeFp8(mlir::OpBuilder &b, mlir::Location loc, mlir::Type fp8, mlir::Value value);
bool isFp8(mlir::Type element);

} // namespace tilery
