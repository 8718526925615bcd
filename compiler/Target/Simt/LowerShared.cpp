// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Tiles in shared memory: written and read by threads, the latter by matrices where the machine can.
//
// An element's byte offset is a linear map of its index, swizzle included, so the thread's part is
// computed once and a register adds a constant.
#include "compiler/Target/Simt/Lowering.h"

#include "llvm/Support/MathExtras.h"

namespace tilery::simt {

// Register bits that hold the lowest bits of the index, for accesses of several elements.
static SmallVector<unsigned> vectorBits(const LinearLayout &layout, unsigned elementBytes) {
  SmallVector<unsigned> bits = layout.contiguousBits();
  unsigned most = llvm::Log2_32(std::max(1u, 16 / elementBytes));
  if (bits.size() > most)
    bits.resize(most);
  return bits;
}

unsigned Lowering::vectorBytes(const LinearLayout &layout, unsigned elementBytes) {
  return elementBytes << vectorBits(layout, elementBytes).size();
}

// Of a row-major tile.
LinearLayout Lowering::inBytes(const LinearLayout &layout, unsigned elementBytes,
                               const Swizzle &swizzle) {
  LinearLayout result;
  auto apply = [&](ArrayRef<int32_t> from, Bases &to) {
    for (int32_t base : from)
      to.push_back(swizzle.apply(base * int32_t(elementBytes)));
  };
  apply(layout.registers, result.registers);
  apply(layout.lanes, result.lanes);
  apply(layout.warps, result.warps);
  return result;
}

//===-- As scalars or vectors -------------------------------------------------------------------------===//

Value Lowering::sharedAddress(Value base, Value byteOffset) {
  return LLVM::GEPOp::create(b, loc, base.getType(), b.getI8Type(), base,
                             ArrayRef<LLVM::GEPArg>{byteOffset});
}

Type Lowering::storedType(Type element) {
  if (element.isInteger(1))
    return b.getI8Type();
  return isa<LLVM::LLVMPointerType>(element) ? b.getI64Type() : element;
}

Value Lowering::toStored(Value value) {
  if (value.getType().isInteger(1))
    return arith::ExtUIOp::create(b, loc, b.getI8Type(), value);
  if (isa<LLVM::LLVMPointerType>(value.getType()))
    return LLVM::PtrToIntOp::create(b, loc, b.getI64Type(), value);
  return value;
}

Value Lowering::fromStored(Value value, Type element) {
  if (element.isInteger(1))
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, value, zero(b.getI8Type()));
  if (isa<LLVM::LLVMPointerType>(element))
    return LLVM::IntToPtrOp::create(b, loc, element, value);
  return value;
}

void Lowering::storeShared(Value base, const LinearLayout &layout, ValueRange list,
                           const Swizzle &swizzle) {
  Type stored = storedType(list[0].getType());
  unsigned bytes = (stored.getIntOrFloatBitWidth() + 7) / 8;
  LinearLayout offsets = inBytes(layout, bytes, swizzle);
  SmallVector<unsigned> bits = vectorBits(layout, bytes);
  emitIf(isFirstCopy(layout), [&] {
    forEachVector(layout, bits, [&](ArrayRef<unsigned> registers) {
      Value address = sharedAddress(base, elementIndex(offsets, registers[0]));
      if (registers.size() == 1) {
        LLVM::StoreOp::create(b, loc, toStored(list[registers[0]]), address, bytes);
        return;
      }
      Value vector = LLVM::PoisonOp::create(b, loc,
                                            VectorType::get({int64_t(registers.size())}, stored));
      for (auto [i, r] : llvm::enumerate(registers))
        vector = LLVM::InsertElementOp::create(b, loc, vector, toStored(list[r]), i32(int64_t(i)));
      LLVM::StoreOp::create(b, loc, vector, address, unsigned(bytes * registers.size()));
    });
  });
}

Elements Lowering::loadShared(Value base, const LinearLayout &layout, Type element,
                              const Swizzle &swizzle, bool byMatrices) {
  Type stored = storedType(element);
  unsigned bytes = (stored.getIntOrFloatBitWidth() + 7) / 8;
  SharedTile tile{base, inBytes(layout, bytes, swizzle), stored};
  if (byMatrices)
    tile.matrices = matricesOf(tile.offsets, bytes);
  for (Value &value : loadAll(tile))
    value = fromStored(value, element);
  return std::move(tile.list);
}

//===-- By register ---------------------------------------------------------------------------------------===//

std::optional<MatrixRows> Lowering::matricesOf(const LinearLayout &offsets, unsigned elementBytes) {
  if (!machine.loadsMatrices())
    return std::nullopt;
  return MatrixRows::of(offsets, elementBytes);
}

Elements &Lowering::loadAll(SharedTile &tile) {
  for (unsigned r = 0; r < tile.offsets.numRegisters(); ++r)
    loadRegister(tile, r);
  return tile.list;
}

Value Lowering::loadRegister(SharedTile &tile, unsigned r) {
  tile.list.resize(tile.offsets.numRegisters());
  if (!tile.list[r])
    tile.matrices ? loadMatrices(tile, r) : loadVector(tile, r);
  return tile.list[r];
}

// The access that brings register r, and all that comes with it.
void Lowering::loadMatrices(SharedTile &tile, unsigned r) {
  const MatrixRows &rows = *tile.matrices;
  unsigned other = 0;
  for (auto [i, bit] : llvm::enumerate(rows.otherBits))
    other |= (r >> bit & 1) << i;
  Value row = sharedAddress(tile.base, elementIndex(rows.addresses, other));
  unsigned inWord = 1u << rows.wordBits.size();
  auto words = machine.loadMatrices(b, loc, row, 1u << rows.matrixBits.size(), rows.transposed);
  Type type = inWord > 1 ? Type(VectorType::get({int64_t(inWord)}, tile.stored)) : tile.stored;
  for (auto [matrix, word] : llvm::enumerate(words)) {
    Value vector = LLVM::BitcastOp::create(b, loc, type, word);
    for (unsigned i = 0; i < inWord; ++i)
      tile.list[rows.registerOf(other, unsigned(matrix), i)] =
          inWord > 1 ? Value(LLVM::ExtractElementOp::create(b, loc, vector, i32(i))) : vector;
  }
}

// Registers that are neighbours in shared memory come together.
void Lowering::loadVector(SharedTile &tile, unsigned r) {
  unsigned bytes = (tile.stored.getIntOrFloatBitWidth() + 7) / 8;
  LinearLayout elements = tile.offsets;
  for (Bases *bases : {&elements.registers, &elements.lanes, &elements.warps})
    for (int32_t &base : *bases)
      base /= int32_t(bytes);
  SmallVector<unsigned> bits = vectorBits(elements, bytes);
  unsigned first = r, count = 1u << bits.size();
  for (unsigned bit : bits)
    first &= ~(1u << bit);
  Value address = sharedAddress(tile.base, elementIndex(tile.offsets, first));
  Type type = count > 1 ? Type(VectorType::get({int64_t(count)}, tile.stored)) : tile.stored;
  Value loaded = LLVM::LoadOp::create(b, loc, type, address, bytes * count);
  for (unsigned i = 0; i < count; ++i) {
    unsigned member = first;
    for (auto [position, bit] : llvm::enumerate(bits))
      member |= (i >> position & 1) << bit;
    tile.list[member] =
        count > 1 ? Value(LLVM::ExtractElementOp::create(b, loc, loaded, i32(i))) : loaded;
  }
}

} // namespace tilery::simt
