// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Ranks, symmetric memory and signals on devices that map their peers' heaps.
#include "compiler/Target/Simt/Lowering.h"

#include "tilery/gpu_abi.h"
#include "tilery/kernel_abi.h"
#include "llvm/ADT/TypeSwitch.h"

#include <cstddef>

namespace tilery::simt {

using LLVM::AtomicOrdering;

namespace {

int64_t pointeeBytes(Type pointer) {
  Type pointee;
  if (auto core = dyn_cast<core::PointerType>(pointer))
    pointee = core.getPointee();
  else
    pointee = cast<device::SymmType>(pointer).getPointee();
  return pointee.isIntOrFloat() ? (pointee.getIntOrFloatBitWidth() + 7) / 8 : 8;
}

arith::CmpIPredicate predicateOf(device::Compare compare) {
  using C = device::Compare;
  using P = arith::CmpIPredicate;
  switch (compare) {
  case C::EQ: return P::eq;
  case C::NE: return P::ne;
  case C::GT: return P::ugt;
  case C::LE: return P::ule;
  case C::LT: return P::ult;
  case C::GE: return P::uge;
  }
  llvm_unreachable("all comparisons are listed");
}

} // namespace

Value Lowering::peerAddress(Value local, Value rank, Value distances) {
  if (distances) {
    Value table = LLVM::IntToPtrOp::create(b, loc, pointerType(1), distances);
    Value index = arith::ExtUIOp::create(b, loc, b.getI64Type(), rank);
    Value slot = byteOffset(table, arith::MulIOp::create(b, loc, index, i64(8)));
    return byteOffset(local, LLVM::LoadOp::create(b, loc, b.getI64Type(), slot));
  }
  Value base = loadContext(offsetof(tilery_gpu_context, heap_base), b.getI64Type());
  Value table = loadContext(offsetof(tilery_gpu_context, peer_bases), pointerType(1));
  Value index = arith::ExtUIOp::create(b, loc, b.getI64Type(), rank);
  Value slot = byteOffset(table, arith::MulIOp::create(b, loc, index, i64(8)));
  Value peer = LLVM::LoadOp::create(b, loc, b.getI64Type(), slot);
  return byteOffset(local, arith::SubIOp::create(b, loc, peer, base));
}

Value Lowering::distances(Value peers) { return peers ? scalar(peers) : Value(); }

void Lowering::checkRank(Value rank) {
  Value ranks = loadContext(offsetof(tilery_gpu_context, num_ranks), b.getI32Type());
  Value bad = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::uge, rank, ranks);
  FailureValues details;
  details.seen = arith::ExtSIOp::create(b, loc, b.getI64Type(), rank);
  details.expected = arith::ExtSIOp::create(b, loc, b.getI64Type(), ranks);
  failUniformly(bad, TILERY_GPU_BAD_RANK, -1, details);
}

// Orders what this thread wrote or saw (through barriers: the whole instance) before what follows.
void Lowering::fence(core::MemoryScope scope) {
  LLVM::FenceOp::create(b, loc, AtomicOrdering::acq_rel, machine.syncScope(scope));
}

void Lowering::updateSignal(Value signal, Value rank, Value value, device::SignalUpdate update,
                            core::MemoryScope scope) {
  barrier(); // release of the whole instance: pairs with the barrier after a wait
  emitIf(isFirstThread(), [&] {
    Value address = peerAddress(signal, rank);
    fence(scope); // makes a release of the update, which has none of its own: that would be waited for twice
    if (update == device::SignalUpdate::Add)
      machine.atomicUpdate(b, loc, LLVM::AtomicBinOp::add, address, value, scope);
    else
      LLVM::StoreOp::create(b, loc, value, address, 8, false, false, false,
                            AtomicOrdering::monotonic, machine.syncScope(scope));
  });
}

static constexpr int64_t TriesBetweenTimes = 64, FewTries = 8;

