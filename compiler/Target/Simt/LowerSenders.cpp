// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Warps that carry staged rows to peers.
//
// A link takes less than tiles are made of, and all instances finish theirs at about the same time. Whoever
// stores to a peer then waits for the link: the warps of the product would not compute, and the engine that
// copies would not bring the next operands behind rows that wait. So warps that have nothing else to do start
// the copies, a few rows at a time, while the next tile is computed. They take a good part of the time that a
// tile takes, lest all instances fill the link at once, until somebody waits for them.
//
// Each warp of the product has a post box: two barriers, `full` when it has posted what to carry, `empty` when
// that is done; where the rows are staged, and where each goes. A phase bit tells one post from the next.
#include "compiler/Target/Simt/Lowering.h"

#include "llvm/Support/MathExtras.h"

namespace tilery::simt {

// Of each sender. More would stand before the copies that bring operands, for which one engine does both.
static constexpr unsigned rowsUnderWay = 1;
// Senders pause so many nanoseconds in all as one part of the cycles from one post to the next, somewhat more
// than half a nanosecond each; the longest pause.
static constexpr int64_t pausedPart = 5, longestPause = 1000;

/// Where things are in a post box.
enum Post : int64_t {
  Full = 0,
  Empty = 8,
  RowBytes = 16,
  Pitch = 20,
  Source = 24, ///< in shared memory
  Rows = 28,   ///< negative: nothing comes any more
  Pause = 32,  ///< nanoseconds between rows
  Hurry = 36,  ///< not 0: the product's warp waits
  Destinations = RowStage::postBytes
};

Value Lowering::postOfWarp(Value warpNumber) {
  Value offset = arith::MulIOp::create(b, loc, warpNumber, i32(postStride));
  return sharedAddress(sharedBase, arith::AddIOp::create(b, loc, offset, i32(postOffset)));
}

Value Lowering::postBarrier(Value post, bool full) {
  Value address = sharedAddress(post, i32(full ? Full : Empty));
  return LLVM::PtrToIntOp::create(b, loc, b.getI32Type(), address);
}

void Lowering::initialisePosts() {
  for (unsigned warpNumber = 0; postStride && warpNumber < numWarps; ++warpNumber)
    for (bool full : {true, false})
      machine.initSlotBarrier(b, loc, postBarrier(postOfWarp(i32(warpNumber)), full), 1);
}

void Lowering::startPosts() {
  if (!postStride)
    return;
  postPhase = variable(i32(1)); // before the first post its box is empty
  postTime = variable(machine.cycles(b, loc));
}

// Between the rows of this post, by the time since the last one.
Value Lowering::pauseOfRows(int64_t rows) {
  Value time = machine.cycles(b, loc), passed = arith::SubIOp::create(b, loc, time, read(postTime));
  LLVM::StoreOp::create(b, loc, time, postTime);
  int64_t rowsOfSender = rows * int64_t(llvm::divideCeil(numWarps, senderWarps));
  Value pause = arith::DivUIOp::create(b, loc, passed, i32(pausedPart * rowsOfSender));
  return arith::MinUIOp::create(b, loc, pause, i32(longestPause));
}

// Until what this warp has posted is where it goes; its lanes meet.
void Lowering::awaitPost() {
  if (!postPhase)
    return;
  Value box = postOfWarp(warp());
  LLVM::StoreOp::create(b, loc, i32(1), sharedAddress(box, i32(Hurry)), 4, /*isVolatile=*/true);
  machine.waitBarrier(b, loc, postBarrier(box, false), read(postPhase), {},
                      {brokenAddress, /*leave=*/false});
}

void Lowering::post(ArrayRef<std::pair<int64_t, Value>> fields) {
  Value box = postOfWarp(warp());
  for (auto [field, value] : fields)
    LLVM::StoreOp::create(b, loc, value, sharedAddress(box, i32(field)));
  machine.publishStage(b, loc, false);
  Value first = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, lane(), i32(0));
  emitIf(first, [&] { machine.arrive(b, loc, postBarrier(box, true)); });
  LLVM::StoreOp::create(b, loc, arith::XOrIOp::create(b, loc, read(postPhase), i32(1)), postPhase);
}

