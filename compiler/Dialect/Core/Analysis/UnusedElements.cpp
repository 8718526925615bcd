// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/Core/Analysis/UnusedElements.h"

#include "compiler/Dialect/Core/IR/Core.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/DenseSet.h"

using namespace mlir;

namespace tilery::core {
namespace {

class UnusedElements {
public:
  explicit UnusedElements(LeavesOut leavesOut) : leavesOut(leavesOut) {}

  bool of(Value tile, int dim) {
    return !seen.insert({tile, dim}).second ||
           llvm::all_of(tile.getUses(), [&](OpOperand &use) { return ofUse(use, dim); });
  }

private:
  bool ofUse(OpOperand &use, int dim) {
    Operation *user = use.getOwner();
    unsigned operand = use.getOperandNumber();
    if (auto store = dyn_cast<StoreOp>(user))
      return operand == 1 && store.getMask() && leavesOut(store.getMask(), dim);
    if (auto dot = dyn_cast<DotOp>(user))
      return ofProduct(dot, operand, dim);
    if (auto trans = dyn_cast<TransOp>(user))
      return of(trans.getResult(), int(llvm::find(trans.getOrder(), dim) - trans.getOrder().begin()));
    if (auto loop = dyn_cast<scf::ForOp>(user))
      return operand >= loop.getNumControlOperands() &&
             carried(loop, loop.getTiedLoopResult(&use).getResultNumber(), dim);
    if (isa<scf::YieldOp>(user)) {
      if (auto loop = dyn_cast<scf::ForOp>(user->getParentOp()))
        return carried(loop, operand, dim);
      return isa<scf::IfOp>(user->getParentOp()) && of(user->getParentOp()->getResult(operand), dim);
    }
    bool isElementwise = isa<arith::ArithDialect, math::MathDialect>(user->getDialect());
    return isElementwise && user->getNumResults() == 1 && of(user->getResult(0), dim);
  }

  // Rows of the left operand are rows of the result, columns of the right one its columns; along the
  // depth every element counts.
  bool ofProduct(DotOp dot, unsigned operand, int dim) {
    bool isOuter = operand == 2 || (shapeOf(dot.getType()).size() == 2 && dim == int(operand));
    return isOuter && of(dot.getResult(), dim);
  }

  bool carried(scf::ForOp loop, unsigned number, int dim) {
    return of(loop.getResult(number), dim) && of(loop.getRegionIterArg(number), dim);
  }

  LeavesOut leavesOut;
  DenseSet<std::pair<Value, int>> seen;
};

} // namespace

bool areUnused(Value tile, int dim, LeavesOut leavesOut) {
  return UnusedElements(leavesOut).of(tile, dim);
}

} // namespace tilery::core
