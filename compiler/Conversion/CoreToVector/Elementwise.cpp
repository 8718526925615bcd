// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Elementwise operations on vectors or scalars. Half precision is computed in fp32 and
// rounded after each operation; integer division never traps.
#include "compiler/Conversion/CoreToVector/Elementwise.h"

#include "compiler/Conversion/MathExpansion/MathExpansion.h"
#include "llvm/Support/SaveAndRestore.h"

namespace tilery::vec {

int64_t byteSize(Type element) {
  if (isa<IntegerType, FloatType>(element))
    return (element.getIntOrFloatBitWidth() + 7) / 8;
  return 8;
}

int64_t pointeeBytes(Type pointer) {
  if (auto core = dyn_cast<core::PointerType>(pointer))
    return byteSize(core.getPointee());
  if (auto symm = dyn_cast<device::SymmType>(pointer))
    return byteSize(symm.getPointee());
  return 8; // a signal
}

Type storedType(Type element) {
  if (element.isInteger(1))
    return IntegerType::get(element.getContext(), 8);
  // LLVM has no moves of bf16 on processors without bf16 instructions.
  if (element.isBF16())
    return IntegerType::get(element.getContext(), 16);
  if (isa<IntegerType, FloatType>(element))
    return element;
  return IntegerType::get(element.getContext(), 64);
}

Type vectorOr(Type element, int64_t lanes) {
  return lanes ? Type(VectorType::get({lanes}, element)) : element;
}

int64_t lanesOf(Value value) {
  auto type = dyn_cast<VectorType>(value.getType());
  return type ? type.getNumElements() : 0;
}

bool isConstantTrue(Value mask) {
  return matchPattern(mask, m_One()) ||
         (mask.getDefiningOp<core::SplatOp>() &&
          isConstantTrue(mask.getDefiningOp<core::SplatOp>().getSource()));
}

bool Lowering::isElementwise(Operation *op) {
  return op && !isa<arith::ConstantOp>(op) &&
         isa<arith::ArithDialect, math::MathDialect>(op->getDialect());
}

Value constantLike(OpBuilder &b, Location loc, Type type, double value) {
  Type element = getElementTypeOrSelf(type);
  TypedAttr attr = isa<FloatType>(element) ? TypedAttr(b.getFloatAttr(element, value))
                                           : b.getIntegerAttr(element, int64_t(value));
  if (auto vectorType = dyn_cast<VectorType>(type))
    attr = DenseElementsAttr::get(vectorType, Attribute(attr));
  return arith::ConstantOp::create(b, loc, attr);
}

//===-- Division -----------------------------------------------------------------------------===//

// x/0 is 0 and x%0 is x (so that x = q*0 + r); INT_MIN/-1 wraps.
static Value emitDivision(OpBuilder &b, Operation *op, Value lhs, Value rhs) {
  Location loc = op->getLoc();
  Type type = lhs.getType();
  bool isSigned = isa<arith::DivSIOp, arith::RemSIOp>(op);
  bool isQuotient = isa<arith::DivSIOp, arith::DivUIOp>(op);
  auto generic = [&](Value divisor) -> Value {
    OperationState state(loc, op->getName(), {lhs, divisor}, {type});
    return b.create(state)->getResult(0);
  };
  APInt constant;
  if (matchPattern(rhs, m_ConstantInt(&constant)) && !constant.isZero() &&
      !(isSigned && constant.isAllOnes()))
    return generic(rhs);
  auto equals = [&](double value) -> Value {
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, rhs,
                                 constantLike(b, loc, type, value));
  };
  Value zero = constantLike(b, loc, type, 0), one = constantLike(b, loc, type, 1);
  Value isZero = equals(0), isMinus = isSigned ? equals(-1) : Value();
  Value unsafe = isSigned ? arith::OrIOp::create(b, loc, isZero, isMinus).getResult() : isZero;
  Value result = generic(arith::SelectOp::create(b, loc, unsafe, one, rhs));
  if (isMinus && isQuotient)
    result = arith::SelectOp::create(b, loc, isMinus,
                                     arith::SubIOp::create(b, loc, zero, lhs), result);
  return arith::SelectOp::create(b, loc, isZero, isQuotient ? zero : lhs, result);
}

//===-- Half precision -------------------------------------------------------------------------===//

bool isHalf(Type type) {
  Type element = getElementTypeOrSelf(type);
  return isa<FloatType>(element) && element.getIntOrFloatBitWidth() <= 16;
}

Value toF32(OpBuilder &b, Location loc, Value value) {
  int64_t lanes = lanesOf(value);
  Type f32 = vectorOr(b.getF32Type(), lanes);
  if (!getElementTypeOrSelf(value.getType()).isBF16())
    return arith::ExtFOp::create(b, loc, f32, value);
  // The upper half of an fp32.
  Type i32 = vectorOr(b.getI32Type(), lanes);
  Value bits = arith::BitcastOp::create(b, loc, vectorOr(b.getI16Type(), lanes), value);
  Value wide = arith::ExtUIOp::create(b, loc, i32, bits);
  Value high = arith::ShLIOp::create(b, loc, wide, constantLike(b, loc, i32, 16));
  return arith::BitcastOp::create(b, loc, f32, high);
}

