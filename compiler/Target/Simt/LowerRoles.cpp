// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Producer and consumer warps (and those that send, LowerSenders.cpp), and the rings of shared-memory slots between them.
//
// A slot has two barriers. `full`: the producer arrives and says how many bytes will come; the
// copies complete it. `empty`: each consumer warp arrives when it has read the slot. Both sides
// walk over the slots in order; a phase bit tells one round from the next. The producer starts with
// the opposite phase, so that its first round finds all slots empty.
#include "compiler/Target/Simt/Lowering.h"

#include "tilery/gpu_abi.h"
#include "llvm/Support/MathExtras.h"

#include <cstddef>

namespace tilery::simt {

//===-- Rings in shared memory ----------------------------------------------------------------------===//

void Lowering::allocateRings() {
  RingMemory memory = ringMemory(kernel);
  for (RingPlace &place : memory.rings)
    rings.push_back({std::move(place), {}, {}});
  sharedBytes = ringBytes = memory.bytes;
  mapStage = memory.mapStage;
  allocateStage();
}

Value Lowering::sharedInteger() {
  return LLVM::PtrToIntOp::create(b, loc, b.getI32Type(), sharedBase);
}

Value Lowering::slotAddress(const Ring &ring, unsigned tile, Value slot) {
  Value inRing = arith::MulIOp::create(b, loc, slot, i32(slotBytes(ring.tiles[tile])));
  Value base = arith::AddIOp::create(b, loc, sharedInteger(), i32(ring.offsets[tile]));
  return arith::AddIOp::create(b, loc, base, inRing);
}

Value Lowering::slotBarrier(const Ring &ring, Value slot, bool full) {
  Value inRing = arith::MulIOp::create(b, loc, slot, i32(8));
  int64_t start = ring.barriers + (full ? 0 : 8 * int64_t(ring.stages));
  return arith::AddIOp::create(b, loc, arith::AddIOp::create(b, loc, sharedInteger(), i32(start)),
                               inRing);
}

void Lowering::initialiseRings() {
  emitIf(isFirstThread(), [&] {
    auto maps = kernel->getAttrOfType<ArrayAttr>("simt.tensor_maps");
    for (size_t map = 0; maps && map < maps.size(); ++map) // while barriers are made ready
      machine.fetchMap(b, loc, tensorMap(int32_t(map)));
    for (const Ring &ring : rings)
      for (unsigned slot = 0; slot < ring.stages; ++slot) {
        machine.initSlotBarrier(b, loc, slotBarrier(ring, i32(slot), true), 1);
        machine.initSlotBarrier(b, loc, slotBarrier(ring, i32(slot), false), numWarps);
      }
    initialisePosts();
    machine.publishBarriers(b, loc);
  });
  machine.barrier(b, loc, 0);
}

//===-- Positions ------------------------------------------------------------------------------------===//

// The slot and phase that a role is at live in memory that LLVM turns into registers: loops then
// need not carry them by hand.
Value Lowering::variable(Value initial) {
  Value address;
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(&function.getBody().front()); // where LLVM looks for variables
    address = LLVM::AllocaOp::create(b, loc, pointerType(0), initial.getType(), i32(1));
  }
  LLVM::StoreOp::create(b, loc, initial, address);
  return address;
}

void Lowering::startRings(bool producer) {
  for (Ring &ring : rings) {
    ring.slot = variable(i32(0));
    ring.phase = variable(i32(producer ? 1 : 0));
  }
}

Value Lowering::read(Value variable) {
  return LLVM::LoadOp::create(b, loc, b.getI32Type(), variable);
}

void Lowering::advance(const Ring &ring) {
  Value next = arith::AddIOp::create(b, loc, read(ring.slot), i32(1));
  Value wraps = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, next, i32(ring.stages));
  Value flipped = arith::XOrIOp::create(b, loc, read(ring.phase), i32(1));
  LLVM::StoreOp::create(b, loc, arith::SelectOp::create(b, loc, wraps, flipped, read(ring.phase)),
                        ring.phase);
  LLVM::StoreOp::create(b, loc, arith::SelectOp::create(b, loc, wraps, i32(0), next), ring.slot);
}

//===-- Operations -------------------------------------------------------------------------------------===//

Value Lowering::tensorMap(int32_t index) {
  if (index < 0)
    return byteOffset(kernelMaps, i64((-1 - index) * Machine::mapBytes));
  // After the run-time parameters and before the context (gpu_abi.h).
  return function.getBody().front().getArgument(kernel.getNumArguments() + unsigned(index));
}

