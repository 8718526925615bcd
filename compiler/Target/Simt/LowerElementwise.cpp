// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Arithmetic, one operation a register. Half precision is computed in fp32 and rounded after
// each operation; division by zero has a result.
#include "compiler/Target/Simt/Lowering.h"

#include "mlir/IR/Matchers.h"
#include "llvm/Support/SaveAndRestore.h"

namespace tilery::simt {

static bool isHalf(Type type) {
  return isa<FloatType>(type) && type.getIntOrFloatBitWidth() <= 16;
}

Value Lowering::toF32(Value half) {
  return half.getType().isF32() ? half : arith::ExtFOp::create(b, loc, b.getF32Type(), half);
}

Value Lowering::fromF32(Value wide, Type element) {
  return element.isF32() ? wide : arith::TruncFOp::create(b, loc, element, wide);
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

Elements Lowering::emitScalar(Operation *op, ValueRange operands) {
  Type element = loweredElement(getElementTypeOrSelf(op->getResult(0).getType()));
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
  if (isa<arith::TruncFOp>(op) && keepHalvesInF32 && isHalf(element))
    return {operands[0]};
  bool moves = isa<arith::BitcastOp, arith::ExtFOp, arith::TruncFOp>(op);
  Elements wide(operands);
  if (!moves)
    for (Value &operand : wide)
      if (isHalf(operand.getType()))
        operand = toF32(operand);
  if (isa<arith::ExtFOp>(op) && wide[0].getType() == element)
    return {wide[0]}; // a half that a combine region keeps in fp32
  if (isa<arith::FPToSIOp, arith::FPToUIOp>(op))
    return {emitToInteger(b, op, wide[0])};
  bool narrow = !moves && isHalf(element);
  Type type = narrow ? Type(b.getF32Type()) : element;
  Value value = machine.emitMath(b, op, wide);
  if (!value) {
    OperationState state(loc, op->getName(), wide, {type},
                         llvm::to_vector(op->getDiscardableAttrs()));
    state.propertiesAttr = op->getPropertiesAsAttribute();
    value = b.create(state)->getResult(0);
  }
  return {narrow && !keepHalvesInF32 ? fromF32(value, element) : value};
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

LogicalResult Lowering::lowerElementwise(Operation *op) {
  bool known = isa<arith::ArithDialect, math::MathDialect>(op->getDialect()) ||
               isa<core::HintOp, core::AddPtrOp, core::PtrToIntOp, core::IntToPtrOp,
                   core::PtrCastOp, device::LocalOp>(op);
  if (auto at = dyn_cast<device::SymmAtOp>(op))
    return lowerDevice(op);
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
    if (isa<arith::ConstantOp>(op)) {
      Value constant = b.clone(op)->getResult(0);
      map.map(op.getResult(0), wide && isHalf(constant.getType()) ? toF32(constant) : constant);
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