// fp32 to bf16, to nearest even, in integers: the vector instruction flushes subnormals.
static Value roundToBf16(OpBuilder &b, Location loc, Value value) {
  int64_t lanes = lanesOf(value);
  Type i32 = vectorOr(b.getI32Type(), lanes), i16 = vectorOr(b.getI16Type(), lanes);
  auto constant = [&](int64_t number) { return constantLike(b, loc, i32, number); };
  Value bits = arith::BitcastOp::create(b, loc, i32, value);
  Value high = arith::ShRUIOp::create(b, loc, bits, constant(16));
  Value odd = arith::AndIOp::create(b, loc, high, constant(1));
  Value bias = arith::AddIOp::create(b, loc, odd, constant(0x7fff));
  Value rounded = arith::ShRUIOp::create(b, loc, arith::AddIOp::create(b, loc, bits, bias),
                                         constant(16));
  Value quiet = arith::OrIOp::create(b, loc, high, constant(0x40));
  Value isNan = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::UNO, value, value);
  Value chosen = arith::SelectOp::create(b, loc, isNan, quiet, rounded);
  Value narrow = arith::TruncIOp::create(b, loc, i16, chosen);
  return arith::BitcastOp::create(b, loc, vectorOr(b.getBF16Type(), lanes), narrow);
}

// fp64 to fp32 rounded to odd, after which a second rounding is exact: the result is
// inexact iff converting back differs; then the last bit is set, after truncation to zero.
static Value roundToOdd(OpBuilder &b, Location loc, Value value) {
  int64_t lanes = lanesOf(value);
  Type f32 = vectorOr(b.getF32Type(), lanes), i32 = vectorOr(b.getI32Type(), lanes);
  auto constant = [&](int64_t number) { return constantLike(b, loc, i32, number); };
  Value nearest = arith::TruncFOp::create(b, loc, f32, value);
  Value back = arith::ExtFOp::create(b, loc, value.getType(), nearest);
  auto compare = [&](arith::CmpFPredicate predicate, Value lhs, Value rhs) -> Value {
    return arith::CmpFOp::create(b, loc, predicate, lhs, rhs);
  };
  Value magnitude = math::AbsFOp::create(b, loc, value);
  Value backMagnitude = math::AbsFOp::create(b, loc, back);
  Value away = compare(arith::CmpFPredicate::OGT, backMagnitude, magnitude);
  Value inexact = compare(arith::CmpFPredicate::ONE, back, value);
  Value bits = arith::BitcastOp::create(b, loc, i32, nearest);
  Value step = arith::SelectOp::create(b, loc, away, constant(1), constant(0));
  Value truncated = arith::SubIOp::create(b, loc, bits, step);
  Value sticky = arith::SelectOp::create(b, loc, inexact, constant(1), constant(0));
  Value odd = arith::OrIOp::create(b, loc, truncated, sticky);
  return arith::BitcastOp::create(b, loc, f32, odd);
}

Value fromF32(OpBuilder &b, Location loc, Value value, Type element) {
  if (element.isF32())
    return value;
  if (element.isBF16())
    return roundToBf16(b, loc, value);
  return arith::TruncFOp::create(b, loc, vectorOr(element, lanesOf(value)), value);
}

static Value emitTruncF(OpBuilder &b, Location loc, Value value, Type element) {
  if (getElementTypeOrSelf(value.getType()).isF64() && isHalf(element))
    value = roundToOdd(b, loc, value);
  if (isHalf(value.getType()))
    value = toF32(b, loc, value);
  if (isHalf(element))
    return fromF32(b, loc, value, element);
  return arith::TruncFOp::create(b, loc, vectorOr(element, lanesOf(value)), value);
}

static Value emitExtF(OpBuilder &b, Location loc, Value value, Type element) {
  if (isHalf(value.getType()))
    value = toF32(b, loc, value);
  if (getElementTypeOrSelf(value.getType()) == element)
    return value;
  return arith::ExtFOp::create(b, loc, vectorOr(element, lanesOf(value)), value);
}

// Out of range the nearest integer of the type, 0 for NaN.
static Value emitToInteger(OpBuilder &b, Operation *op, Value value, Type element) {
  Location loc = op->getLoc();
  if (isHalf(value.getType()))
    value = toF32(b, loc, value);
  Type type = vectorOr(element, lanesOf(value));
  StringRef intrinsic = isa<arith::FPToSIOp>(op) ? "llvm.fptosi.sat" : "llvm.fptoui.sat";
  return LLVM::CallIntrinsicOp::create(b, loc, type, b.getStringAttr(intrinsic),
                                       ValueRange(value))
      .getResult(0);
}

