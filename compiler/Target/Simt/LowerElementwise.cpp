// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Arithmetic, one operation a register. Half precision is computed in fp32 and rounded after
// each operation; division by zero has a result.
#include "compiler/Conversion/MathExpansion/MathExpansion.h"
#include "compiler/Target/Simt/Lowering.h"

#include "mlir/IR/Matchers.h"
#include "llvm/Support/SaveAndRestore.h"

namespace tilery::simt {

bool Lowering::isHalf(Type element) {
  return isa<FloatType>(element) && element.getIntOrFloatBitWidth() <= 16;
}

Value Lowering::toF32(Value value, Type element) {
  if (value.getType().isF32())
    return value;
  return isFp8(element) ? decodeFp8(b, loc, element, value)
                        : arith::ExtFOp::create(b, loc, b.getF32Type(), value).getResult();
}

Value Lowering::fromF32(Value wide, Type element) {
  if (element.isF32())
    return wide;
  return isFp8(element) ? encodeFp8(b, loc, element, wide)
                        : arith::TruncFOp::create(b, loc, element, wide).getResult();
}

// Two at a time is one instruction, and they come out packed for a store.
Elements Lowering::truncateAll(ValueRange wide, Type element) {
  Elements result;
  auto from = VectorType::get({2}, wide[0].getType()), to = VectorType::get({2}, element);
  for (size_t i = 0; i + 1 < wide.size(); i += 2) {
    Value pair = LLVM::PoisonOp::create(b, loc, from);
    pair = LLVM::InsertElementOp::create(b, loc, pair, wide[i], i32(0));
    pair = LLVM::InsertElementOp::create(b, loc, pair, wide[i + 1], i32(1));
    Value narrow = LLVM::FPTruncOp::create(b, loc, to, pair);
    result.push_back(LLVM::ExtractElementOp::create(b, loc, narrow, i32(0)));
    result.push_back(LLVM::ExtractElementOp::create(b, loc, narrow, i32(1)));
  }
  if (wide.size() % 2)
    result.push_back(fromF32(wide.back(), element));
  return result;
}

//===-- Division -------------------------------------------------------------------------------===//

// x/0 is 0 and x%0 is x (so that x = q*0 + r); INT_MIN/-1 wraps.
static Value emitDivision(OpBuilder &b, Operation *op, Value lhs, Value rhs) {
  Location loc = op->getLoc();
  Type type = lhs.getType();
  bool isSigned = isa<arith::DivSIOp, arith::RemSIOp>(op);
  bool isQuotient = isa<arith::DivSIOp, arith::DivUIOp>(op);
  auto divide = [&](Value divisor) -> Value {
    OperationState state(loc, op->getName(), {lhs, divisor}, {type});
    return b.create(state)->getResult(0);
  };
  APInt constant;
  if (matchPattern(rhs, m_ConstantInt(&constant)) && !constant.isZero() &&
      !(isSigned && constant.isAllOnes()))
    return divide(rhs);
  auto integer = [&](int64_t value) -> Value {
    return arith::ConstantOp::create(b, loc, b.getIntegerAttr(type, value));
  };
  auto equals = [&](int64_t value) -> Value {
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, rhs, integer(value));
  };
  Value isZero = equals(0), isMinus = isSigned ? equals(-1) : Value();
  Value unsafe = isSigned ? arith::OrIOp::create(b, loc, isZero, isMinus).getResult() : isZero;
  Value result = divide(arith::SelectOp::create(b, loc, unsafe, integer(1), rhs));
  if (isMinus && isQuotient)
    result = arith::SelectOp::create(b, loc, isMinus,
                                     arith::SubIOp::create(b, loc, integer(0), lhs), result);
  return arith::SelectOp::create(b, loc, isZero, isQuotient ? integer(0) : lhs, result);
}

//===-- One operation ------------------------------------------------------------------------------===//

// Out of range the nearest integer of the type, 0 for NaN.
static Value emitToInteger(OpBuilder &b, Operation *op, Value value) {
  StringRef intrinsic = isa<arith::FPToSIOp>(op) ? "llvm.fptosi.sat" : "llvm.fptoui.sat";
  return LLVM::CallIntrinsicOp::create(b, op->getLoc(),
                                       getElementTypeOrSelf(op->getResult(0).getType()),
                                       b.getStringAttr(intrinsic), ValueRange(value))
      .getResult(0);
}