// In the scratch memory of this instance: those of the producer, then of each of the consumer's
// warps.
void Lowering::findKernelMaps(bool producer) {
  auto count = [&](StringRef name) {
    auto attr = kernel->getAttrOfType<IntegerAttr>(name);
    return attr ? attr.getInt() : 0;
  };
  int64_t ofProducer = count("simt.kernel_maps"), ofWarp = count("simt.store_maps");
  kernelMapBytes = (ofProducer + ofWarp * numWarps) * Machine::mapBytes;
  if ((producer ? ofProducer : ofWarp) == 0)
    return;
  Value number = arith::ExtUIOp::create(b, loc, b.getI64Type(), machine.instance(b, loc));
  Value offset = arith::MulIOp::create(b, loc, number, i64(kernelMapBytes));
  if (!producer) {
    Value before = arith::AddIOp::create(b, loc, arith::MulIOp::create(b, loc, warp(), i32(ofWarp)),
                                         i32(ofProducer));
    Value bytes = arith::MulIOp::create(b, loc, before, i32(Machine::mapBytes));
    offset = arith::AddIOp::create(b, loc, offset,
                                   arith::ExtUIOp::create(b, loc, b.getI64Type(), bytes));
  }
  kernelMaps =
      byteOffset(loadContext(offsetof(tilery_gpu_context, scratch), pointerType(1)), offset);
}

// Copies to rings fill slots: those before the producer's own were last filled in the round of
// parity !phase, the others one round earlier. Slots never filled count as full.
void Lowering::awaitFilled(ArrayRef<int32_t> indices) {
  for (int32_t index : indices) {
    Ring &ring = rings[size_t(index)];
    Value slot = read(ring.slot), phase = read(ring.phase);
    Value other = arith::XOrIOp::create(b, loc, phase, i32(1));
    for (unsigned i = 0; i < ring.stages; ++i) {
      Value isFilled = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, i32(i), slot);
      machine.waitBarrier(b, loc, slotBarrier(ring, i32(i), true),
                          arith::SelectOp::create(b, loc, isFilled, other, phase), {},
                          {brokenAddress, /*leave=*/true});
    }
  }
}

// The copies by the map that was there before must have read it.
LogicalResult Lowering::lowerMakeMap(MakeMapOp op) {
  Value stage;
  if (inProducer) {
    awaitFilled(op.getRings());
    stage = arith::AddIOp::create(b, loc, sharedInteger(), i32(mapStage));
  } else {
    barrier(); // other stores may use this warp's place, before and afterwards
    unknownStores = true;
    Value place = stageOfWarp(RowStage::boxBytes * op.getSlots());
    stage = LLVM::PtrToIntOp::create(b, loc, b.getI32Type(), place);
  }
  TensorMapParts parts{scalar(op.getBase()), {}, Elements(), {}, op.getElementBytes(),
                       op.getSwizzle()};
  llvm::append_range(parts.box, op.getBox());
  for (Value extent : op.getExtents()) { // what is empty is never copied (emitStart)
    Value value = scalar(extent);
    if (value.getType().isInteger(64))
      value = arith::TruncIOp::create(b, loc, b.getI32Type(),
                                      arith::MinSIOp::create(b, loc, value, i64(0x7fffffff)));
    parts.extents.push_back(arith::MaxSIOp::create(b, loc, value, i32(1)));
  }
  for (Value stride : op.getStrides())
    parts.strides.push_back(scalar(stride));
  machine.makeMap(b, loc, tensorMap(-1 - int32_t(op.getNumber())), stage, parts);
  return success();
}

LogicalResult Lowering::lowerProduce(ProduceOp op) {
  Ring &ring = rings[op.getRing()];
  Value slot = read(ring.slot);
  machine.waitBarrier(b, loc, slotBarrier(ring, slot, false), read(ring.phase), {},
                      {brokenAddress, /*leave=*/true});
  Value full = slotBarrier(ring, slot, true);
  machine.expectBytes(b, loc, full, ring.slotBytes);
  ValueRange coordinates = op.getCoordinates();
  ArrayRef<int32_t> ranks = op.getRanks(), maps = op.getMaps();
  for (auto [tile, type] : llvm::enumerate(ring.tiles)) {
    Elements at;
    for (Value coordinate : coordinates.take_front(size_t(ranks[tile])))
      at.push_back(scalar(coordinate));
    coordinates = coordinates.drop_front(size_t(ranks[tile]));
    Value base = slotAddress(ring, unsigned(tile), slot);
    int64_t fast = type.getShape()[type.getFastest()], perPanel = type.panelBytes() / type.elementBytes();
    int64_t panelBytes = type.getShape()[1 - type.getFastest()] * type.panelBytes();
    Value first = at[0];
    for (int64_t panel = 0; panel < fast / perPanel; ++panel) {
      at[0] = arith::AddIOp::create(b, loc, first, i32(panel * perPanel));
      Value destination = arith::AddIOp::create(b, loc, base, i32(panel * panelBytes));
      machine.copyTile(b, loc, destination, tensorMap(maps[tile]), at, full);
    }
  }
  advance(ring);
  return success();
}

LogicalResult Lowering::lowerConsume(ConsumeOp op) {
  Ring &ring = rings[op.getRing()];
  Value slot = read(ring.slot);
  // Products should start at once when the data is there.
  Elements starts;
  for (unsigned tile = 0; tile < ring.tiles.size(); ++tile)
    starts.push_back(machine.operandStart(b, loc, slotAddress(ring, tile, slot)));
  starts = machine.waitBarrier(b, loc, slotBarrier(ring, slot, true), read(ring.phase), starts,
                               {brokenAddress, /*leave=*/false});
  for (auto [start, buffer] : llvm::zip(starts, op.getBuffers()))
    define(buffer, {start});
  advance(ring);
  return success();
}

