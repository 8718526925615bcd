// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Loops and branches: a tile that they carry becomes one value a register.
#include "compiler/Target/Simt/Accesses.h"
#include "compiler/Target/Simt/Lowering.h"

#include "tilery/gpu_abi.h"

namespace tilery::simt {

LogicalResult Lowering::lowerFor(scf::ForOp op) {
  bool apart = !inProducer && iterationsAreApart(op);
  if (apart && (unknownLoads || unknownStores || !pendingLoads.empty() || !pendingStores.empty()))
    barrier(); // once for what comes before
  enterLoop(op.getRegion());
  if (apart)
    unknownLoads = unknownStores = false; // no iteration waits for the one before
  bool ofTiles = isTileLoop(op);
  inTileLoop |= ofTiles;
  Elements inits = flattened(op.getInits());
  auto loop = scf::ForOp::create(b, loc, scalar(op.getLowerBound()), scalar(op.getUpperBound()),
                                 scalar(op.getStep()), inits);
  define(op.getInductionVar(), {loop.getInductionVar()});
  bind(op.getRegionIterArgs(), loop.getRegionIterArgs());
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    if (failed(lowerBlock(*op.getBody())))
      return failure();
    if (ofTiles) {
      loc = op.getLoc();
      recordOnFirstThread({TILERY_GPU_EVENT_TILE, {}, {}, {}});
      inTileLoop = false;
    }
    if (!inits.empty() || loop.getBody()->empty() ||
        !loop.getBody()->back().hasTrait<OpTrait::IsTerminator>())
      scf::YieldOp::create(b, loc, flattened(op.getYieldedValues()));
  }
  bind(op.getResults(), loop.getResults());
  enterLoop(op.getRegion()); // what the last iteration left
  return success();
}

LogicalResult Lowering::lowerIf(scf::IfOp op) {
  bool hasElse = !op.getElseRegion().empty();
  auto branch = scf::IfOp::create(b, loc, loweredTypes(op.getResultTypes()),
                                  scalar(op.getCondition()), hasElse);
  auto lower = [&](Region &from, Region &to) -> LogicalResult {
    OpBuilder::InsertionGuard guard(b);
    Block &block = to.front();
    if (!block.empty() && block.back().hasTrait<OpTrait::IsTerminator>())
      block.back().erase();
    b.setInsertionPointToEnd(&block);
    if (failed(lowerBlock(from.front())))
      return failure();
    scf::YieldOp::create(b, loc, flattened(from.front().getTerminator()->getOperands()));
    return success();
  };
  bool busyBefore = sharedBusy;
  auto loadsBefore = pendingLoads, storesBefore = pendingStores;
  bool unknownLoadsBefore = unknownLoads, unknownStoresBefore = unknownStores;
  if (failed(lower(op.getThenRegion(), branch.getThenRegion())))
    return failure();
  // Either side may have run, so what is pending after one is pending together with the other.
  bool busyThen = sharedBusy, loadsThen = unknownLoads || !pendingLoads.empty(),
       storesThen = unknownStores || !pendingStores.empty();
  sharedBusy = busyBefore;
  pendingLoads = loadsBefore;
  pendingStores = storesBefore;
  unknownLoads = unknownLoadsBefore;
  unknownStores = unknownStoresBefore;
  if (hasElse && failed(lower(op.getElseRegion(), branch.getElseRegion())))
    return failure();
  sharedBusy |= busyThen;
  unknownLoads |= loadsThen;
  unknownStores |= storesThen;
  bind(op.getResults(), branch.getResults());
  return success();
}

// A loop whose condition reads memory waits for another program instance.
static bool polls(scf::WhileOp loop) {
  return loop.getBefore()
      .walk([](core::LoadOp load) {
        return load.getIsVolatile() ? WalkResult::interrupt() : WalkResult::advance();
      })
      .wasInterrupted();
}

LogicalResult Lowering::lowerWhile(scf::WhileOp op) {
  std::optional<Polling> polling;
  if (polls(op))
    polling = Polling{variable(i32(0)), variable(i64(0))};
  enterLoop(op.getBefore());
  enterLoop(op.getAfter());
  auto loop = scf::WhileOp::create(b, loc, loweredTypes(op.getResultTypes()),
                                   flattened(op.getInits()));
  auto start = [&](Region &region, TypeRange types) {
    SmallVector<Type> lowered = loweredTypes(types);
    return b.createBlock(&region, region.end(), lowered,
                         SmallVector<Location>(lowered.size(), loc));
  };
  OpBuilder::InsertionGuard guard(b);
  Block *before = start(loop.getBefore(), ValueRange(op.getBeforeArguments()).getTypes());
  bind(op.getBeforeArguments(), before->getArguments());
  if (failed(lowerBlock(op.getBefore().front())))
    return failure();
  scf::ConditionOp condition = op.getConditionOp();
  scf::ConditionOp::create(b, loc, scalar(condition.getCondition()),
                           flattened(condition.getArgs()));
  Block *after = start(loop.getAfter(), ValueRange(op.getAfterArguments()).getTypes());
  bind(op.getAfterArguments(), after->getArguments());
  if (polling)
    checkPolling(*polling);
  if (failed(lowerBlock(op.getAfter().front())))
    return failure();
  scf::YieldOp::create(b, loc, flattened(op.getYieldOp().getOperands()));
  bind(op.getResults(), loop.getResults());
  enterLoop(op.getBefore());
  enterLoop(op.getAfter());
  return success();
}

void Lowering::enterLoop(Region &body) {
  body.walk([&](Operation *op) {
    if (isa<core::LoadOp, CopySlotOp, core::AtomicRMWOp, core::AtomicCASOp>(op))
      unknownLoads = true;
    if (isa<core::StoreOp, StoreRowsOp, StoreTileOp, core::AtomicRMWOp, core::AtomicCASOp>(op))
      unknownStores = true;
    sharedBusy |= isa<ConvertLayoutOp, core::ReduceOp, core::DotOp, core::GatherOp,
                      core::AtomicRMWOp, core::AtomicCASOp, core::LoadOp, ReadSlotOp,
                      FreeSlotsOp>(op);
  });
}

} // namespace tilery::simt