// From any float to fp8 by way of fp32, as the language says; from fp8 exactly.
Value Lowering::emitFp8Cast(Value value, Type from, Type to) {
  if (isFp8(from))
    value = decodeFp8(b, loc, from, value);
  Type wide = isFp8(to) ? Type(b.getF32Type()) : to;
  unsigned given = value.getType().getIntOrFloatBitWidth(), wanted = wide.getIntOrFloatBitWidth();
  if (given < wanted)
    value = arith::ExtFOp::create(b, loc, wide, value);
  if (given > wanted)
    value = arith::TruncFOp::create(b, loc, wide, value);
  return isFp8(to) ? encodeFp8(b, loc, to, value) : value;
}

Elements Lowering::emitScalar(Operation *op, ValueRange operands) {
  Type language = getElementTypeOrSelf(op->getResult(0).getType());
  Type element = loweredElement(language);
  if (isa<core::HintOp, core::PtrCastOp, device::LocalOp>(op))
    return {operands[0]};
  if (auto add = dyn_cast<core::AddPtrOp>(op))
    return {emitAddPtr(getElementTypeOrSelf(add.getPointer().getType()), operands[0], operands[1])};
  if (isa<core::PtrToIntOp>(op))
    return {LLVM::PtrToIntOp::create(b, loc, element, operands[0])};
  if (isa<core::IntToPtrOp>(op))
    return {LLVM::IntToPtrOp::create(b, loc, element, operands[0])};
  if (isa<arith::DivSIOp, arith::DivUIOp, arith::RemSIOp, arith::RemUIOp>(op))
    return {emitDivision(b, op, operands[0], operands[1])};
  if (isa<arith::SelectOp>(op))
    return {arith::SelectOp::create(b, loc, operands[0], operands[1], operands[2])};
  if (isa<arith::TruncFOp>(op) && keepHalvesInF32 && isHalf(language))
    return {operands[0]};
  bool moves = isa<arith::BitcastOp, arith::ExtFOp, arith::TruncFOp>(op);
  Elements wide(operands);
  auto languageOf = [&](size_t i) { return getElementTypeOrSelf(op->getOperand(unsigned(i)).getType()); };
  if (!moves)
    for (auto [i, operand] : llvm::enumerate(wide))
      if (isHalf(languageOf(i)))
        operand = toF32(operand, languageOf(i));
  // Halves that a combine region keeps in fp32, and bits of fp8 that are those of an integer.
  if (isa<arith::ExtFOp, arith::BitcastOp>(op) && wide[0].getType() == element)
    return {wide[0]};
  if (isa<arith::ExtFOp, arith::TruncFOp>(op) && (isFp8(language) || isFp8(languageOf(0))))
    return {emitFp8Cast(wide[0], wide[0].getType().isF32() ? wide[0].getType() : languageOf(0),
                        language)};
  if (isa<arith::FPToSIOp, arith::FPToUIOp>(op))
    return {emitToInteger(b, op, wide[0])};
  bool narrow = !moves && isHalf(language);
  Type type = narrow ? Type(b.getF32Type()) : element;
  Value value = machine.emitMath(b, op, wide);
  if (!value)
    value = expandScalarMath(b, op, wide);
  if (!value)
    value = expandFloatMath(b, op, wide);
  if (!value) {
    OperationState state(loc, op->getName(), wide, {type},
                         llvm::to_vector(op->getDiscardableAttrs()));
    state.propertiesAttr = op->getPropertiesAsAttribute();
    value = b.create(state)->getResult(0);
  }
  return {narrow && !keepHalvesInF32 ? fromF32(value, language) : value};
}

static int64_t pointeeBytes(Type pointer) {
  Type pointee;
  if (auto core = dyn_cast<core::PointerType>(pointer))
    pointee = core.getPointee();
  else if (auto symm = dyn_cast<device::SymmType>(pointer))
    pointee = symm.getPointee();
  return pointee && pointee.isIntOrFloat() ? (pointee.getIntOrFloatBitWidth() + 7) / 8 : 8;
}

