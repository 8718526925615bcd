// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Atomic operations, one element after the other.
#include "compiler/Conversion/CoreToVector/Elementwise.h"

namespace tilery::vec {

using core::AtomicKind;
using core::MemorySemantic;

static LLVM::AtomicBinOp binaryOf(AtomicKind kind) {
  switch (kind) {
  case AtomicKind::Add: return LLVM::AtomicBinOp::add;
  case AtomicKind::FAdd: return LLVM::AtomicBinOp::fadd;
  case AtomicKind::And: return LLVM::AtomicBinOp::_and;
  case AtomicKind::Or: return LLVM::AtomicBinOp::_or;
  case AtomicKind::Xor: return LLVM::AtomicBinOp::_xor;
  case AtomicKind::Max: return LLVM::AtomicBinOp::max;
  case AtomicKind::Min: return LLVM::AtomicBinOp::min;
  case AtomicKind::UMax: return LLVM::AtomicBinOp::umax;
  case AtomicKind::UMin: return LLVM::AtomicBinOp::umin;
  case AtomicKind::FMax:
  case AtomicKind::FMin: break; // see emitFloatExtreme
  case AtomicKind::Xchg: return LLVM::AtomicBinOp::xchg;
  }
  llvm_unreachable("all kinds are handled");
}

static LLVM::AtomicOrdering orderingOf(MemorySemantic semantic) {
  switch (semantic) {
  case MemorySemantic::Relaxed: return LLVM::AtomicOrdering::monotonic;
  case MemorySemantic::Acquire: return LLVM::AtomicOrdering::acquire;
  case MemorySemantic::Release: return LLVM::AtomicOrdering::release;
  case MemorySemantic::AcqRel: return LLVM::AtomicOrdering::acq_rel;
  }
  llvm_unreachable("all semantics are handled");
}

// A failed exchange stores nothing, so it cannot release.
static LLVM::AtomicOrdering failureOrdering(MemorySemantic semantic) {
  bool acquires = semantic == MemorySemantic::Acquire || semantic == MemorySemantic::AcqRel;
  return acquires ? LLVM::AtomicOrdering::acquire : LLVM::AtomicOrdering::monotonic;
}

// Routed remote stores that come before a release must have arrived when it is seen.
void Lowering::emitRelease(MemorySemantic semantic) {
  if (semantic != MemorySemantic::Release && semantic != MemorySemantic::AcqRel)
    return;
  auto branch = scf::IfOp::create(builder, loc, isRouted(), /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(branch.thenBlock());
  callApi(Api::Release, {}, {});
}

// One element under a mask; inactive elements give 0.
Value Lowering::emitMasked(Value mask, Type type, llvm::function_ref<Value()> emit) {
  if (!mask)
    return emit();
  auto branch = scf::IfOp::create(builder, loc, TypeRange(type), mask, true);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToEnd(branch.elseBlock());
  scf::YieldOp::create(builder, loc, constantLike(builder, loc, type, 0));
  builder.setInsertionPointToEnd(branch.thenBlock());
  Value result = emit();
  scf::YieldOp::create(builder, loc, result);
  return branch.getResult(0);
}

LogicalResult Lowering::lowerAtomic(Operation *op, Value pointer, Value mask,
                                    MemorySemantic semantic,
                                    llvm::function_ref<Value(Nest &, const Coords &, Value)> emit) {
  Value result = op->getResult(0);
  Type element = getElementTypeOrSelf(result.getType());
  int64_t bits = isa<IntegerType, FloatType>(element) ? element.getIntOrFloatBitWidth() : 0;
  if (bits < 8 || bits > 64)
    return op->emitError("atomics on elements of ") << element << " are not supported";
  emitRelease(semantic);
  ArrayRef<int64_t> shape = core::shapeOf(result.getType());
  std::optional<Buffer> buffer;
  if (!shape.empty() && !result.use_empty())
    buffer = allocateAs(shape, element, loc);
  forEachChunk(loc, shape, -1, 0, [&](Nest &nest, const Coords &coords) {
    Value active = mask && !isConstantTrue(mask) ? evaluate(nest, mask, coords) : Value();
    Value address = evaluate(nest, pointer, coords);
    for (Value operand : op->getOperands()) // before the branch, so that it can use them
      evaluate(nest, operand, coords);
    Value before = emitMasked(active, element, [&] { return emit(nest, coords, address); });
    if (shape.empty())
      setScalar(result, before);
    else if (buffer)
      storeBuffer(nest, *buffer, coords, before);
  });
  if (buffer)
    setBuffer(result, *buffer);
  return success();
}

// Floats are ordered by their bits, as Triton does it on GPUs: -NaN, -inf, ..., -0, 0, ..., inf, NaN.
// A value without a sign bit compares as a signed integer, one with it as an unsigned one in the
// other direction.
static Value emitFloatExtreme(OpBuilder &builder, core::AtomicRMWOp op, Value address, Value value) {
  Location loc = op.getLoc();
  bool isMax = op.getKind() == AtomicKind::FMax;
  Type type = value.getType(), integer = builder.getIntegerType(type.getIntOrFloatBitWidth());
  Value bits = arith::BitcastOp::create(builder, loc, integer, value);
  Value negative = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt, bits,
                                         constantLike(builder, loc, integer, 0));
  auto branch = scf::IfOp::create(builder, loc, TypeRange(integer), negative, true);
  auto fill = [&](mlir::Block *block, LLVM::AtomicBinOp binary) {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToEnd(block);
    Value before = LLVM::AtomicRMWOp::create(builder, loc, binary, address, bits,
                                             orderingOf(op.getSemantic()));
    scf::YieldOp::create(builder, loc, before);
  };
  fill(branch.thenBlock(), isMax ? LLVM::AtomicBinOp::umin : LLVM::AtomicBinOp::umax);
  fill(branch.elseBlock(), isMax ? LLVM::AtomicBinOp::max : LLVM::AtomicBinOp::min);
  return arith::BitcastOp::create(builder, loc, type, branch.getResult(0));
}

LogicalResult Lowering::lowerAtomicRMW(core::AtomicRMWOp op) {
  auto emit = [&](Nest &nest, const Coords &coords, Value address) -> Value {
    if (op.getKind() == AtomicKind::FMax || op.getKind() == AtomicKind::FMin)
      return emitFloatExtreme(builder, op, address, evaluate(nest, op.getValue(), coords));
    return LLVM::AtomicRMWOp::create(builder, loc, binaryOf(op.getKind()), address,
                                     evaluate(nest, op.getValue(), coords),
                                     orderingOf(op.getSemantic()));
  };
  return lowerAtomic(op, op.getPointer(), op.getMask(), op.getSemantic(), emit);
}

LogicalResult Lowering::lowerAtomicCAS(core::AtomicCASOp op) {
  Type element = getElementTypeOrSelf(op.getType());
  auto emit = [&](Nest &nest, const Coords &coords, Value address) -> Value {
    Value expected = evaluate(nest, op.getExpected(), coords);
    Value desired = evaluate(nest, op.getValue(), coords);
    Type integer = builder.getIntegerType(element.getIntOrFloatBitWidth());
    if (isa<FloatType>(element)) { // compared by their bits
      expected = arith::BitcastOp::create(builder, loc, integer, expected);
      desired = arith::BitcastOp::create(builder, loc, integer, desired);
    }
    Value pair = LLVM::AtomicCmpXchgOp::create(builder, loc, address, expected, desired,
                                               orderingOf(op.getSemantic()),
                                               failureOrdering(op.getSemantic()));
    Value before = LLVM::ExtractValueOp::create(builder, loc, pair, ArrayRef<int64_t>{0});
    if (isa<FloatType>(element))
      before = arith::BitcastOp::create(builder, loc, element, before);
    return before;
  };
  return lowerAtomic(op, op.getPointer(), {}, op.getSemantic(), emit);
}

} // namespace tilery::vec
