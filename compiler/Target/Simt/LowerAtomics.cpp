// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Atomics: each element once, on the thread that holds its first copy.
#include "compiler/Target/Simt/Lowering.h"

namespace tilery::simt {

static LLVM::AtomicBinOp binary(core::AtomicKind kind) {
  using K = core::AtomicKind;
  using B = LLVM::AtomicBinOp;
  switch (kind) {
  case K::Add: return B::add;
  case K::FAdd: return B::fadd;
  case K::And: return B::_and;
  case K::Or: return B::_or;
  case K::Xor: return B::_xor;
  case K::Max: return B::max;
  case K::Min: return B::min;
  case K::UMax: return B::umax;
  case K::UMin: return B::umin;
  case K::FMax: return B::fmax;
  case K::FMin: return B::fmin;
  case K::Xchg: return B::xchg;
  }
  llvm_unreachable("all kinds are listed");
}

// Fences order, not the instruction: code generators drop the order of read-modify-writes.
static constexpr LLVM::AtomicOrdering relaxed = LLVM::AtomicOrdering::monotonic;

static bool releases(core::MemorySemantic semantic) {
  return semantic == core::MemorySemantic::Release || semantic == core::MemorySemantic::AcqRel;
}
static bool acquires(core::MemorySemantic semantic) {
  return semantic == core::MemorySemantic::Acquire || semantic == core::MemorySemantic::AcqRel;
}

// A release is one of the whole program instance: a barrier before it collects the other threads'
// writes; after an acquire a barrier hands it on. So the thread that updates a scalar fences for all;
// of a tile each thread updates elements.
LogicalResult Lowering::lowerAtomic(Operation *op, Value pointer, Value mask,
                                    core::MemorySemantic semantic, core::MemoryScope scope,
                                    llvm::function_ref<Value(Value, unsigned)> emit) {
  Value result = op->getResult(0);
  Type element = loweredElement(getElementTypeOrSelf(result.getType()));
  bool isTile = isa<RankedTensorType>(result.getType());
  beforeStore(pointer);
  if (releases(semantic)) {
    barrier();
    if (isTile)
      fence(scope);
  }
  LinearLayout layout = isTile ? layoutOf(result) : LinearLayout();
  Value only = isTile ? isFirstCopy(layout) : isFirstThread();
  Elements list;
  for (unsigned r = 0; r < layout.numRegisters(); ++r) {
    Value condition = mask ? andI(only, elements(mask)[r]) : only;
    auto update = [&] {
      if (!isTile && releases(semantic))
        fence(scope);
      Value before = emit(elements(pointer)[r], r);
      if (!isTile && acquires(semantic))
        fence(scope);
      return before;
    };
    list.push_back(emitIf(condition, element, update, [&] { return zero(element); }));
  }
  pendingStores.push_back(pointer);
  if (acquires(semantic) && isTile)
    fence(scope);
  if (acquires(semantic) && (isTile || result.use_empty()))
    barrier(); // else the one with which the scalar is handed on
  if (result.use_empty()) {
    define(result, std::move(list));
    return success();
  }
  if (!isTile) {
    FailureOr<Value> all = fromFirstThread(list[0]);
    if (failed(all))
      return failure();
    define(result, {*all});
    return success();
  }
  if (!only) {
    define(result, std::move(list));
    return success();
  }
  // The other copies read what the first one got.
  auto type = cast<RankedTensorType>(result.getType());
  unsigned bytes = (storedType(element).getIntOrFloatBitWidth() + 7) / 8;
  FailureOr<Value> base = scratch(type.getNumElements() * bytes);
  if (failed(base))
    return failure();
  storeShared(*base, layout, list, {});
  scratchWritten();
  define(result, loadShared(*base, layout, element, {}));
  scratchRead();
  return success();
}

// Floats are ordered by their bits: -NaN, -inf, ..., -0, 0, ..., inf, NaN. A value without a sign
// bit compares as a signed integer, one with it as an unsigned one in the other direction.
Value Lowering::emitFloatExtreme(core::AtomicRMWOp op, Value address, Value value) {
  bool isMax = op.getKind() == core::AtomicKind::FMax;
  Type type = value.getType(), integer = integerOfBits(type.getIntOrFloatBitWidth());
  Value bits = bitcast(value, integer);
  Value negative = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, bits, zero(integer));
  auto update = [&](LLVM::AtomicBinOp operation) {
    return [this, op, address, bits, operation]() mutable -> Value {
      return machine.atomicUpdate(b, loc, operation, address, bits, op.getScope());
    };
  };
  Value before = emitIf(negative, integer,
                        update(isMax ? LLVM::AtomicBinOp::umin : LLVM::AtomicBinOp::umax),
                        update(isMax ? LLVM::AtomicBinOp::max : LLVM::AtomicBinOp::min));
  return bitcast(before, type);
}

LogicalResult Lowering::lowerAtomicRMW(core::AtomicRMWOp op) {
  bool isExtreme = op.getKind() == core::AtomicKind::FMax || op.getKind() == core::AtomicKind::FMin;
  return lowerAtomic(op, op.getPointer(), op.getMask(), op.getSemantic(), op.getScope(),
                     [&](Value address, unsigned r) -> Value {
                       Value value = elements(op.getValue())[r];
                       if (isExtreme)
                         return emitFloatExtreme(op, address, value);
                       return machine.atomicUpdate(b, loc, binary(op.getKind()), address, value,
                                                   op.getScope());
                     });
}

LogicalResult Lowering::lowerAtomicCAS(core::AtomicCASOp op) {
  return lowerAtomic(
      op, op.getPointer(), Value(), op.getSemantic(), op.getScope(),
      [&](Value address, unsigned r) -> Value {
        Value expected = elements(op.getExpected())[r], value = elements(op.getValue())[r];
        Type element = value.getType();
        if (isa<FloatType>(element)) { // bits are compared, as on every target
          auto integer = integerOfBits(element.getIntOrFloatBitWidth());
          expected = LLVM::BitcastOp::create(b, loc, integer, expected);
          value = LLVM::BitcastOp::create(b, loc, integer, value);
        }
        Value pair = LLVM::AtomicCmpXchgOp::create(b, loc, address, expected, value, relaxed, relaxed,
                                                   machine.syncScope(op.getScope()));
        Value before = LLVM::ExtractValueOp::create(b, loc, pair, ArrayRef<int64_t>{0});
        return isa<FloatType>(element) ? LLVM::BitcastOp::create(b, loc, element, before).getResult()
                                       : before;
      });
}

} // namespace tilery::simt