LogicalResult Lowering::lowerRelease(ReleaseOp op) {
  Ring &ring = rings[op.getRing()];
  Value slot = arith::SubIOp::create(b, loc, read(ring.slot), i32(1 + int64_t(op.getAge())));
  Value negative = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, slot, i32(0));
  Value wrapped = arith::AddIOp::create(b, loc, slot, i32(ring.stages));
  Value given = arith::SelectOp::create(b, loc, negative, wrapped, slot);
  Value first = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, lane(), i32(0));
  emitIf(first, [&] { machine.arrive(b, loc, slotBarrier(ring, given, false)); });
  return success();
}

LogicalResult Lowering::lowerAsyncDot(AsyncDotOp op) {
  AsyncDot dot;
  dot.accType = cast<RankedTensorType>(op.getType());
  dot.numWarps = numWarps;
  dot.rhsType = cast<BufferType>(op.getRhs().getType());
  dot.element = dot.rhsType.getElement();
  dot.rhsStart = scalar(op.getRhs());
  if (auto buffer = dyn_cast<BufferType>(op.getLhs().getType())) {
    dot.lhsType = buffer;
    dot.lhsStart = scalar(op.getLhs());
    dot.lhsShape = buffer.getShape();
  } else {
    dot.lhsRegisters = elements(op.getLhs());
    dot.lhsShape = core::shapeOf(op.getLhs().getType());
  }
  dot.accumulator = elements(op.getAccumulator());
  dot.columns = op.getColumns().value_or(0);
  define(op, machine.emitAsyncDot(b, loc, dot));
  return success();
}

LogicalResult Lowering::lowerDotWait(DotWaitOp op) {
  Elements all = machine.waitDots(b, loc, op.getPending(), flattened(op.getAccumulators()));
  bind(op.getResults(), all);
  return success();
}

// Where a role that waits finds out that the other one has failed and left. The consumer goes on with
// whatever is in the slot, as results count no more, up to its own next check.
Value Lowering::failureToWatch() {
  WalkResult found = kernel.walk([](Operation *inner) {
    bool canFail = isa<core::AssertOp, core::CheckBoundsOp>(inner) ||
                   (isa<device::DeviceDialect>(inner->getDialect()) &&
                    !isa<device::LocalOp, device::RankIdOp, device::NumRanksOp>(inner));
    return canFail ? WalkResult::interrupt() : WalkResult::advance();
  });
  if (!found.wasInterrupted())
    return {};
  Value record = loadContext(offsetof(tilery_gpu_context, failure), pointerType(1));
  return byteOffset(record, i64(offsetof(tilery_gpu_failure, kind)));
}

LogicalResult Lowering::lowerRoles(RolesOp op) {
  initialiseRings();
  brokenAddress = failureToWatch();
  unsigned consumerThreads = numWarps << machine.laneBits();
  // The same number on all lanes by construction, so that the machine sees uniform branches.
  Value warpNumber = machine.shuffle(b, loc, warp(), i32(0));
  Value isConsumer = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult, warpNumber,
                                           i32(numWarps));
  auto branch = scf::IfOp::create(b, loc, isConsumer, true);
  auto producerRegisters = kernel->getAttrOfType<IntegerAttr>("simt.producer_registers");
  auto consumerRegisters = kernel->getAttrOfType<IntegerAttr>("simt.consumer_registers");
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(branch.elseBlock());
    if (producerRegisters)
      machine.limitRegisters(b, loc, unsigned(producerRegisters.getInt()), false);
    // One warp copies, all of its lanes together: a warp that is split polls its barriers instead
    // of sleeping at them, which slows the products down.
    Value copies = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, warpNumber, i32(numWarps));
    auto only = scf::IfOp::create(b, loc, copies, postStride != 0);
    if (postStride) {
      b.setInsertionPointToStart(only.elseBlock());
      lowerSenders(arith::SubIOp::create(b, loc, warpNumber, i32(numWarps + 1)));
    }
    b.setInsertionPointToStart(only.thenBlock());
    startRings(true);
    findKernelMaps(true);
    inProducer = true;
    beginProducerEvents(op.getProducer());
    if (failed(lowerBlock(op.getProducer().front())))
      return failure();
    inProducer = false;
  }
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  if (consumerRegisters)
    machine.limitRegisters(b, loc, unsigned(consumerRegisters.getInt()), true);
  startRings(false);
  startPosts();
  findKernelMaps(false);
  beginConsumerEvents();
  meetingThreads = consumerThreads;
  if (failed(lowerBlock(op.getConsumer().front())))
    return failure();
  if (storesCopy)
    awaitCopiedStores(); // shared memory must outlive them
  endPosts();
  meetingThreads = 0;
  extraWarps = producerWarps;
  return success();
}

} // namespace tilery::simt
