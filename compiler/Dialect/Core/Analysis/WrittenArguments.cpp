// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Follows the pointers of each write back to the kernel's arguments.
#include "compiler/Dialect/Core/Analysis/WrittenArguments.h"

#include "compiler/Dialect/Core/Analysis/PointerOrigins.h"
#include "compiler/Dialect/Core/IR/Core.h"

using namespace mlir;

namespace tilery::core {

// What a pointer is made of may be a pointer again, as the symmetric object of another rank's address.
static void addOrigins(func::FuncOp kernel, Value pointer, llvm::BitVector &written) {
  for (Value origin : pointerOrigins(pointer)) {
    if (auto argument = dyn_cast<BlockArgument>(origin)) {
      if (argument.getOwner()->getParentOp() == kernel)
        written.set(argument.getArgNumber());
      continue;
    }
    for (Value operand : origin.getDefiningOp()->getOperands())
      if (isPointerLike(getElementTypeOrSelf(operand.getType())))
        addOrigins(kernel, operand, written);
  }
}

llvm::BitVector writtenArguments(func::FuncOp kernel) {
  llvm::BitVector written(kernel.getNumArguments());
  kernel.walk([&](Operation *op) {
    // The device level's get writes its first operand, a put the symmetric heap.
    if (isa<StoreOp, AtomicRMWOp, AtomicCASOp>(op) || op->getName().getStringRef() == "device.get")
      addOrigins(kernel, op->getOperand(0), written);
  });
  return written;
}

} // namespace tilery::core