Value Lowering::emitAddPtr(Type pointer, Value base, Value offset) {
  int64_t bytes = pointeeBytes(pointer);
  if (!offset.getType().isInteger(64))
    offset = arith::ExtSIOp::create(b, loc, b.getI64Type(), offset);
  // The element type scales the index, so that LLVM sees constant parts of the offset.
  return LLVM::GEPOp::create(b, loc, base.getType(), integerOfBits(unsigned(bytes * 8)), base,
                             ArrayRef<LLVM::GEPArg>{offset});
}

// The high words of products; the low ones are ordinary products.
LogicalResult Lowering::lowerExtendedProduct(arith::MulUIExtendedOp op) {
  Elements low, high;
  for (auto [lhs, rhs] : llvm::zip(elements(op.getLhs()), elements(op.getRhs()))) {
    auto both = arith::MulUIExtendedOp::create(b, loc, lhs, rhs);
    low.push_back(both.getLow());
    high.push_back(both.getHigh());
  }
  define(op.getLow(), std::move(low));
  define(op.getHigh(), std::move(high));
  return success();
}

LogicalResult Lowering::lowerElementwise(Operation *op) {
  bool known = isa<arith::ArithDialect, math::MathDialect>(op->getDialect()) ||
               isa<core::HintOp, core::AddPtrOp, core::PtrToIntOp, core::IntToPtrOp,
                   core::PtrCastOp, device::LocalOp>(op);
  if (auto at = dyn_cast<device::SymmAtOp>(op))
    return lowerDevice(op);
  if (auto product = dyn_cast<arith::MulUIExtendedOp>(op))
    return lowerExtendedProduct(product);
  if (!known || op->getNumResults() != 1)
    return op->emitError("operation ") << op->getName() << " is not supported on this target";
  Type result = op->getResult(0).getType();
  size_t count = loweredTypes(result).size();
  Type element = getElementTypeOrSelf(result);
  if (isa<arith::TruncFOp>(op) && count > 1 && isHalf(element) &&
      element.getIntOrFloatBitWidth() == 16 &&
      getElementTypeOrSelf(op->getOperand(0).getType()).isF32()) {
    define(op->getResult(0), truncateAll(elements(op->getOperand(0)), element));
    return success();
  }
  Elements list;
  for (size_t r = 0; r < count; ++r) {
    Elements operands;
    for (Value operand : op->getOperands()) {
      const Elements &registers = elements(operand);
      operands.push_back(registers[registers.size() == 1 ? 0 : r]);
    }
    llvm::append_range(list, emitScalar(op, operands));
  }
  define(op->getResult(0), std::move(list));
  return success();
}

//===-- Combine regions ----------------------------------------------------------------------------------===//

Elements Lowering::emitCombine(Region &combine, ValueRange arguments) {
  Block &body = combine.front();
  bool wide = llvm::any_of(llvm::zip(body.getArgumentTypes(), arguments.getTypes()), [](auto pair) {
    auto [type, given] = pair;
    return isHalf(type) && given.isF32();
  });
  llvm::SaveAndRestore scope(keepHalvesInF32, wide);
  IRMapping map;
  map.map(body.getArguments(), arguments);
  auto lookup = [&](Value value) {
    return map.contains(value) ? map.lookup(value) : scalar(value);
  };
  for (Operation &op : body.without_terminator()) {
    loc = op.getLoc();
    if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
      Value value = emitConstant(cast<TypedAttr>(constant.getValue()));
      Type type = constant.getType();
      map.map(op.getResult(0), wide && isHalf(type) ? toF32(value, type) : value);
      continue;
    }
    Elements operands;
    for (Value operand : op.getOperands())
      operands.push_back(lookup(operand));
    map.map(op.getResults(), emitScalar(&op, operands));
  }
  Elements results;
  for (Value value : body.getTerminator()->getOperands())
    results.push_back(lookup(value));
  return results;
}

Elements Lowering::combinePair(Region &combine, ValueRange left, ValueRange right) {
  Elements arguments(left);
  llvm::append_range(arguments, right);
  return emitCombine(combine, arguments);
}

} // namespace tilery::simt