//===-- The operation ---------------------------------------------------------------------------===//

static SmallVector<Value> emitGeneric(OpBuilder &b, Operation *op, ArrayRef<Value> operands,
                                      int64_t lanes) {
  SmallVector<Type> types;
  for (Type type : op->getResultTypes()) {
    Type element = getElementTypeOrSelf(type);
    // Selects between pointers, or between halves that a reduction keeps in fp32.
    if (core::isPointerLike(element) || isa<arith::SelectOp>(op))
      element = getElementTypeOrSelf(operands.back().getType());
    types.push_back(vectorOr(element, lanes));
  }
  OperationState state(op->getLoc(), op->getName(), operands, types, op->getAttrs());
  return llvm::to_vector_of<Value>(b.create(state)->getResults());
}

// Arithmetic of fp16 and bf16 through fp32. Selections and bit casts move values unchanged.
static bool isHalfArithmetic(Operation *op) {
  if (isa<arith::SelectOp, arith::BitcastOp, arith::ExtFOp, arith::TruncFOp>(op))
    return false;
  return llvm::any_of(op->getOperandTypes(), isHalf) || llvm::any_of(op->getResultTypes(), isHalf);
}

static SmallVector<Value> emitThroughF32(OpBuilder &b, Operation *op, ArrayRef<Value> operands,
                                         int64_t lanes, bool keepF32) {
  SmallVector<Value> wide;
  for (Value operand : operands)
    wide.push_back(isHalf(operand.getType()) ? toF32(b, op->getLoc(), operand) : operand);
  Type result = getElementTypeOrSelf(op->getResult(0).getType());
  Type type = vectorOr(isHalf(result) ? Type(b.getF32Type()) : result, lanes);
  Value value = expandFloatMath(b, op, wide);
  if (!value) {
    OperationState state(op->getLoc(), op->getName(), wide, {type}, op->getAttrs());
    value = b.create(state)->getResult(0);
  }
  return {isHalf(result) && !keepF32 ? fromF32(b, op->getLoc(), value, result) : value};
}

SmallVector<Value> Lowering::emitElementwise(OpBuilder &b, Operation *op,
                                             ArrayRef<Value> given) {
  int64_t lanes = 0;
  for (Value operand : given)
    lanes = std::max(lanes, lanesOf(operand));
  Location at = op->getLoc();
  SmallVector<Value> operands;
  for (Value operand : given)
    operands.push_back(splat(b, at, operand, lanes));
  if (isa<arith::DivSIOp, arith::DivUIOp, arith::RemSIOp, arith::RemUIOp>(op))
    return {emitDivision(b, op, operands[0], operands[1])};
  Type element = getElementTypeOrSelf(op->getResult(0).getType());
  if (isa<arith::TruncFOp>(op))
    return {keepHalvesInF32 && isHalf(element) ? operands[0]
                                               : emitTruncF(b, at, operands[0], element)};
  if (isa<arith::ExtFOp>(op))
    return {emitExtF(b, at, operands[0], element)};
  if (isa<arith::FPToSIOp, arith::FPToUIOp>(op))
    return {emitToInteger(b, op, operands[0], element)};
  if (isHalfArithmetic(op))
    return emitThroughF32(b, op, operands, lanes, keepHalvesInF32);
  if (Value value = expandFloatMath(b, op, operands))
    return {value};
  return emitGeneric(b, op, operands, lanes);
}

SmallVector<Value> Lowering::emitCombine(OpBuilder &b, Region &combine,
                                         ArrayRef<Value> arguments) {
  IRMapping values;
  values.map(combine.front().getArguments(), arguments);
  // Partial results of fp16 and bf16 stay in fp32 and are rounded once, at the end.
  bool wide = llvm::any_of(llvm::zip(combine.front().getArgumentTypes(), arguments), [](auto pair) {
    auto [type, argument] = pair;
    return isHalf(type) && getElementTypeOrSelf(argument.getType()).isF32();
  });
  llvm::SaveAndRestore scope(keepHalvesInF32, wide);
  for (Operation &op : combine.front().without_terminator()) {
    if (isa<arith::ConstantOp>(op)) {
      Value constant = b.clone(op)->getResult(0);
      values.map(op.getResult(0), wide && isHalf(constant.getType())
                                      ? toF32(b, op.getLoc(), constant)
                                      : constant);
      continue;
    }
    SmallVector<Value> operands;
    for (Value operand : op.getOperands())
      operands.push_back(values.contains(operand) ? values.lookup(operand) : scalar(operand));
    values.map(op.getResults(), emitElementwise(b, &op, operands));
  }
  int64_t lanes = lanesOf(arguments[0]);
  SmallVector<Value> results;
  for (Value value : combine.front().getTerminator()->getOperands())
    results.push_back(splat(b, loc, values.contains(value) ? values.lookup(value) : scalar(value),
                            lanes));
  return results;
}

} // namespace tilery::vec