// Lanes that have the same row write the same.
void Lowering::postRows(const StagedRows &staged) {
  Value box = postOfWarp(warp());
  for (auto [number, destination] : staged.destinations) {
    Value place = arith::AddIOp::create(b, loc, arith::MulIOp::create(b, loc, number, i32(8)),
                                        i32(Destinations));
    LLVM::StoreOp::create(b, loc, destination, sharedAddress(box, place));
  }
  Value source = LLVM::PtrToIntOp::create(b, loc, b.getI32Type(), staged.source);
  post({{RowBytes, staged.bytes},
        {Pitch, i32(staged.pitch)},
        {Source, source},
        {Rows, i32(staged.rows)},
        {Pause, pauseOfRows(staged.rows)},
        {Hurry, i32(0)}});
}

void Lowering::endPosts() {
  if (!postPhase)
    return;
  awaitPost();
  post({{Rows, i32(-1)}});
  postPhase = {};
}

void Lowering::carryRow(Value post, Value row) {
  auto field = [&](int64_t at) -> Value {
    return LLVM::LoadOp::create(b, loc, b.getI32Type(), sharedAddress(post, i32(at)));
  };
  Value place = arith::AddIOp::create(b, loc, arith::MulIOp::create(b, loc, row, i32(8)), i32(Destinations));
  Value destination = LLVM::LoadOp::create(b, loc, b.getI64Type(), sharedAddress(post, place));
  Value isSent = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, destination, i64(0));
  Value bytes = arith::SelectOp::create(b, loc, isSent, field(RowBytes), i32(0));
  Value source = arith::AddIOp::create(b, loc, field(Source),
                                       arith::MulIOp::create(b, loc, row, field(Pitch)));
  machine.storeRow(b, loc, destination, source, bytes);
  machine.commitStores(b, loc);
  machine.awaitStage(b, loc, rowsUnderWay);
  Value hurry = LLVM::LoadOp::create(b, loc, b.getI32Type(), sharedAddress(post, i32(Hurry)), 4,
                                     /*isVolatile=*/true);
  Value waited = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, hurry, i32(0));
  machine.pauseFor(b, loc, arith::SelectOp::create(b, loc, waited, i32(0), field(Pause)));
}

// Every senderWarps-th warp of the product from `first` on; whether more will come.
Value Lowering::carryPosts(Value first, Value phase) {
  auto loop = scf::ForOp::create(b, loc, first, i32(numWarps), i32(senderWarps), ValueRange(trueValue()));
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  Value post = postOfWarp(loop.getInductionVar());
  machine.waitBarrier(b, loc, postBarrier(post, true), phase, {}, {brokenAddress, /*leave=*/true});
  Value rows = LLVM::LoadOp::create(b, loc, b.getI32Type(), sharedAddress(post, i32(Rows)));
  auto carry = scf::ForOp::create(b, loc, i32(0), rows, i32(1));
  {
    OpBuilder::InsertionGuard inner(b);
    b.setInsertionPointToStart(carry.getBody());
    carryRow(post, carry.getInductionVar());
  }
  machine.awaitStores(b, loc);
  machine.meetWarp(b, loc);
  Value isFirst = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, lane(), i32(0));
  emitIf(isFirst, [&] { machine.arrive(b, loc, postBarrier(post, false)); });
  Value isLast = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, rows, i32(0));
  Value more = arith::XOrIOp::create(b, loc, isLast, trueValue());
  scf::YieldOp::create(b, loc, andI(loop.getRegionIterArg(0), more));
  return loop.getResult(0);
}

void Lowering::lowerSenders(Value number) {
  SmallVector<Type> types = {b.getI32Type(), b.getI1Type()};
  SmallVector<Location> locations(2, loc);
  auto loop = scf::WhileOp::create(b, loc, types, ValueRange{i32(0), trueValue()});
  Block *before = b.createBlock(&loop.getBefore(), {}, types, locations);
  scf::ConditionOp::create(b, loc, before->getArgument(1), before->getArguments());
  Block *after = b.createBlock(&loop.getAfter(), {}, types, locations);
  Value phase = after->getArgument(0);
  Value more = carryPosts(number, phase);
  scf::YieldOp::create(b, loc, ValueRange{arith::XOrIOp::create(b, loc, phase, i32(1)).getResult(), more});
  b.setInsertionPointAfter(loop);
}

} // namespace tilery::simt