// Until all signals hold; whether that failed. With `together` all lanes of a warp poll and stay
// together, else this is for a single thread.
Value Lowering::pollSignals(const SignalCondition &condition, bool together) {
  auto agreed = [&](Value value) { return together ? shuffleFrom(value, i32(0)) : value; };
  Value since = variable(timeline ? machine.clock(b, loc) : i64(0));
  // Carries: index of the signal, whether the wait failed, how often it was in vain.
  SmallVector<Type> types = {b.getI64Type(), b.getI1Type(), b.getI32Type()};
  SmallVector<Location> locations(3, loc);
  auto loop = scf::WhileOp::create(
      b, loc, types, {i64(0), falseValue(), i32(0)});
  Block *before = b.createBlock(&loop.getBefore(), {}, types, locations);
  Value index = before->getArgument(0), failedSoFar = before->getArgument(1);
  Value left = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, index, condition.count);
  Value going = arith::AndIOp::create(
      b, loc, left, arith::XOrIOp::create(b, loc, failedSoFar, trueValue()));
  scf::ConditionOp::create(b, loc, going, before->getArguments());
  Block *after = b.createBlock(&loop.getAfter(), {}, types, locations);
  index = after->getArgument(0);
  Value tries = after->getArgument(2);
  Value address = byteOffset(condition.signal, arith::MulIOp::create(b, loc, index, i64(8)));
  auto load = [&]() -> Value {
    return LLVM::LoadOp::create(b, loc, b.getI64Type(), address, 8, true, false, false, false,
                                AtomicOrdering::acquire, machine.syncScope(condition.scope));
  };
  // One load for a warp: signals that many instances poll have to be written, too.
  Value isFirstLane = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, lane(), i32(0));
  Value seen = together ? agreed(emitIf(isFirstLane, b.getI64Type(), load, [&] { return i64(0); }))
                        : load();
  Value holds = arith::CmpIOp::create(b, loc, predicateOf(condition.compare), seen, condition.value);
  auto next = scf::IfOp::create(b, loc, types, holds, true);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(next.thenBlock());
    scf::YieldOp::create(b, loc, ValueRange{arith::AddIOp::create(b, loc, index, i64(1)),
                                            falseValue(), tries});
    b.setInsertionPointToStart(next.elseBlock());
    Value more = arith::AddIOp::create(b, loc, tries, i32(1));
    Value late = emitIf(isTurn(more, TriesBetweenTimes), b.getI1Type(), [&] { return isLate(since, agreed); },
                        [&] { return falseValue(); });
    FailureValues details{LLVM::PtrToIntOp::create(b, loc, b.getI64Type(), address),
                          condition.value, seen, int32_t(condition.compare)};
    emitIf(late, [&] { writeFailure(TILERY_GPU_WAIT_TIMEOUT, -1, details); });
    pauseAfter(tries);
    Value broken = othersFailed(more, agreed);
    scf::YieldOp::create(b, loc,
                         ValueRange{index, arith::OrIOp::create(b, loc, late, broken).getResult(), more});
  }
  scf::YieldOp::create(b, loc, next.getResults());
  b.setInsertionPointAfter(loop);
  recordWait(LLVM::LoadOp::create(b, loc, b.getI64Type(), since), loop.getResult(2), condition.value, together);
  return loop.getResult(1);
}

Value Lowering::isTurn(Value tries, int64_t every) {
  Value turn = arith::AndIOp::create(b, loc, tries, i32(every - 1));
  return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, turn, i32(0));
}

// From the first time that this is asked on, which `since` keeps; rarely, since all instances read the time from
// one unit.
Value Lowering::isLate(Value since, llvm::function_ref<Value(Value)> agreed) {
  Value timeout = loadContext(offsetof(tilery_gpu_context, timeout_ns), b.getI64Type());
  Value now = agreed(machine.clock(b, loc));
  Value begin = LLVM::LoadOp::create(b, loc, b.getI64Type(), since);
  Value isFirst = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, begin, i64(0));
  Value start = arith::SelectOp::create(b, loc, isFirst, now, begin);
  LLVM::StoreOp::create(b, loc, start, since);
  Value waited = arith::SubIOp::create(b, loc, now, start);
  return andI(arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ugt, waited, timeout),
              arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, timeout, i64(0)));
}

