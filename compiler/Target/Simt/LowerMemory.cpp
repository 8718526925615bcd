// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Loads and stores: as wide as the layout and what is known of the addresses allow; barriers
// where program order within the instance needs them (language.md, section 4, rule 1).
#include "compiler/Target/Simt/Accesses.h"
#include "compiler/Target/Simt/Lowering.h"

#include "llvm/Support/MathExtras.h"

namespace tilery::simt {

Value Lowering::emitIf(Value condition, Type type, llvm::function_ref<Value()> emit,
                       llvm::function_ref<Value()> otherwise) {
  if (!condition)
    return emit();
  auto branch = scf::IfOp::create(b, loc, type, condition, true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  scf::YieldOp::create(b, loc, emit());
  b.setInsertionPointToStart(branch.elseBlock());
  scf::YieldOp::create(b, loc, otherwise());
  return branch.getResult(0);
}

void Lowering::emitIf(Value condition, llvm::function_ref<void()> emit) {
  if (!condition)
    return emit();
  auto branch = scf::IfOp::create(b, loc, condition, false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  emit();
}

//===-- Program order ---------------------------------------------------------------------------===//

void Lowering::ordered() {
  pendingLoads.clear();
  pendingStores.clear();
  unknownLoads = unknownStores = sharedBusy = false;
}

void Lowering::beforeLoad(Value pointer) {
  bool apart = llvm::all_of(pendingStores, [&](Value store) { return sameThreads(store, pointer); });
  if (unknownStores || !apart)
    barrier();
  pendingLoads.push_back(pointer);
}

void Lowering::beforeStore(Value pointer) {
  auto same = [&](Value access) { return sameThreads(access, pointer); };
  if (unknownStores || unknownLoads || !llvm::all_of(pendingStores, same) ||
      !llvm::all_of(pendingLoads, same))
    barrier();
  pendingStores.push_back(pointer);
}

//===-- Width ------------------------------------------------------------------------------------------===//

// Register bits along one dimension whose elements are consecutive in memory.
unsigned Lowering::accessWidth(Value pointer, Value mask, const LinearLayout &layout,
                               SmallVectorImpl<unsigned> &bits) {
  unsigned dim = axes.fastestDim(pointer);
  bits = neighbourBits(layout, core::shapeOf(pointer.getType()), dim,
                       axes.vectorWidth(pointer, mask, dim));
  return 1u << bits.size();
}

// Memory holds whole words: 16-byte accesses are made of i32, which every machine has.
static Type wordType(OpBuilder &b, unsigned bytes) {
  if (bytes <= 8)
    return b.getIntegerType(bytes * 8);
  return VectorType::get({bytes / 4}, b.getI32Type());
}

//===-- Loads --------------------------------------------------------------------------------------------===//

// Polled memory may change between two threads' reads, and control flow depends on it.
LogicalResult Lowering::lowerScalarLoad(core::LoadOp op) {
  Type element = loweredElement(op.getType());
  Value address = scalar(op.getPointer());
  Value mask = op.getMask() ? scalar(op.getMask()) : Value();
  Value other = op.getOther() ? scalar(op.getOther()) : Value();
  auto load = [&]() -> Value {
    Type stored = storedType(element);
    unsigned bytes = pointeeBytes(op.getPointer().getType());
    return fromStored(LLVM::LoadOp::create(b, loc, stored, address, bytes, op.getIsVolatile()),
                      element);
  };
  auto masked = [&] {
    return emitIf(mask, element, load, [&] { return other ? other : zero(element); });
  };
  if (!op.getIsVolatile()) {
    define(op, {masked()});
    return success();
  }
  Value mine = emitIf(isFirstThread(), element, masked, [&] { return zero(element); });
  FailureOr<Value> all = fromFirstThread(mine);
  if (failed(all))
    return failure();
  define(op, {*all});
  return success();
}

LogicalResult Lowering::lowerLoad(core::LoadOp op) {
  beforeLoad(op.getPointer());
  if (!isa<RankedTensorType>(op.getType()))
    return lowerScalarLoad(op);
  LinearLayout layout = layoutOf(op.getResult());
  Type element = loweredElement(getElementTypeOrSelf(op.getType())), stored = storedType(element);
  unsigned bytes = pointeeBytes(op.getPointer().getType());
  Value mask = isAllTrue(op.getMask()) ? Value() : op.getMask();
  SmallVector<unsigned> bits;
  unsigned width = accessWidth(op.getPointer(), mask, layout, bits);
  Type word = wordType(b, width * bytes);
  Elements list(layout.numRegisters());
  forEachVector(layout, bits, [&](ArrayRef<unsigned> registers) {
    unsigned first = registers[0];
    auto vectorType = VectorType::get({int64_t(width)}, stored);
    auto load = [&]() -> Value {
      return LLVM::LoadOp::create(b, loc, word, elements(op.getPointer())[first], width * bytes,
                                  op.getIsVolatile());
    };
    auto otherwise = [&]() -> Value {
      if (!op.getOther())
        return LLVM::ZeroOp::create(b, loc, word);
      if (width == 1)
        return LLVM::BitcastOp::create(b, loc, word, toStored(elements(op.getOther())[first]));
      Value vector = LLVM::PoisonOp::create(b, loc, vectorType);
      for (auto [i, r] : llvm::enumerate(registers))
        vector = LLVM::InsertElementOp::create(b, loc, vector, toStored(elements(op.getOther())[r]),
                                               i32(int64_t(i)));
      return LLVM::BitcastOp::create(b, loc, word, vector);
    };
    Value raw = emitIf(mask ? elements(mask)[first] : Value(), word, load, otherwise);
    if (width == 1) {
      list[first] = fromStored(LLVM::BitcastOp::create(b, loc, stored, raw), element);
      return;
    }
    Value vector = LLVM::BitcastOp::create(b, loc, vectorType, raw);
    for (auto [i, r] : llvm::enumerate(registers))
      list[r] = fromStored(LLVM::ExtractElementOp::create(b, loc, vector, i32(int64_t(i))), element);
  });
  define(op, std::move(list));
  return success();
}

// Packed outside of loops, unpacked where the operation stands.
LogicalResult Lowering::lowerKeepWords(KeepWordsOp op) {
  Elements list = elements(op.getSource()), kept;
  Type half = list[0].getType(), pair = VectorType::get({2}, half);
  for (size_t r = 0; r < list.size(); r += 2) {
    Value both = LLVM::PoisonOp::create(b, loc, pair);
    for (size_t i : {0, 1})
      both = LLVM::InsertElementOp::create(b, loc, both, list[r + i], i32(int64_t(i)));
    Value word = machine.keepWord(b, loc, LLVM::BitcastOp::create(b, loc, b.getI32Type(), both));
    both = LLVM::BitcastOp::create(b, loc, pair, word);
    for (size_t i : {0, 1})
      kept.push_back(LLVM::ExtractElementOp::create(b, loc, both, i32(int64_t(i))));
  }
  define(op, std::move(kept));
  return success();
}

//===-- Stores --------------------------------------------------------------------------------------------===//

// Words of 8 bytes may be polled by a rank that has no other sign of their arrival (words with flags in
// docs/memory-model.md): they are not kept back.
static bool isPolledWord(core::StoreOp op) {
  auto pointer = cast<core::PointerType>(getElementTypeOrSelf(op.getPointer().getType()));
  return pointer.getRemote() && pointer.getPointee().isInteger(64);
}

LogicalResult Lowering::lowerStore(core::StoreOp op) {
  beforeStore(op.getPointer());
  unsigned bytes = pointeeBytes(op.getPointer().getType());
  bool isPolled = isPolledWord(op);
  if (!isa<RankedTensorType>(op.getPointer().getType())) {
    Value only = isFirstThread();
    if (op.getMask())
      only = andI(only, scalar(op.getMask()));
    emitIf(only, [&] {
      LLVM::StoreOp::create(b, loc, toStored(scalar(op.getValue())), scalar(op.getPointer()), bytes,
                            isPolled);
    });
    return success();
  }
  LinearLayout layout = layoutOf(op.getPointer());
  Value mask = isAllTrue(op.getMask()) ? Value() : op.getMask();
  SmallVector<unsigned> bits;
  unsigned width = accessWidth(op.getPointer(), mask, layout, bits);
  Value only = isFirstCopy(layout);
  forEachVector(layout, bits, [&](ArrayRef<unsigned> registers) {
    Value condition = mask ? andI(only, elements(mask)[registers[0]]) : only;
    emitIf(condition, [&] {
      Value value = toStored(elements(op.getValue())[registers[0]]);
      if (width > 1) {
        Value vector = LLVM::PoisonOp::create(
            b, loc, VectorType::get({int64_t(width)}, value.getType()));
        for (auto [i, r] : llvm::enumerate(registers))
          vector = LLVM::InsertElementOp::create(
              b, loc, vector, toStored(elements(op.getValue())[r]), i32(int64_t(i)));
        value = vector;
      }
      value = LLVM::BitcastOp::create(b, loc, wordType(b, width * bytes), value);
      LLVM::StoreOp::create(b, loc, value, elements(op.getPointer())[registers[0]], width * bytes,
                            isPolled);
    });
  });
  return success();
}

} // namespace tilery::simt
