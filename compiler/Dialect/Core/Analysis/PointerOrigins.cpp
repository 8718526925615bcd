// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Where pointers come from.
#include "compiler/Dialect/Core/Analysis/PointerOrigins.h"

#include "compiler/Dialect/Core/IR/Core.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace tilery::core {
namespace {

bool carriesPointers(Value value) { return isPointerLike(getElementTypeOrSelf(value.getType())); }

// Results are pointers of the operands, in other places or advanced. By name where the operation is of
// a higher level.
bool movesPointers(Operation *op) {
  return isa<AddPtrOp, SplatOp, BroadcastOp, ExpandDimsOp, ReshapeOp, TransOp, JoinOp, SplitOp, CatOp,
             GatherOp, HintOp, PtrCastOp, arith::SelectOp>(op) ||
         op->getName().getStringRef() == "device.local";
}

class Search {
public:
  void visit(Value value) {
    if (carriesPointers(value) && seen.insert(value).second)
      pending.push_back(value);
  }

  SmallVector<Value> run() {
    for (size_t next = 0; next < pending.size(); ++next) // which grows
      step(pending[next]);
    return std::move(origins);
  }

private:
  SmallVector<Value> pending, origins;
  llvm::SmallDenseSet<Value> seen;

  void visitYields(Region &region, unsigned position) {
    for (Block &block : region)
      if (auto yield = dyn_cast<scf::YieldOp>(block.getTerminator()))
        visit(yield.getOperand(position));
  }

  // A value of a loop comes from its initial value or from a turn's end.
  void stepArgument(BlockArgument argument) {
    Operation *owner = argument.getOwner()->getParentOp();
    unsigned number = argument.getArgNumber();
    if (auto loop = dyn_cast<scf::ForOp>(owner)) {
      visit(loop.getInitArgs()[number - 1]);
      visitYields(loop.getRegion(), number - 1);
    } else if (auto loop = dyn_cast<scf::WhileOp>(owner)) {
      if (argument.getOwner()->getParent() == &loop.getBefore()) {
        visit(loop.getInits()[number]);
        visitYields(loop.getAfter(), number);
      } else {
        visit(loop.getConditionOp().getArgs()[number]);
      }
    } else {
      origins.push_back(argument);
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
          if (!movesPointers(op))
            origins.push_back(result);
          else
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

SmallVector<Value> pointerOrigins(Value pointer) {
  Search search;
  search.visit(pointer);
  return search.run();
}

} // namespace tilery::core