// By a twentieth of the time waited so far, but for the first microseconds: what many instances poll is in one
// part of the cache, through which what they wait for has to go, too. With 128 of them that polled without a
// pause, copy engines sent at 60 GB/s instead of 370 (two H200s).
void Lowering::pauseAfter(Value tries) {
  constexpr int64_t EachTry = 64, Most = 4096; // nanoseconds
  Value many = arith::MaxUIOp::create(b, loc, tries, i32(FewTries));
  Value grown = arith::MulIOp::create(b, loc, arith::SubIOp::create(b, loc, many, i32(FewTries - 1)), i32(EachTry));
  machine.pauseFor(b, loc, arith::MinUIOp::create(b, loc, grown, i32(Most)));
}

// Another instance that failed will never signal. The record is the host's memory, of which many
// instances that wait could read only a few million times a second together: so each looks rarely.
Value Lowering::othersFailed(Value tries, llvm::function_ref<Value(Value)> agreed) {
  constexpr int64_t Between = 256;
  Value kind = emitIf(isTurn(tries, Between), b.getI32Type(), [&] { return agreed(failureKind()); },
                      [&] { return i32(0); });
  return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, kind, i32(0));
}

Value Lowering::failureKind() {
  Value record = loadContext(offsetof(tilery_gpu_context, failure), pointerType(1));
  Value kind = byteOffset(record, i64(offsetof(tilery_gpu_failure, kind)));
  return LLVM::LoadOp::create(b, loc, b.getI32Type(), kind, 4, true);
}

// One thread polls; the others wait at the barrier, which costs no issue slots.
void Lowering::waitFor(const SignalCondition &condition) {
  suspends = canFail = communicates = true;
  if (inProducer)
    return waitBeforeCopies(condition);
  barrier();
  auto whole = scf::IfOp::create(b, loc, b.getI1Type(), isFirstThread(), true);
  b.setInsertionPointToStart(whole.thenBlock());
  scf::YieldOp::create(b, loc, pollSignals(condition, false));
  b.setInsertionPointToStart(whole.elseBlock());
  scf::YieldOp::create(b, loc, falseValue());
  b.setInsertionPointAfter(whole);
  Value any = machine.barrierOr(b, loc, whole.getResult(0), meetingThreads); // acquire for the whole instance
  ordered();
  emitIf(any, [&] { machine.exit(b, loc); });
}

// What threads have written is seen by the copies that follow, whichever lane starts them; the first one,
// which alone loads, has acquired it.
void Lowering::waitBeforeCopies(const SignalCondition &condition) {
  Value failed = pollSignals(condition, true);
  emitIf(failed, [&] { machine.exit(b, loc); });
  machine.orderCopies(b, loc);
}

// Once in many tries, on one thread: threads wait for each other to read the clock, and to read the host's
// memory, where the record of failures is (othersFailed).
void Lowering::checkPolling(const Polling &polling) {
  suspends = true;
  Value tries = arith::AddIOp::create(b, loc, read(polling.tries), i32(1));
  LLVM::StoreOp::create(b, loc, tries, polling.tries);
  auto look = [&]() -> Value {
    Value late = isLate(polling.since, [](Value value) { return value; });
    Value broken = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, failureKind(), i32(0));
    return arith::OrIOp::create(b, loc, late, broken);
  };
  Value failed = emitIf(andI(isTurn(tries, TriesBetweenTimes), isFirstThread()), b.getI1Type(), look,
                        [&] { return falseValue(); });
  // The first failure's record stays: a second one finds it claimed.
  failWhere(failed, TILERY_GPU_WAIT_TIMEOUT, -1, {});
  emitIf(arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ugt, tries, i32(FewTries)), [&] { pauseAfter(tries); });
}

//===-- Transfers ----------------------------------------------------------------------------------------===//

