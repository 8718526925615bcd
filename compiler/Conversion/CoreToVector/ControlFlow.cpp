// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Loops and branches that carry tiles: each carried tile has one buffer, which the loop
// updates in place.
#include "compiler/Conversion/CoreToVector/Lowering.h"

namespace tilery::vec {

static bool isTileValue(Value value) { return isa<RankedTensorType>(value.getType()); }

//===-- Simultaneous assignment ------------------------------------------------------------===//

namespace {
// Which buffers an expression reads, and whether only at the position it is evaluated for.
struct Reads {
  llvm::MapVector<Value, bool> bases; // base -> identity
  llvm::SmallPtrSet<void *, 8> seen[2];
};
} // namespace

static bool keepsPosition(Operation *op) {
  return Lowering::isElementwise(op) ||
         isa<core::HintOp, core::AddPtrOp, core::PtrToIntOp, core::IntToPtrOp, core::PtrCastOp,
             device::LocalOp>(op);
}

static void collectReads(const Lowering &lowering, Value value, bool identity, Reads &reads) {
  if (!isTileValue(value) || !reads.seen[identity].insert(value.getAsOpaquePointer()).second)
    return;
  if (lowering.isStored(value)) {
    auto [entry, fresh] = reads.bases.try_emplace(lowering.bufferOf(value).base, identity);
    if (!fresh)
      entry->second &= identity;
    return;
  }
  Operation *op = value.getDefiningOp();
  for (Value operand : op->getOperands())
    collectReads(lowering, operand, identity && keepsPosition(op), reads);
}

LogicalResult Lowering::assign(ArrayRef<Value> values, ArrayRef<Buffer> targets) {
  struct Pending {
    Value value;
    std::optional<Buffer> copy; // the value, once it had to be put aside
    Buffer target;
    Reads reads;
  };
  std::vector<Pending> pending;
  for (auto [value, target] : llvm::zip(values, targets)) {
    if (isStored(value) && bufferOf(value).base == target.base)
      continue;
    pending.push_back({value, std::nullopt, target, {}});
    collectReads(*this, value, true, pending.back().reads);
  }
  // Safe when nothing else that is pending reads the target, and itself only in place.
  auto isSafe = [&](Pending &candidate) {
    return llvm::all_of(pending, [&](Pending &other) {
      auto read = other.reads.bases.find(candidate.target.base);
      return read == other.reads.bases.end() || (&other == &candidate && read->second);
    });
  };
  while (!pending.empty()) {
    auto next = llvm::find_if(pending, isSafe);
    if (next != pending.end()) {
      if (next->copy)
        copyBuffer(*next->copy, next->target);
      else if (failed(evaluateInto(next->value, next->target, loc)))
        return failure();
      pending.erase(next);
      continue;
    }
    // A cycle: the first one goes through a buffer of its own.
    Pending &first = pending.front();
    first.copy = allocateAs(first.target.shape, first.target.element, loc);
    if (failed(evaluateInto(first.value, *first.copy, loc)))
      return failure();
    first.reads = {};
  }
  return success();
}

//===-- for -----------------------------------------------------------------------------------===//

// The initial value's own buffer can become the loop's when nothing else needs the value.
static bool canTakeOver(const Lowering &lowering, Value init, Operation *loop) {
  return lowering.isStored(init) && init.hasOneUse() &&
         init.getParentBlock() == loop->getBlock();
}

LogicalResult Lowering::prepareCarried(Operation *loop, ValueRange inits,
                                       SmallVectorImpl<Buffer> &tiles,
                                       SmallVectorImpl<Value> &scalarInits) {
  for (Value init : inits) {
    if (!isTileValue(init)) {
      scalarInits.push_back(scalar(init));
      continue;
    }
    if (canTakeOver(*this, init, loop)) {
      tiles.push_back(bufferOf(init));
      continue;
    }
    tiles.push_back(allocate(cast<RankedTensorType>(init.getType()), loc));
    if (failed(evaluateInto(init, tiles.back(), loc)))
      return failure();
  }
  return success();
}

void Lowering::bindCarried(ValueRange values, ArrayRef<Buffer> tiles, ValueRange lowered) {
  size_t tile = 0, scalarIndex = 0;
  for (Value value : values) {
    if (isTileValue(value))
      setBuffer(value, tiles[tile++]);
    else
      setScalar(value, lowered[scalarIndex++]);
  }
}

// Ends a region: tiles go to their buffers, scalars are returned.
FailureOr<SmallVector<Value>> Lowering::finishRegion(ValueRange yielded,
                                                     ArrayRef<Buffer> tiles) {
  SmallVector<Value> tileValues, scalarsOut;
  for (Value value : yielded)
    if (isTileValue(value))
      tileValues.push_back(value);
  if (failed(assign(tileValues, tiles)))
    return failure();
  for (Value value : yielded)
    if (!isTileValue(value))
      scalarsOut.push_back(scalar(value));
  return scalarsOut;
}

LogicalResult Lowering::lowerFor(scf::ForOp op) {
  SmallVector<Buffer> tiles;
  SmallVector<Value> inits;
  if (failed(prepareCarried(op, op.getInitArgs(), tiles, inits)))
    return failure();
  auto loop = scf::ForOp::create(builder, loc, scalar(op.getLowerBound()),
                                 scalar(op.getUpperBound()), scalar(op.getStep()), inits,
                                 nullptr, op.getUnsignedCmp());
  if (!loop.getBody()->empty())
    loop.getBody()->getTerminator()->erase();
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToEnd(loop.getBody());
  setScalar(op.getInductionVar(), loop.getInductionVar());
  bindCarried(op.getRegionIterArgs(), tiles, llvm::to_vector_of<Value>(loop.getRegionIterArgs()));
  BufferAllocator::Mark mark = allocator.mark();
  if (failed(lowerBlock(*op.getBody())))
    return failure();
  auto yields = finishRegion(op.getYieldedValues(), tiles);
  if (failed(yields))
    return failure();
  scf::YieldOp::create(builder, loc, *yields);
  allocator.release(mark);
  bindCarried(op.getResults(), tiles, loop.getResults());
  return success();
}

//===-- if --------------------------------------------------------------------------------------===//

LogicalResult Lowering::lowerIf(scf::IfOp op) {
  SmallVector<Buffer> tiles;
  SmallVector<Type> types;
  for (Value result : op.getResults()) {
    if (auto tile = dyn_cast<RankedTensorType>(result.getType()))
      tiles.push_back(allocate(tile, loc));
    else
      types.push_back(lowered(result.getType()));
  }
  auto branch = scf::IfOp::create(builder, loc, types, scalar(op.getCondition()),
                                  !op.getElseRegion().empty());
  OpBuilder::InsertionGuard guard(builder);
  for (auto [source, target] : llvm::zip(op->getRegions(), branch->getRegions())) {
    if (source.empty())
      continue;
    Block &block = target.front();
    if (!block.empty())
      block.getTerminator()->erase();
    builder.setInsertionPointToEnd(&block);
    BufferAllocator::Mark mark = allocator.mark();
    if (failed(lowerBlock(source.front())))
      return failure();
    auto yields = finishRegion(source.front().getTerminator()->getOperands(), tiles);
    if (failed(yields))
      return failure();
    scf::YieldOp::create(builder, loc, *yields);
    allocator.release(mark);
  }
  bindCarried(op.getResults(), tiles, branch.getResults());
  return success();
}

//===-- while -----------------------------------------------------------------------------------===//

static bool pollsMemory(scf::WhileOp loop) {
  return loop
      .walk([](Operation *op) {
        return isa<core::LoadOp, core::AtomicRMWOp, core::AtomicCASOp>(op)
                   ? WalkResult::interrupt()
                   : WalkResult::advance();
      })
      .wasInterrupted();
}

// The buffers of the values that the condition forwards: a carried tile that is forwarded
// as it is keeps its buffer.
LogicalResult Lowering::forwardTiles(scf::WhileOp op, SmallVectorImpl<Buffer> &tiles) {
  for (Value value : op.getConditionOp().getArgs()) {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    if (!type)
      continue;
    bool once = llvm::count(op.getConditionOp().getArgs(), value) == 1;
    if (isa<BlockArgument>(value) && once &&
        cast<BlockArgument>(value).getOwner() == op.getBeforeBody())
      tiles.push_back(bufferOf(value));
    else
      tiles.push_back(allocate(type, loc));
  }
  return success();
}

LogicalResult Lowering::lowerWhile(scf::WhileOp op) {
  SmallVector<Buffer> before, after;
  SmallVector<Value> inits;
  if (failed(prepareCarried(op, op.getInits(), before, inits)))
    return failure();
  bool polls = pollsMemory(op);
  bindCarried(op.getBeforeArguments(), before, ValueRange(SmallVector<Value>(inits)));
  if (failed(forwardTiles(op, after)))
    return failure();
  SmallVector<Type> types;
  for (Type type : op.getResultTypes())
    if (!isa<RankedTensorType>(type))
      types.push_back(lowered(type));
  Location at = loc;
  auto loop = scf::WhileOp::create(builder, at, types, inits);
  OpBuilder::InsertionGuard guard(builder);
  SmallVector<Location> initLocs(inits.size(), at), resultLocs(types.size(), at);
  Block *condition = builder.createBlock(&loop.getBefore(), {},
                                         llvm::to_vector(ValueRange(inits).getTypes()), initLocs);
  bindCarried(op.getBeforeArguments(), before, condition->getArguments());
  BufferAllocator::Mark mark = allocator.mark();
  if (failed(lowerBlock(*op.getBeforeBody())))
    return failure();
  Value proceed = scalar(op.getConditionOp().getCondition());
  auto forwarded = finishRegion(op.getConditionOp().getArgs(), after);
  if (failed(forwarded))
    return failure();
  scf::ConditionOp::create(builder, loc, proceed, *forwarded);
  allocator.release(mark);

  Block *body = builder.createBlock(&loop.getAfter(), {}, types, resultLocs);
  bindCarried(op.getAfterArguments(), after, body->getArguments());
  if (failed(lowerBlock(*op.getAfterBody())))
    return failure();
  auto yields = finishRegion(op.getYieldOp().getOperands(), before);
  if (failed(yields))
    return failure();
  if (polls)
    emitYield(at);
  scf::YieldOp::create(builder, loc, *yields);
  allocator.release(mark);
  bindCarried(op.getResults(), after, loop.getResults());
  return success();
}

} // namespace tilery::vec
