// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Target/Simt/Accesses.h"

#include "compiler/Dialect/Core/IR/Core.h"
#include "compiler/Dialect/Device/IR/Device.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace tilery::simt {

Value argumentOf(Value pointer) {
  while (Operation *op = pointer.getDefiningOp()) {
    if (!isa<core::AddPtrOp, core::SplatOp, core::BroadcastOp, core::ExpandDimsOp, core::TransOp,
             core::ReshapeOp, core::HintOp, core::PtrCastOp, ConvertLayoutOp, device::LocalOp>(op))
      return {};
    pointer = op->getOperand(0);
  }
  auto argument = dyn_cast<BlockArgument>(pointer);
  return argument && isa<func::FuncOp>(argument.getOwner()->getParentOp()) ? pointer : Value();
}

bool writes(func::FuncOp kernel, Value argument) {
  bool found = false;
  kernel.walk([&](Operation *op) {
    Value pointer;
    if (auto store = dyn_cast<core::StoreOp>(op))
      pointer = store.getPointer();
    if (isa<core::AtomicRMWOp, core::AtomicCASOp>(op))
      pointer = op->getOperand(0);
    if (!pointer)
      return;
    Value written = argumentOf(pointer);
    found |= !written || written == argument;
  });
  return found;
}

unsigned pointeeBytes(Type pointer) {
  Type pointee = cast<core::PointerType>(getElementTypeOrSelf(pointer)).getPointee();
  return pointee.isIntOrFloat() ? (pointee.getIntOrFloatBitWidth() + 7) / 8 : 8;
}

bool isAllTrue(Value mask) {
  if (!mask)
    return true;
  if (auto splat = mask.getDefiningOp<core::SplatOp>())
    return isAllTrue(splat.getSource());
  return matchPattern(mask, m_One());
}

SmallVector<unsigned> neighbourBits(const LinearLayout &layout, ArrayRef<int64_t> shape,
                                    unsigned dim, unsigned width) {
  SmallVector<unsigned> bits;
  unsigned shift = axisShift(shape, dim);
  for (unsigned bit = 0; 1u << bit < width; ++bit) {
    int32_t base = 1 << (shift + bit);
    auto at = llvm::find(layout.registers, base);
    auto touches = [&](int32_t other) { return other != base && (other & base); };
    if (base > axisMask(shape, dim) || at == layout.registers.end() ||
        llvm::any_of(layout.registers, touches) || llvm::any_of(layout.lanes, touches) ||
        llvm::any_of(layout.warps, touches))
      break;
    bits.push_back(unsigned(at - layout.registers.begin()));
  }
  return bits;
}

} // namespace tilery::simt
