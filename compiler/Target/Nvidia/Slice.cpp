// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Target/Nvidia/Slice.h"

#include "compiler/Dialect/Device/IR/Device.h"
#include "compiler/Target/Nvidia/ProgramOrder.h"

using namespace mlir;

namespace tilery::nvidia {

Slice::Slice(func::FuncOp kernel, ArrayRef<Operation *> roots) : kernel(kernel) {
  for (Operation *root : roots)
    keep(root);
  for (Operation *op : kept)
    valid &= llvm::is_contained(roots, op) || canRunTwice(op);
}

// Both roles run it, the copying warps earlier.
bool Slice::canRunTwice(Operation *op) {
  if (op->getNumRegions() || isMemoryEffectFree(op) || isa<device::SymmAtOp>(op))
    return true;
  auto load = dyn_cast<core::LoadOp>(op);
  if (!load || load.getIsVolatile())
    return false;
  Value array = argumentBehind(load.getPointer());
  return array && !isWrittenBefore(kernel, array, load);
}

void Slice::keep(Operation *op) {
  if (!valid || !kept.insert(op).second)
    return;
  if (auto loop = dyn_cast<scf::ForOp>(op)) {
    for (Value control : {loop.getLowerBound(), loop.getUpperBound(), loop.getStep()})
      need(control);
  } else if (auto branch = dyn_cast<scf::IfOp>(op)) {
    need(branch.getCondition());
  } else if (op->getNumRegions() && !isa<func::FuncOp>(op)) {
    valid = false;
    return;
  } else if (!isa<func::FuncOp>(op)) {
    for (Value operand : op->getOperands())
      need(operand);
  }
  if (Operation *parent = op->getParentOp(); parent && !isa<func::FuncOp>(parent))
    keep(parent);
}

void Slice::need(Value value) {
  if (!valid || !needed.insert(value).second)
    return;
  if (isa<RankedTensorType>(value.getType())) {
    valid = false; // the producer is a single thread
    return;
  }
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    Operation *owner = argument.getOwner()->getParentOp();
    if (isa<func::FuncOp>(owner))
      return;
    auto loop = dyn_cast<scf::ForOp>(owner);
    if (!loop) {
      valid = false;
      return;
    }
    keep(loop);
    if (argument == loop.getInductionVar())
      return;
    unsigned position = argument.getArgNumber() - 1;
    need(loop.getInits()[position]);
    need(loop.getYieldedValues()[position]);
    return;
  }
  auto result = cast<OpResult>(value);
  Operation *op = result.getOwner();
  keep(op);
  if (auto loop = dyn_cast<scf::ForOp>(op))
    need(loop.getRegionIterArg(result.getResultNumber()));
  if (auto branch = dyn_cast<scf::IfOp>(op)) {
    need(branch.thenYield().getOperand(result.getResultNumber()));
    need(branch.elseYield().getOperand(result.getResultNumber()));
  }
}

void Slice::clone(Block &from, OpBuilder &b) {
  for (Operation &op : from) {
    if (!kept.contains(&op))
      continue;
    if (auto loop = dyn_cast<scf::ForOp>(op))
      cloneFor(loop, b);
    else if (auto branch = dyn_cast<scf::IfOp>(op))
      cloneIf(branch, b);
    else
      b.clone(op, map);
  }
}

void Slice::cloneFor(scf::ForOp loop, OpBuilder &b) {
  SmallVector<unsigned> carried;
  SmallVector<Value> inits;
  for (auto [i, argument] : llvm::enumerate(loop.getRegionIterArgs()))
    if (needed.contains(argument) || needed.contains(loop.getResult(unsigned(i)))) {
      carried.push_back(unsigned(i));
      inits.push_back(map.lookupOrDefault(loop.getInits()[i]));
    }
  auto copy = scf::ForOp::create(b, loop.getLoc(), map.lookupOrDefault(loop.getLowerBound()),
                                 map.lookupOrDefault(loop.getUpperBound()),
                                 map.lookupOrDefault(loop.getStep()), inits);
  map.map(loop.getInductionVar(), copy.getInductionVar());
  for (auto [position, i] : llvm::enumerate(carried)) {
    map.map(loop.getRegionIterArg(i), copy.getRegionIterArg(unsigned(position)));
    map.map(loop.getResult(i), copy.getResult(unsigned(position)));
  }
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(copy.getBody());
  clone(*loop.getBody(), b);
  if (carried.empty())
    return;
  SmallVector<Value> yielded;
  for (unsigned i : carried)
    yielded.push_back(map.lookupOrDefault(loop.getYieldedValues()[i]));
  scf::YieldOp::create(b, loop.getLoc(), yielded);
}

void Slice::cloneIf(scf::IfOp branch, OpBuilder &b) {
  SmallVector<unsigned> used;
  SmallVector<Type> types;
  for (auto result : branch.getResults())
    if (needed.contains(result)) {
      used.push_back(result.getResultNumber());
      types.push_back(result.getType());
    }
  bool hasElse = !branch.getElseRegion().empty();
  auto copy = scf::IfOp::create(b, branch.getLoc(), types,
                                map.lookupOrDefault(branch.getCondition()), hasElse);
  auto side = [&](Region &from, Region &to) {
    OpBuilder::InsertionGuard guard(b);
    if (types.empty())
      b.setInsertionPointToStart(&to.front());
    else
      b.setInsertionPointToEnd(&to.front());
    clone(from.front(), b);
    if (types.empty())
      return;
    SmallVector<Value> yielded;
    for (unsigned i : used)
      yielded.push_back(map.lookupOrDefault(from.front().getTerminator()->getOperand(i)));
    scf::YieldOp::create(b, branch.getLoc(), yielded);
  };
  side(branch.getThenRegion(), copy.getThenRegion());
  if (hasElse)
    side(branch.getElseRegion(), copy.getElseRegion());
  for (auto [position, i] : llvm::enumerate(used))
    map.map(branch.getResult(i), copy.getResult(unsigned(position)));
}

} // namespace tilery::nvidia