// All threads copy: 16 bytes at a time where both ends are aligned, the rest byte by byte. Several
// loads are under way on each thread, of the next round before the stores of this one, so that latency
// does not limit what few instances move.
void Lowering::copyBytes(Value destination, Value source, Value bytes) {
  constexpr int64_t UnderWay = 8, Size = 16;
  Type i64Type = b.getI64Type(), word = VectorType::get({4}, b.getI32Type());
  Value to = LLVM::PtrToIntOp::create(b, loc, i64Type, destination);
  Value from = LLVM::PtrToIntOp::create(b, loc, i64Type, source);
  Value low = arith::AndIOp::create(b, loc, arith::OrIOp::create(b, loc, to, from), i64(15));
  Value aligned = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, low, i64(0));
  Value wide = arith::SelectOp::create(
      b, loc, aligned, arith::AndIOp::create(b, loc, bytes, i64(-Size)), i64(0));
  int64_t apart = Size * numWarps << machine.laneBits(), round = apart * UnderWay;
  Value me = arith::ExtUIOp::create(b, loc, i64Type, thread());
  Value first = arith::MulIOp::create(b, loc, me, i64(Size));
  auto at = [&](Value begin, int64_t i) -> Value {
    return arith::AddIOp::create(b, loc, begin, i64(i * apart));
  };
  // What lies behind the end is loaded from this thread's first place instead, and not stored.
  auto inside = [&](Value place) {
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, place, wide);
  };
  auto loadRound = [&](Value begin) {
    Elements loaded;
    for (int64_t i = 0; i < UnderWay; ++i) {
      Value place = arith::SelectOp::create(b, loc, inside(at(begin, i)), at(begin, i), first);
      loaded.push_back(LLVM::LoadOp::create(b, loc, word, byteOffset(source, place), Size));
    }
    return loaded;
  };
  SmallVector<Type> words(UnderWay, word);
  emitIf(inside(first), [&] {
    auto loop = scf::ForOp::create(b, loc, first, wide, i64(round), loadRound(first));
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    Value here = loop.getInductionVar(), next = at(here, UnderWay);
    auto ahead = scf::IfOp::create(b, loc, words, inside(next), true);
    b.setInsertionPointToStart(ahead.thenBlock());
    scf::YieldOp::create(b, loc, loadRound(next));
    b.setInsertionPointToStart(ahead.elseBlock());
    scf::YieldOp::create(b, loc, loop.getRegionIterArgs());
    b.setInsertionPointAfter(ahead);
    for (auto [i, value] : llvm::enumerate(loop.getRegionIterArgs())) {
      Value place = at(here, int64_t(i));
      emitIf(inside(place), [&] {
        LLVM::StoreOp::create(b, loc, value, byteOffset(destination, place), Size);
      });
    }
    scf::YieldOp::create(b, loc, ahead.getResults());
  });
  auto rest = scf::ForOp::create(b, loc, arith::AddIOp::create(b, loc, wide, me).getResult(), bytes,
                                 i64(numWarps << machine.laneBits()));
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(rest.getBody());
  Value place = rest.getInductionVar();
  Value byte = LLVM::LoadOp::create(b, loc, b.getI8Type(), byteOffset(source, place), 1);
  LLVM::StoreOp::create(b, loc, byte, byteOffset(destination, place), 1);
}

LogicalResult Lowering::lowerPut(device::PutOp op) {
  checkRank(scalar(op.getRank()));
  barrier();
  Value bytes = arith::MulIOp::create(b, loc, scalar(op.getCount()),
                                      i64(pointeeBytes(op.getSource().getType())));
  Value begin = eventBegin();
  copyBytes(peerAddress(scalar(op.getDestination()), scalar(op.getRank()), distances(op.getPeers())),
            scalar(op.getSource()), bytes);
  recordOnFirstThread({TILERY_GPU_EVENT_PUT, begin, bytes, scalar(op.getRank())});
  unknownStores = true;
  if (op.getSignal())
    updateSignal(scalar(op.getSignal()), scalar(op.getRank()), scalar(op.getValue()), op.getUpdate(),
                 core::MemoryScope::System);
  return success();
}

