// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Placement of buffers.
#include "compiler/Conversion/CoreToVector/Buffers.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace tilery::vec {

static constexpr int64_t kStackBuffer = 4096, kStackTotal = 16384, kAlignment = 64;

void BufferAllocator::initialise(Block *block, Value scratchPointer) {
  entry = block;
  scratch = scratchPointer;
  last = scratch.getDefiningOp();
}

Value BufferAllocator::allocateStack(int64_t bytes, Location loc) {
  for (Slot *slot = available.begin(); slot != available.end(); ++slot)
    if (slot->bytes == bytes) {
      active.push_back(*slot);
      available.erase(slot);
      return active.back().address;
    }
  if (stackBytes + bytes > kStackTotal)
    return {};
  stackBytes += bytes;
  OpBuilder builder(entry->getParentOp()->getContext());
  builder.setInsertionPointAfter(last);
  Value count = arith::ConstantIntOp::create(builder, loc, bytes, 64);
  auto address = LLVM::AllocaOp::create(builder, loc, scratch.getType(), builder.getI8Type(),
                                        count, unsigned(kAlignment));
  last = address;
  active.push_back({address, bytes});
  return address;
}

Value BufferAllocator::allocate(int64_t bytes, Location loc) {
  bytes = llvm::alignTo(bytes, kAlignment);
  if (bytes <= kStackBuffer)
    if (Value address = allocateStack(bytes, loc))
      return address;
  OpBuilder builder(entry->getParentOp()->getContext());
  builder.setInsertionPointAfter(last);
  auto address = LLVM::GEPOp::create(builder, loc, scratch.getType(), builder.getI8Type(),
                                     scratch, ArrayRef<LLVM::GEPArg>{int32_t(scratchTop)});
  last = address;
  scratchTop += bytes;
  scratchHigh = std::max(scratchHigh, scratchTop);
  return address;
}

void BufferAllocator::release(Mark mark) {
  scratchTop = mark.scratchTop;
  while (active.size() > mark.active)
    available.push_back(active.pop_back_val());
}

} // namespace tilery::vec
