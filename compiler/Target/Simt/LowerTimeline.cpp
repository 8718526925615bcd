// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Events of the timeline (tilery_gpu_event): one thread of each role writes them to a ring in the
// device's memory.
//
// A place in the ring is a ticket, taken from a counter that all instances share. Its answer takes
// most of a microsecond, so that a thread always holds the ticket of its next event and asks for
// another one when it has used it: nothing waits for the answer, as threads wait only where they
// use what they loaded. The end of an instance, which follows its last tile at once, has a ticket
// from the begin.
#include "compiler/Target/Simt/Lowering.h"

#include "tilery/gpu_abi.h"
#include "llvm/Support/MathExtras.h"

#include <cstddef>

namespace tilery::simt {

static_assert(llvm::isPowerOf2_64(TILERY_GPU_TRACE_EVENTS));
static_assert(sizeof(tilery_gpu_event) == 48 && offsetof(tilery_gpu_trace, events) == 64);

//===-- Tickets and variables
//---------------------------------------------------------------------------===//

// In memory that LLVM turns into a register, as positions in rings are.
Value Lowering::eventVariable() {
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(&function.getBody().front());
  return LLVM::AllocaOp::create(b, loc, pointerType(0), b.getI64Type(), i32(1), 8);
}

// The variable is as wide as the answer, since narrowing it would have to wait for it.
void Lowering::takeTicket(Value ring, Value variable) {
  Value next = byteOffset(ring, i64(offsetof(tilery_gpu_trace, next)));
  Value ticket =
      machine.atomicUpdate(b, loc, LLVM::AtomicBinOp::add, next, i64(1), core::MemoryScope::Device);
  LLVM::StoreOp::create(b, loc, ticket, variable);
}

void Lowering::takeFirstTickets(Value onlyThread, ArrayRef<Value> variables) {
  emitIf(onlyThread, [&] {
    Value ring = loadContext(offsetof(tilery_gpu_context, trace), pointerType(1));
    for (Value variable : variables) // apart: a sum would have to wait, too
      takeTicket(ring, variable);
  });
}

void Lowering::beginInstanceEvent() {
  if (!timeline)
    return;
  for (Value *variable : {&eventTicket, &instanceTicket, &instanceBegin})
    *variable = eventVariable();
  emitIf(isFirstThread(),
         [&] { LLVM::StoreOp::create(b, loc, machine.clock(b, loc), instanceBegin); });
  bool hasRoles = kernel.walk([](RolesOp) { return WalkResult::interrupt(); }).wasInterrupted();
  if (!hasRoles)
    takeFirstTickets(isFirstThread(), {eventTicket, instanceTicket});
}

// Where the address of the counter has to come from memory, too: the producer should not have to
// wait for the thread that makes its barriers.
void Lowering::beginConsumerEvents() {
  if (timeline)
    takeFirstTickets(isFirstThread(), {eventTicket, instanceTicket});
}

void Lowering::endInstanceEvent() {
  if (!timeline)
    return;
  loc = kernel.getLoc();
  emitIf(isFirstThread(), [&] {
    Value begin = LLVM::LoadOp::create(b, loc, b.getI64Type(), instanceBegin);
    recordEvent({TILERY_GPU_EVENT_INSTANCE, begin, {}, {}});
  });
}

// A producer only has waits to tell of.
void Lowering::beginProducerEvents(Region &producer) {
  bool waits = false;
  producer.walk([&](Operation *op) { waits |= isa<device::DeviceDialect>(op->getDialect()); });
  if (!timeline || !waits)
    return;
  takeFirstTickets(arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, lane(), i32(0)),
                   {eventTicket});
}

//===-- Events
//-----------------------------------------------------------------------------------------------===//

Value Lowering::eventBegin() { return timeline ? machine.clock(b, loc) : Value(); }

void Lowering::recordEvent(const Event &event) {
  Value now = machine.clock(b, loc);
  Value ring = loadContext(offsetof(tilery_gpu_context, trace), pointerType(1));
  bool isEnd = event.kind == TILERY_GPU_EVENT_INSTANCE;
  Value answer = LLVM::LoadOp::create(b, loc, b.getI64Type(), isEnd ? instanceTicket : eventTicket);
  Value ticket = arith::TruncIOp::create(b, loc, b.getI32Type(), answer);
  Value place = arith::AndIOp::create(b, loc, ticket, i32(TILERY_GPU_TRACE_EVENTS - 1));
  Value offset = arith::MulIOp::create(b, loc, place, i32(sizeof(tilery_gpu_event)));
  Value address = byteOffset(byteOffset(ring, i64(offsetof(tilery_gpu_trace, events))), offset);
  auto store = [&](int64_t at, ArrayRef<Value> words) {
    Type type = VectorType::get({int64_t(words.size())}, words[0].getType());
    Value vector = LLVM::PoisonOp::create(b, loc, type);
    for (auto [i, word] : llvm::enumerate(words))
      vector = LLVM::InsertElementOp::create(b, loc, vector, word, i32(int64_t(i)));
    LLVM::StoreOp::create(b, loc, vector, byteOffset(address, i64(at)), 16);
  };
  int64_t known = int64_t(event.kind) << 16 | int64_t(inProducer) << 24;
  store(offsetof(tilery_gpu_event, stamp),
        {arith::AddIOp::create(b, loc, ticket, i32(1)),
         arith::OrIOp::create(b, loc, machine.processor(b, loc), i32(known)),
         loadContext(offsetof(tilery_gpu_context, trace_kernel), b.getI32Type()), i32(site(loc))});
  Value begin = event.begin ? event.begin : event.kind == TILERY_GPU_EVENT_TILE ? i64(0) : now;
  store(offsetof(tilery_gpu_event, begin_ns), {begin, now});
  Value amount = event.amount ? event.amount : i64(0);
  auto half = [&](Value word) -> Value {
    return arith::TruncIOp::create(b, loc, b.getI32Type(), word);
  };
  store(offsetof(tilery_gpu_event, instance),
        {machine.instance(b, loc), event.peer ? event.peer : i32(-1), half(amount),
         half(arith::ShRUIOp::create(b, loc, amount, i64(32)))});
  if (!isEnd)
    takeTicket(ring, eventTicket);
}

void Lowering::recordOnFirstThread(const Event &event) {
  if (timeline)
    emitIf(isFirstThread(), [&] { recordEvent(event); });
}

// What was there at once is no wait.
void Lowering::recordWait(Value begin, Value tries, Value value, bool together) {
  if (!timeline)
    return;
  Value waited = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, tries, i32(0));
  if (together)
    waited = arith::AndIOp::create(
        b, loc, waited, arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, lane(), i32(0)));
  emitIf(waited, [&] { recordEvent({TILERY_GPU_EVENT_WAIT, begin, value, {}}); });
}

//===-- Tiles
//------------------------------------------------------------------------------------------------===//

// The outermost loop around products or waits that leaves something behind: each iteration makes a
// tile of the result.
bool Lowering::isTileLoop(scf::ForOp loop) {
  if (!timeline || inTileLoop || inProducer)
    return false;
  bool works = false, leaves = false;
  loop.walk([&](Operation *op) {
    works |= isa<core::DotOp, AsyncDotOp, device::WaitOp>(op);
    leaves |= isa<core::StoreOp, core::AtomicRMWOp, StoreTileOp, StoreRowsOp, device::PutOp,
                  device::NotifyOp>(op);
  });
  return works && leaves;
}

} // namespace tilery::simt
