// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Changes of layout, by the cheapest way that does it: renaming registers, exchanging them
// between lanes, or through shared memory.
#include "compiler/Target/Simt/Lowering.h"

#include "llvm/Support/MathExtras.h"

namespace tilery::simt {

//===-- Registers ---------------------------------------------------------------------------------===//

// Every thread already has what it needs when lanes and warps agree.
std::optional<Elements> Lowering::convertInRegisters(ValueRange source, const LinearLayout &from,
                                                     const LinearLayout &to) {
  if (from.lanes != to.lanes || from.warps != to.warps)
    return std::nullopt;
  Span span(from.registers);
  Elements list;
  for (unsigned r = 0; r < to.numRegisters(); ++r) {
    auto held = span.express(to.ofRegister(r));
    if (!held)
      return std::nullopt;
    list.push_back(source[*held]);
  }
  return list;
}

//===-- Shuffles ------------------------------------------------------------------------------------===//

static Value viaI32(OpBuilder &b, Location loc, Value value,
                    llvm::function_ref<Value(Value)> move) {
  Type type = value.getType();
  if (isa<LLVM::LLVMPointerType>(type)) {
    Value address = LLVM::PtrToIntOp::create(b, loc, b.getI64Type(), value);
    return LLVM::IntToPtrOp::create(b, loc, type, viaI32(b, loc, address, move));
  }
  unsigned bits = type.isIntOrFloat() ? type.getIntOrFloatBitWidth() : 32;
  auto integer = b.getIntegerType(bits);
  Value raw = isa<IntegerType>(type) ? value : LLVM::BitcastOp::create(b, loc, integer, value);
  Value moved;
  if (bits == 64) {
    auto pair = VectorType::get({2}, b.getI32Type());
    Value halves = LLVM::BitcastOp::create(b, loc, pair, raw);
    for (int i = 0; i < 2; ++i) {
      Value index = arith::ConstantIntOp::create(b, loc, i, 32);
      Value half = move(LLVM::ExtractElementOp::create(b, loc, halves, index));
      halves = LLVM::InsertElementOp::create(b, loc, halves, half, index);
    }
    moved = LLVM::BitcastOp::create(b, loc, integer, halves);
  } else if (bits < 32) {
    Value wide = arith::ExtUIOp::create(b, loc, b.getI32Type(), raw);
    moved = arith::TruncIOp::create(b, loc, integer, move(wide));
  } else {
    moved = move(raw);
  }
  return isa<IntegerType>(type) ? moved : Value(LLVM::BitcastOp::create(b, loc, type, moved));
}

Value Lowering::shuffleXor(Value value, unsigned mask) {
  return viaI32(b, loc, value, [&](Value v) { return machine.shuffleXor(b, loc, v, mask); });
}

Value Lowering::shuffleFrom(Value value, Value lane) {
  return viaI32(b, loc, value, [&](Value v) { return machine.shuffle(b, loc, v, lane); });
}

// Swaps the roles of a register bit and a lane bit: of each pair of registers a lane gives away
// the one whose bit differs from its own.
void Lowering::exchange(MutableArrayRef<Value> registers, unsigned registerBit, unsigned laneBit) {
  Value bit = arith::AndIOp::create(b, loc, lane(), i32(1 << laneBit));
  Value upper = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, bit, i32(0));
  for (unsigned r = 0; r < registers.size(); ++r) {
    if (r >> registerBit & 1)
      continue;
    Value &low = registers[r], &high = registers[r | 1u << registerBit];
    Value sent = arith::SelectOp::create(b, loc, upper, low, high);
    Value received = shuffleXor(sent, 1u << laneBit);
    low = arith::SelectOp::create(b, loc, upper, received, low);
    high = arith::SelectOp::create(b, loc, upper, high, received);
  }
}

