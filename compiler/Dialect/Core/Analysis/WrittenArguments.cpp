// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Follows the pointers of each write back to the kernel's arguments.
#include "compiler/Dialect/Core/Analysis/WrittenArguments.h"

#include "compiler/Dialect/Core/IR/Core.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace tilery::core {
namespace {

bool carriesPointers(Value value) { return isPointerLike(getElementTypeOrSelf(value.getType())); }

class Slice {
public:
  explicit Slice(func::FuncOp kernel) : kernel(kernel), written(kernel.getNumArguments()) {}

  void addWrite(Value pointer) {
    visit(pointer);
    while (!pending.empty())
      step(pending.pop_back_val());
  }

  func::FuncOp kernel;
  llvm::BitVector written;

private:
  SmallVector<Value> pending;
  llvm::SmallDenseSet<Value> seen;

  void visit(Value value) {
    if (carriesPointers(value) && seen.insert(value).second)
      pending.push_back(value);
  }

  void visitYields(Region &region, unsigned position) {
    for (Block &block : region)
      if (auto yield = dyn_cast<scf::YieldOp>(block.getTerminator()))
        visit(yield.getOperand(position));
  }

  // A value of a loop comes from its initial value or from a turn's end.
  void stepArgument(BlockArgument argument) {
    Operation *owner = argument.getOwner()->getParentOp();
    unsigned number = argument.getArgNumber();
    if (owner == kernel) {
      written.set(number);
    } else if (auto loop = dyn_cast<scf::ForOp>(owner)) {
      visit(loop.getInitArgs()[number - 1]);
      visitYields(loop.getRegion(), number - 1);
    } else if (auto loop = dyn_cast<scf::WhileOp>(owner)) {
      if (argument.getOwner()->getParent() == &loop.getBefore()) {
        visit(loop.getInits()[number]);
        visitYields(loop.getAfter(), number);
      } else {
        visit(loop.getConditionOp().getArgs()[number]);
      }
    }
  }

  void stepResult(OpResult result) {
    unsigned number = result.getResultNumber();
    TypeSwitch<Operation *>(result.getOwner())
        .Case<scf::IfOp>([&](scf::IfOp op) {
          visitYields(op.getThenRegion(), number);
          visitYields(op.getElseRegion(), number);
        })
        .Case<scf::ForOp>([&](scf::ForOp op) {
          visit(op.getInitArgs()[number]);
          visitYields(op.getRegion(), number);
        })
        .Case<scf::WhileOp>([&](scf::WhileOp op) { visit(op.getConditionOp().getArgs()[number]); })
        .Default([&](Operation *op) {
          for (Value operand : op->getOperands())
            visit(operand);
        });
  }

  void step(Value value) {
    if (auto argument = dyn_cast<BlockArgument>(value))
      return stepArgument(argument);
    stepResult(cast<OpResult>(value));
  }
};

} // namespace

llvm::BitVector writtenArguments(func::FuncOp kernel) {
  Slice slice(kernel);
  kernel.walk([&](Operation *op) {
    if (isa<StoreOp, AtomicRMWOp, AtomicCASOp>(op))
      slice.addWrite(op->getOperand(0));
    // The device level's get writes its first operand, a put the symmetric heap.
    if (op->getName().getStringRef() == "device.get")
      slice.addWrite(op->getOperand(0));
  });
  return slice.written;
}

} // namespace tilery::core
