// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Slots in shared memory that threads fill by copies of their own, and tiles read from there.
//
// Slots lie at the start of shared memory while they are allocated, scratch memory behind them. Outside
// of the loops that use them, scratch memory has the same place.
#include "compiler/Target/Simt/Accesses.h"
#include "compiler/Target/Simt/DotLayout.h"
#include "compiler/Target/Simt/Lowering.h"

#include "llvm/Support/MathExtras.h"

namespace tilery::simt {

static constexpr int64_t slotAlignment = 128; // all banks once

static int64_t slotBytes(SlotsType type) {
  return int64_t(llvm::alignTo(uint64_t(type.bytes()), slotAlignment));
}

static Swizzle swizzleOf(SlotsType type) { return {type.getShift(), type.getMask()}; }

LogicalResult Lowering::lowerAllocSlots(AllocSlotsOp op) {
  int64_t offset = 0;
  for (Value slots : op.getSlots()) {
    auto type = cast<SlotsType>(slots.getType());
    define(slots, {sharedAddress(sharedBase, i32(offset))});
    offset += slotBytes(type) * type.getStages();
  }
  if (offset > machine.sharedBytes())
    return emitError(loc) << "tiles of " << offset << " bytes do not fit into shared memory";
  ringBytes = offset;
  sharedBytes = std::max(sharedBytes, ringBytes);
  return success();
}

// The last reads are followed by a barrier before anything else is written there.
LogicalResult Lowering::lowerFreeSlots(FreeSlotsOp) {
  ringBytes = 0;
  scratchRead();
  return success();
}

Value Lowering::slotStart(Value slots, Value slot) {
  Value offset = arith::MulIOp::create(b, loc, slot, i32(slotBytes(cast<SlotsType>(slots.getType()))));
  return sharedAddress(scalar(slots), offset);
}

LogicalResult Lowering::lowerCopySlot(CopySlotOp op) {
  if (sharedBusy)
    barrier(); // what was here before may still be read
  beforeLoad(op.getPointer());
  auto type = cast<SlotsType>(op.getSlots().getType());
  unsigned bytes = unsigned(type.elementBytes()), width = op.getWidth();
  LinearLayout layout = layoutOf(op.getPointer());
  LinearLayout offsets = mapped(
      layout, sharedImages(type.getShape(), type.getFastest(), bytes, swizzleOf(type)));
  Value base = slotStart(op.getSlots(), scalar(op.getSlot()));
  Value enabled = andI(scalar(op.getEnabled()), isFirstCopy(layout));
  auto bits = neighbourBits(layout, type.getShape(), type.getFastest(), width);
  forEachVector(layout, bits, [&](ArrayRef<unsigned> registers) {
    unsigned first = registers[0];
    machine.copyAsync(b, loc, sharedAddress(base, elementIndex(offsets, first)),
                      elements(op.getPointer())[first], width * bytes, enabled,
                      op.getMask() ? elements(op.getMask())[first] : Value());
  });
  return success();
}

LogicalResult Lowering::lowerAwaitCopies(AwaitCopiesOp op) {
  machine.awaitCopies(b, loc, op.getPending());
  barrier();
  return success();
}

SharedTile Lowering::slotTile(ReadSlotOp op) {
  auto type = cast<SlotsType>(op.getSlots().getType());
  unsigned bytes = unsigned(type.elementBytes());
  unsigned fastest = op.getTransposed() ? 1 - type.getFastest() : type.getFastest();
  SharedTile tile{slotStart(op.getSlots(), scalar(op.getSlot())),
                  mapped(layoutOf(op.getResult()), sharedImages(core::shapeOf(op.getType()), fastest,
                                                                bytes, swizzleOf(type))),
                  loweredElement(type.getElement())};
  tile.matrices = matricesOf(tile.offsets, bytes);
  return tile;
}

// Whether the product reads the operand itself, piece by piece (LowerDot.cpp).
bool Lowering::isReadByDot(ReadSlotOp op) {
  if (!op->hasOneUse())
    return false;
  auto dot = dyn_cast<core::DotOp>(*op->user_begin());
  return dot && dot->getBlock() == op->getBlock() && instructionFor(dot, machine);
}

LogicalResult Lowering::lowerReadSlot(ReadSlotOp op) {
  if (isReadByDot(op))
    return success();
  SharedTile tile = slotTile(op);
  define(op, std::move(loadAll(tile)));
  return success();
}

} // namespace tilery::simt