// Handles layouts whose bits are the same bases in other places within the warp. Neighbours that
// stay together are packed to 32 bits first.
std::optional<Elements> Lowering::convertByShuffles(ValueRange source, const LinearLayout &from,
                                                    const LinearLayout &to) {
  if (from.warps != to.warps || from.registers.size() != to.registers.size())
    return std::nullopt;
  SmallVector<std::pair<unsigned, unsigned>> swaps; // register bit, lane bit
  LinearLayout now = from;
  for (unsigned l = 0; l < to.lanes.size(); ++l) {
    if (now.lanes[l] == to.lanes[l])
      continue;
    auto at = llvm::find(now.registers, to.lanes[l]);
    if (at == now.registers.end() || to.lanes[l] == 0)
      return std::nullopt;
    std::swap(*at, now.lanes[l]);
    swaps.push_back({unsigned(at - now.registers.begin()), l});
  }
  if (swaps.size() > 3 || !llvm::all_of(to.registers, [&](int32_t base) {
        return llvm::is_contained(now.registers, base);
      }))
    return std::nullopt;

  unsigned bits = source[0].getType().isIntOrFloat() ? source[0].getType().getIntOrFloatBitWidth()
                                                     : 64;
  unsigned packed = 0; // register bits below this one travel together
  while (bits << (packed + 1) <= 32 && packed < now.registers.size() &&
         llvm::none_of(swaps, [&](auto swap) { return swap.first == packed; }))
    ++packed;
  if (bits < 16) // sub-byte and byte values are not worth packing
    packed = 0;
  Elements words;
  auto vector = VectorType::get({int64_t(1) << packed}, source[0].getType());
  for (size_t i = 0; i < source.size(); i += size_t(1) << packed) {
    if (!packed) {
      words.push_back(source[i]);
      continue;
    }
    Value word = LLVM::PoisonOp::create(b, loc, vector);
    for (int64_t j = 0; j < int64_t(1) << packed; ++j)
      word = LLVM::InsertElementOp::create(b, loc, word, source[i + size_t(j)], i32(j));
    words.push_back(LLVM::BitcastOp::create(b, loc, integerOfBits(bits << packed), word));
  }
  for (auto [registerBit, laneBit] : swaps)
    exchange(words, registerBit - packed, laneBit);
  Elements list;
  for (Value word : words) {
    if (!packed) {
      list.push_back(word);
      continue;
    }
    Value unpacked = LLVM::BitcastOp::create(b, loc, vector, word);
    for (int64_t j = 0; j < int64_t(1) << packed; ++j)
      list.push_back(LLVM::ExtractElementOp::create(b, loc, unpacked, i32(j)));
  }
  return convertInRegisters(list, now, to);
}

//===-- Shared memory -----------------------------------------------------------------------------------===//

void Lowering::barrier() {
  if (storesCopy && !inProducer)
    awaitCopiedStores();
  machine.barrier(b, loc, meetingThreads);
  ordered();
}

FailureOr<Value> Lowering::scratch(int64_t bytes) {
  if (ringBytes + bytes > machine.sharedBytes()) {
    emitError(loc) << "this needs " << bytes << " bytes of shared memory, but a program instance has "
                   << machine.sharedBytes() - ringBytes << "\nhint: use smaller tiles or fewer stages";
    return failure();
  }
  sharedBytes = std::max(sharedBytes, ringBytes + bytes);
  if (sharedBusy)
    barrier();
  return ringBytes ? sharedAddress(sharedBase, i32(ringBytes)) : sharedBase;
}

void Lowering::scratchWritten() {
  barrier();
}

FailureOr<Value> Lowering::fromFirstThread(Value value) {
  Type stored = storedType(value.getType());
  FailureOr<Value> base = scratch(8);
  if (failed(base))
    return failure();
  emitIf(isFirstThread(), [&] { LLVM::StoreOp::create(b, loc, toStored(value), *base); });
  scratchWritten();
  Value all = LLVM::LoadOp::create(b, loc, stored, *base);
  scratchRead();
  return fromStored(all, value.getType());
}

//===-- The choice ----------------------------------------------------------------------------------------===//

// Through the row-major tile in shared memory, by matrices where the reader's registers come so.
FailureOr<Elements> Lowering::convertByMemory(ValueRange source, RankedTensorType type,
                                              const LinearLayout &from, const LinearLayout &to) {
  Type element = source[0].getType();
  unsigned bytes = (storedType(element).getIntOrFloatBitWidth() + 7) / 8;
  int64_t tileBytes = type.getNumElements() * bytes;
  FailureOr<Value> base = scratch(tileBytes);
  if (failed(base))
    return failure();
  unsigned written = vectorBytes(from, bytes);
  auto matrices = matricesOf(inBytes(to, bytes, {}), bytes);
  Swizzle swizzle = matrices ? chooseSwizzle(inBytes(from, bytes, {}), written, *matrices, tileBytes)
                             : chooseSwizzle(from, to, bytes, std::max(written, vectorBytes(to, bytes)),
                                             tileBytes);
  storeShared(*base, from, source, swizzle);
  scratchWritten();
  Elements list = loadShared(*base, to, element, swizzle, matrices.has_value());
  scratchRead();
  return list;
}

FailureOr<Elements> Lowering::convert(ValueRange source, RankedTensorType type,
                                      const LinearLayout &from, const LinearLayout &to) {
  if (auto renamed = convertInRegisters(source, from, to))
    return *renamed;
  if (auto exchanged = convertByShuffles(source, from, to))
    return *exchanged;
  return convertByMemory(source, type, from, to);
}

LogicalResult Lowering::lowerConvert(ConvertLayoutOp op) {
  auto type = cast<RankedTensorType>(op.getType());
  FailureOr<Elements> list = convert(elements(op.getSource()), type, layoutOf(op.getSource()),
                                     layoutOf(op.getResult()));
  if (failed(list))
    return failure();
  define(op, std::move(*list));
  return success();
}

} // namespace tilery::simt
