// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Arithmetic of fp32 or fp64, on vectors or scalars, written as in the formulas.
#pragma once

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/TypeUtilities.h"

namespace tilery {

struct Arithmetic {
  using Value = mlir::Value;
  mlir::OpBuilder &b;
  mlir::Location loc;
  mlir::Type type, bits; ///< floats, and the integers of their width

  Arithmetic(mlir::OpBuilder &b, mlir::Location loc, mlir::Type type);

  bool isDouble() const { return mlir::getElementTypeOrSelf(type).isF64(); }
  Value number(double value);
  Value integer(int64_t value);
  Value add(Value x, Value y) { return mlir::arith::AddFOp::create(b, loc, x, y); }
  Value sub(Value x, Value y) { return mlir::arith::SubFOp::create(b, loc, x, y); }
  Value mul(Value x, Value y) { return mlir::arith::MulFOp::create(b, loc, x, y); }
  Value div(Value x, Value y) { return mlir::arith::DivFOp::create(b, loc, x, y); }
  Value abs(Value x) { return mlir::math::AbsFOp::create(b, loc, x); }
  Value copySign(Value x, Value y) { return mlir::math::CopySignOp::create(b, loc, x, y); }
  Value asBits(Value x) { return mlir::arith::BitcastOp::create(b, loc, bits, x); }
  Value asFloat(Value x) { return mlir::arith::BitcastOp::create(b, loc, type, x); }
  Value select(Value c, Value x, Value y) { return mlir::arith::SelectOp::create(b, loc, c, x, y); }
  Value compare(mlir::arith::CmpFPredicate predicate, Value x, double y) {
    return mlir::arith::CmpFOp::create(b, loc, predicate, x, number(y));
  }
  Value mulAdd(Value x, Value y, Value z) { return mlir::math::FmaOp::create(b, loc, x, y, z); }
  /// Horner's scheme, highest power first.
  Value polynomial(Value x, llvm::ArrayRef<double> coefficients);
  /// Outside of [low, high] the value at the end; NaN stays.
  Value clamp(Value x, double low, double high);
  /// x * 2^n, for results of any size and |n| up to twice the largest exponent.
  Value scale(Value x, Value n);
  /// x rounded to an integer, as a float and an integer; |x| below half of what the mantissa holds.
  std::pair<Value, Value> round(Value x);

private:
  Value power(Value n);
};

/// e^x, for the functions that are made of it.
mlir::Value expandExp(Arithmetic &f, mlir::Value x);
mlir::Value expandDoubleExp(Arithmetic &f, mlir::Value x);

} // namespace tilery
