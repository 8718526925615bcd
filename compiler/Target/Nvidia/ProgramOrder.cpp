// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Target/Nvidia/ProgramOrder.h"

#include "compiler/Dialect/Device/IR/Device.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Interfaces/LoopLikeInterface.h"

using namespace mlir;

namespace tilery::nvidia {

bool mayPrecede(Operation *first, Operation *second) {
  for (Operation *loop = first->getParentOp(); loop; loop = loop->getParentOp())
    if (isa<LoopLikeOpInterface>(loop) && loop->isAncestor(second))
      return true;
  for (Operation *a = first; a; a = a->getParentOp())
    if (Operation *b = a->getBlock() ? a->getBlock()->findAncestorOpInBlock(*second) : nullptr)
      return a == b ? a == first : a->isBeforeInBlock(b); // else two sides of a branch
  return false;
}

// An address that was loaded, directly or from a wider integer.
static core::LoadOp loadOfAddress(Operation *op) {
  if (!isa<core::IntToPtrOp>(op))
    return {};
  Operation *source = op->getOperand(0).getDefiningOp();
  while (isa_and_nonnull<core::HintOp, core::SplatOp, arith::ExtSIOp>(source))
    source = source->getOperand(0).getDefiningOp();
  return dyn_cast_or_null<core::LoadOp>(source);
}

Value argumentBehind(Value pointer) {
  while (Operation *op = pointer.getDefiningOp()) {
    if (core::LoadOp load = loadOfAddress(op)) {
      pointer = load.getPointer();
      continue;
    }
    if (!isa<core::AddPtrOp, core::SplatOp, core::BroadcastOp, core::ExpandDimsOp, core::TransOp,
             core::HintOp, core::PtrCastOp, core::ReshapeOp, device::LocalOp, device::SymmAtOp>(op))
      return {};
    pointer = op->getOperand(0);
  }
  Operation *owner = cast<BlockArgument>(pointer).getOwner()->getParentOp();
  return isa<func::FuncOp>(owner) ? pointer : Value();
}

// Where an operation writes; null when it writes no memory of arrays.
static Value destinationOf(Operation *op) {
  if (auto store = dyn_cast<core::StoreOp>(op))
    return store.getPointer();
  if (auto atomic = dyn_cast<core::AtomicRMWOp>(op))
    return atomic.getPointer();
  if (auto atomic = dyn_cast<core::AtomicCASOp>(op))
    return atomic.getPointer();
  if (auto put = dyn_cast<device::PutOp>(op))
    return put.getDestination();
  if (auto get = dyn_cast<device::GetOp>(op))
    return get.getDestination();
  return {};
}

bool isWrittenBefore(func::FuncOp kernel, Value argument, Operation *reader) {
  return kernel
      .walk([&](Operation *op) {
        Value destination = destinationOf(op);
        if (!destination || !mayPrecede(op, reader))
          return WalkResult::advance();
        Value root = argumentBehind(destination);
        return !root || root == argument ? WalkResult::interrupt() : WalkResult::advance();
      })
      .wasInterrupted();
}

} // namespace tilery::nvidia
