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
  } else if (auto loop = dyn_cast<scf::WhileOp>(op)) {
    need(loop.getConditionOp().getCondition());
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
    valid &= needArgument(argument);
    return;
  }
  auto result = cast<OpResult>(value);
  Operation *op = result.getOwner();
  keep(op);
  if (auto loop = dyn_cast<scf::ForOp>(op))
    need(loop.getRegionIterArg(result.getResultNumber()));
  if (auto loop = dyn_cast<scf::WhileOp>(op))
    need(loop.getConditionOp().getArgs()[result.getResultNumber()]);
  if (auto branch = dyn_cast<scf::IfOp>(op)) {
    need(branch.thenYield().getOperand(result.getResultNumber()));
    need(branch.elseYield().getOperand(result.getResultNumber()));
  }
}

// False when it belongs to an operation that cannot be cut.
bool Slice::needArgument(BlockArgument argument) {
  Operation *owner = argument.getOwner()->getParentOp();
  unsigned number = argument.getArgNumber();
  if (isa<func::FuncOp>(owner))
    return true;
  keep(owner);
  if (auto loop = dyn_cast<scf::ForOp>(owner)) {
    if (argument != loop.getInductionVar()) {
      need(loop.getInits()[number - 1]);
      need(loop.getYieldedValues()[number - 1]);
    }
    return true;
  }
  auto loop = dyn_cast<scf::WhileOp>(owner);
  if (!loop)
    return false;
  if (argument.getOwner() == loop.getBeforeBody()) {
    need(loop.getInits()[number]);
    need(loop.getYieldOp().getOperand(number));
  } else {
    need(loop.getConditionOp().getArgs()[number]);
  }
  return true;
}

void Slice::clone(Block &from, OpBuilder &b) {
  for (Operation &op : from) {
    if (!kept.contains(&op))
      continue;
    if (auto loop = dyn_cast<scf::ForOp>(op))
      cloneFor(loop, b);
    else if (auto branch = dyn_cast<scf::IfOp>(op))
      cloneIf(branch, b);
    else if (auto loop = dyn_cast<scf::WhileOp>(op))
      cloneWhile(loop, b);
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

void Slice::cloneWhile(scf::WhileOp loop, OpBuilder &b) {
  Location loc = loop.getLoc();
  scf::ConditionOp condition = loop.getConditionOp();
  // What goes around, and what goes on to the body and leaves.
  SmallVector<BlockArgument> around;
  SmallVector<Value> inits, onwards;
  SmallVector<unsigned> leaving;
  SmallVector<Type> types;
  for (BlockArgument argument : loop.getBeforeArguments())
    if (needed.contains(argument)) {
      around.push_back(argument);
      inits.push_back(map.lookupOrDefault(loop.getInits()[argument.getArgNumber()]));
    }
  for (auto [i, argument] : llvm::enumerate(loop.getAfterArguments()))
    if (needed.contains(argument) || needed.contains(loop.getResult(unsigned(i)))) {
      leaving.push_back(unsigned(i));
      types.push_back(argument.getType());
    }
  auto copy = scf::WhileOp::create(b, loc, types, inits);
  auto open = [&](Region &region, TypeRange arguments) {
    return b.createBlock(&region, region.end(), arguments,
                         SmallVector<Location>(arguments.size(), loc));
  };
  OpBuilder::InsertionGuard guard(b);
  Block *before = open(copy.getBefore(), ValueRange(inits).getTypes());
  for (auto [from, to] : llvm::zip(around, before->getArguments()))
    map.map(from, to);
  clone(*loop.getBeforeBody(), b);
  for (unsigned i : leaving)
    onwards.push_back(map.lookupOrDefault(condition.getArgs()[i]));
  scf::ConditionOp::create(b, loc, map.lookupOrDefault(condition.getCondition()), onwards);
  Block *after = open(copy.getAfter(), types);
  for (auto [position, i] : llvm::enumerate(leaving)) {
    map.map(loop.getAfterArguments()[i], after->getArgument(unsigned(position)));
    map.map(loop.getResult(i), copy.getResult(unsigned(position)));
  }
  clone(*loop.getAfterBody(), b);
  SmallVector<Value> yielded;
  for (BlockArgument argument : around)
    yielded.push_back(map.lookupOrDefault(loop.getYieldOp().getOperand(argument.getArgNumber())));
  scf::YieldOp::create(b, loc, yielded);
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