LogicalResult Lowering::lowerGet(device::GetOp op) {
  checkRank(scalar(op.getRank()));
  barrier();
  Value bytes = arith::MulIOp::create(b, loc, scalar(op.getCount()),
                                      i64(pointeeBytes(op.getDestination().getType())));
  Value begin = eventBegin();
  copyBytes(scalar(op.getDestination()),
            peerAddress(scalar(op.getSource()), scalar(op.getRank()), distances(op.getPeers())), bytes);
  recordOnFirstThread({TILERY_GPU_EVENT_GET, begin, bytes, scalar(op.getRank())});
  unknownStores = true;
  return success();
}

//===-- Barriers --------------------------------------------------------------------------------------------===//

// Every rank counts in a cell of every other; each waits until all cells have reached its own count.
void Lowering::barrierAll() {
  barrier();
  Value cells = loadContext(offsetof(tilery_gpu_context, barrier_epochs), pointerType(1));
  Value rank = loadContext(offsetof(tilery_gpu_context, rank), b.getI32Type());
  Value ranks = loadContext(offsetof(tilery_gpu_context, num_ranks), b.getI32Type());
  Value mine = byteOffset(cells, arith::MulIOp::create(
                                     b, loc, arith::ExtUIOp::create(b, loc, b.getI64Type(), rank),
                                     i64(8)));
  auto loop = scf::IfOp::create(b, loc, isFirstThread(), false);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.thenBlock());
    fence(core::MemoryScope::System);
    auto each = scf::ForOp::create(b, loc, i32(0), ranks, i32(1));
    b.setInsertionPointToStart(each.getBody());
    machine.atomicUpdate(b, loc, LLVM::AtomicBinOp::add, peerAddress(mine, each.getInductionVar()),
                         i64(1), core::MemoryScope::System);
  }
  barrier();
  Value epoch = LLVM::LoadOp::create(b, loc, b.getI64Type(), mine, 8, true);
  waitFor({cells, arith::ExtUIOp::create(b, loc, b.getI64Type(), ranks), epoch, device::Compare::GE,
           core::MemoryScope::System});
}

Value Lowering::rankAlong(int32_t axis, bool extent) {
  if (axis < 0)
    return loadContext(extent ? offsetof(tilery_gpu_context, num_ranks)
                              : offsetof(tilery_gpu_context, rank),
                       b.getI32Type());
  Value mesh = loadContext(offsetof(tilery_gpu_context, mesh), pointerType(1));
  return fieldOf(mesh, 4 * (1 + 2 * int64_t(axis) + extent), b.getI32Type());
}

LogicalResult Lowering::lowerDevice(Operation *op) {
  communicates = true;
  return llvm::TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](device::RankIdOp id) {
        define(id, {rankAlong(int32_t(id.getAxis()), false)});
        return success();
      })
      .Case([&](device::NumRanksOp count) {
        define(count, {rankAlong(int32_t(count.getAxis()), true)});
        return success();
      })
      .Case([&](device::SymmAtOp at) {
        checkRank(scalar(at.getRank()));
        define(at, {peerAddress(scalar(at.getSource()), scalar(at.getRank()), distances(at.getPeers()))});
        return success();
      })
      .Case([&](device::NotifyOp notify) {
        checkRank(scalar(notify.getRank()));
        updateSignal(scalar(notify.getSignal()), scalar(notify.getRank()),
                     scalar(notify.getValue()), notify.getUpdate(), notify.getScope());
        recordOnFirstThread({TILERY_GPU_EVENT_NOTIFY, {}, scalar(notify.getValue()),
                             scalar(notify.getRank())});
        return success();
      })
      .Case([&](device::WaitOp wait) {
        waitFor({scalar(wait.getSignal()), scalar(wait.getCount()), scalar(wait.getValue()),
                 wait.getCompare(), wait.getScope()});
        return success();
      })
      .Case([&](device::PutOp put) { return lowerPut(put); })
      .Case([&](device::GetOp get) { return lowerGet(get); })
      .Case<device::FenceOp, device::QuietOp>([&](auto) {
        fence(core::MemoryScope::System);
        barrier();
        return success();
      })
      .Case<device::BarrierAllOp, device::SyncAllOp>([&](auto) {
        barrierAll();
        return success();
      })
      .Default([](Operation *other) {
        return other->emitError("operation ")
               << other->getName() << " is not supported on this target";
      });
}

} // namespace tilery::simt
