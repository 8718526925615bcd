// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Calls of the runtime through the table in the instance (include/tilery/kernel_abi.h):
// device operations, remote accesses, assert and print.
#include "compiler/Conversion/CoreToVector/Elementwise.h"

#include "tilery/kernel_abi.h"
#include "llvm/ADT/TypeSwitch.h"

#include <cstddef>

namespace tilery::vec {

static_assert(offsetof(tilery_instance, program_id) == 8 &&
              offsetof(tilery_instance, scratch) == 40 && offsetof(tilery_instance, flags) == 48);
static_assert(offsetof(tilery_device_api, out_of_bounds) ==
              size_t(Api::OutOfBounds) * sizeof(void *));

//===-- Instance and sites ----------------------------------------------------------------===//

Value Lowering::loadField(Field field, Type type, int64_t offset) {
  Value address = ptrAt(instance, int64_t(field) + offset);
  auto load = LLVM::LoadOp::create(builder, loc, type, address);
  load.setInvariant(true); // the instance does not change while the kernel runs
  return load;
}

// Calls, inlined code and names wrap the place in the source: the innermost one counts.
static FileLineColLoc placeOf(Location loc) {
  if (auto place = dyn_cast<FileLineColLoc>(loc))
    return place;
  if (auto range = dyn_cast<FileLineColRange>(loc))
    return FileLineColLoc::get(range.getContext(), range.getFilename(), range.getStartLine(),
                               range.getStartColumn());
  if (auto call = dyn_cast<CallSiteLoc>(loc))
    return placeOf(call.getCallee());
  if (auto name = dyn_cast<NameLoc>(loc))
    return placeOf(name.getChildLoc());
  if (auto fused = dyn_cast<FusedLoc>(loc))
    for (Location part : fused.getLocations())
      if (FileLineColLoc place = placeOf(part))
        return place;
  return {};
}

Value Lowering::site(Location at) {
  FileLineColLoc place = placeOf(at);
  if (!place)
    return i32(-1);
  auto key = std::make_tuple(place.getFilename().str(), int64_t(place.getLine()),
                             int64_t(place.getColumn()));
  auto known = llvm::find(sites, key);
  if (known == sites.end())
    known = sites.insert(known, key);
  return i32(known - sites.begin());
}

Value Lowering::callApi(Api slot, Type result, ValueRange given) {
  Value table = loadField(Field::Api, ptrType);
  auto load = LLVM::LoadOp::create(builder, loc, ptrType,
                                   ptrAt(table, int64_t(slot) * int64_t(sizeof(void *))));
  load.setInvariant(true);
  SmallVector<Value> operands{load, instance};
  llvm::append_range(operands, given);
  SmallVector<Type> types(ValueRange(operands).drop_front().getTypes());
  auto type = LLVM::LLVMFunctionType::get(
      result ? result : Type(LLVM::LLVMVoidType::get(builder.getContext())), types);
  auto call = LLVM::CallOp::create(builder, loc, type, operands);
  return result ? call.getResult() : Value();
}

Value Lowering::entryAlloca(Slot purpose, int64_t bytes) {
  Value &slot = entrySlots[{int(purpose), bytes}];
  if (!slot) {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointAfter(scratch.getDefiningOp());
    slot = LLVM::AllocaOp::create(builder, loc, ptrType, builder.getI8Type(), i64(bytes), 64u);
  }
  return slot;
}

Value Lowering::constantText(StringRef text) {
  // The bytes are stored on the stack: kernels have no data section to relocate.
  std::string bytes = (text + StringRef("\0", 1)).str();
  Value slot = entryAlloca(Slot::Text, int64_t(llvm::alignTo(bytes.size(), 8)));
  auto type = VectorType::get({int64_t(bytes.size())}, builder.getI8Type());
  SmallVector<int8_t> elements(bytes.begin(), bytes.end());
  Value vector = arith::ConstantOp::create(
      builder, loc, DenseElementsAttr::get(type, ArrayRef<int8_t>(elements)));
  LLVM::StoreOp::create(builder, loc, vector, slot, 1u);
  return slot;
}

Value Lowering::isRouted() {
  Value flags = loadField(Field::Flags, builder.getI32Type());
  Value bit = arith::AndIOp::create(builder, loc, flags, i32(TILERY_INSTANCE_ROUTED));
  return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne, bit, i32(0));
}

void Lowering::emitYield(Location at) {
  suspends = true;
  callApi(Api::Yield, {}, {site(at)});
}

//===-- Device operations ---------------------------------------------------------------------===//

// Elements to bytes.
Value Lowering::transferBytes(Value count, Type pointee) {
  return mulI(scalar(count), i64(byteSize(pointee)));
}

LogicalResult Lowering::lowerRank(Operation *op, int64_t axis, Field world, Api alongAxis) {
  Type type = builder.getI32Type();
  setScalar(op->getResult(0), axis < 0 ? loadField(world, type)
                                       : callApi(alongAxis, type, {i32(axis), site(loc)}));
  return success();
}

LogicalResult Lowering::lowerPut(device::PutOp op) {
  Type pointee = op.getSource().getType().getPointee();
  Value signal = op.getSignal() ? scalar(op.getSignal())
                                : LLVM::ZeroOp::create(builder, loc, ptrType).getResult();
  Value value = op.getValue() ? scalar(op.getValue()) : i64(0);
  callApi(Api::Put, {},
          {scalar(op.getDestination()), scalar(op.getSource()),
           transferBytes(op.getCount(), pointee), scalar(op.getRank()), signal, value,
           i32(int64_t(op.getUpdate())), i32(op.getNonblocking()), site(loc)});
  return success();
}

LogicalResult Lowering::lowerDevice(Operation *op) {
  communicates = true;
  auto call = [&](Api slot, std::initializer_list<Value> values) {
    callApi(slot, {}, SmallVector<Value>(values));
    return success();
  };
  return TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](device::RankIdOp rank) {
        return lowerRank(op, int32_t(rank.getAxis()), Field::Rank, Api::AxisRank);
      })
      .Case([&](device::NumRanksOp ranks) {
        return lowerRank(op, int32_t(ranks.getAxis()), Field::NumRanks, Api::AxisSize);
      })
      .Case([&](device::SymmAtOp at) {
        setScalar(at, callApi(Api::SymmAt, ptrType,
                              {scalar(at.getSource()), scalar(at.getRank()), site(loc)}));
        return success();
      })
      .Case([&](device::NotifyOp notify) {
        return call(Api::Notify,
                    {scalar(notify.getSignal()), scalar(notify.getRank()),
                     scalar(notify.getValue()), i32(int64_t(notify.getUpdate())),
                     i32(int64_t(notify.getScope())), site(loc)});
      })
      .Case([&](device::WaitOp wait) {
        suspends = true;
        return call(Api::Wait, {scalar(wait.getSignal()), scalar(wait.getCount()),
                                scalar(wait.getValue()), i32(int64_t(wait.getCompare())),
                                site(loc)});
      })
      .Case([&](device::PutOp put) { return lowerPut(put); })
      .Case([&](device::GetOp get) {
        suspends = true;
        return call(Api::Get,
                    {scalar(get.getDestination()), scalar(get.getSource()),
                     transferBytes(get.getCount(), get.getDestination().getType().getPointee()),
                     scalar(get.getRank()), i32(get.getNonblocking()), site(loc)});
      })
      .Case([&](device::FenceOp) { return call(Api::Fence, {site(loc)}); })
      .Case([&](device::QuietOp) {
        suspends = true;
        return call(Api::Quiet, {site(loc)});
      })
      .Case<device::BarrierAllOp, device::SyncAllOp>([&](auto) {
        suspends = true;
        return call(Api::BarrierAll, {site(loc)});
      })
      .Default([&](Operation *) {
        return op->emitError("operation ")
               << op->getName() << " is not supported on the CPU target";
      });
}

//===-- Remote accesses --------------------------------------------------------------------------===//

// Memory that a call of the runtime reads or writes: addresses, values, mask.
Value Lowering::spillRemote(Value addresses, Value mask, Value &valueSlot, Value &maskSlot) {
  int64_t lanes = std::max<int64_t>(lanesOf(addresses), 1);
  int64_t addressBytes = llvm::alignTo(lanes * 8, 64);
  Value block = entryAlloca(Slot::Remote, 3 * addressBytes);
  valueSlot = ptrAt(block, addressBytes);
  maskSlot = LLVM::ZeroOp::create(builder, loc, ptrType);
  LLVM::StoreOp::create(builder, loc, addresses, block, 8u);
  if (mask) {
    maskSlot = ptrAt(block, 2 * addressBytes);
    LLVM::StoreOp::create(builder, loc, toStored(mask, mask.getType().isInteger(1)
                                                           ? mask.getType()
                                                           : builder.getI1Type()),
                          maskSlot, 1u);
  }
  return block;
}

Value Lowering::emitRemoteLoad(Nest &nest, core::LoadOp op, const Coords &coords, Value mask,
                               Value other) {
  auto pointer = cast<core::PointerType>(getElementTypeOrSelf(op.getPointer().getType()));
  // Everything that both branches use is evaluated before them.
  int64_t lanes = llvm::any_of(coords, [](const Coord &c) { return c.lane; }) ? nest.lanes : 0;
  Value addresses = evaluate(nest, op.getPointer(), coords);
  evaluateFirstLane(nest, op.getPointer(), coords);
  Type type = vectorOr(storedType(pointer.getPointee()), lanes);
  auto branch = scf::IfOp::create(builder, nest.loc, TypeRange(type), isRouted(), true);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToEnd(branch.thenBlock());
  Value valueSlot, maskSlot;
  Value fullMask = mask ? splat(builder, nest.loc, mask, lanes) : Value();
  Value block = spillRemote(splat(builder, nest.loc, addresses, lanes), fullMask, valueSlot,
                            maskSlot);
  unsigned size = unsigned(byteSize(pointer.getPointee()));
  if (other)
    LLVM::StoreOp::create(builder, nest.loc, other, valueSlot, size);
  callApi(Api::RemoteLoad, {},
          {block, valueSlot, maskSlot, i64(std::max<int64_t>(lanes, 1)), i32(size),
           site(op.getLoc())});
  Value loaded = LLVM::LoadOp::create(builder, nest.loc, type, valueSlot, size);
  scf::YieldOp::create(builder, nest.loc, loaded);
  builder.setInsertionPointToEnd(branch.elseBlock());
  Value direct = emitDirectLoad(nest, op, coords, mask, other);
  scf::YieldOp::create(builder, nest.loc, direct);
  return branch.getResult(0);
}

void Lowering::emitRemoteStore(Nest &nest, core::StoreOp op, const Coords &coords, Value value,
                               Value mask) {
  auto pointer = cast<core::PointerType>(getElementTypeOrSelf(op.getPointer().getType()));
  int64_t lanes = lanesOf(value);
  Value addresses = evaluate(nest, op.getPointer(), coords);
  evaluateFirstLane(nest, op.getPointer(), coords);
  auto branch = scf::IfOp::create(builder, nest.loc, isRouted(), /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(branch.thenBlock());
  Value valueSlot, maskSlot;
  Value block = spillRemote(splat(builder, nest.loc, addresses, lanes), mask, valueSlot,
                            maskSlot);
  unsigned size = unsigned(byteSize(pointer.getPointee()));
  LLVM::StoreOp::create(builder, nest.loc, value, valueSlot, size);
  callApi(Api::RemoteStore, {},
          {block, valueSlot, maskSlot, i64(std::max<int64_t>(lanes, 1)), i32(size),
           site(op.getLoc())});
  builder.setInsertionPointToStart(branch.elseBlock());
  emitDirectStore(nest, op, coords, value, mask);
}

//===-- Assert and print ----------------------------------------------------------------------------===//

void Lowering::failUnless(Value condition, llvm::function_ref<void()> report) {
  Value zero = constantLike(builder, loc, condition.getType(), 0);
  Value holds = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne, condition, zero);
  if (lanesOf(holds))
    holds = vector::ReductionOp::create(builder, loc, vector::CombiningKind::AND, holds);
  Value fails = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, holds,
                                      constantLike(builder, loc, builder.getI1Type(), 0));
  auto branch = scf::IfOp::create(builder, loc, fails, false);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(branch.thenBlock());
  report();
}

LogicalResult Lowering::lowerAssert(core::AssertOp op) {
  ArrayRef<int64_t> shape = core::shapeOf(op.getCondition().getType());
  int dim = lastDim(shape);
  forEachChunk(loc, shape, dim, dim < 0 ? 0 : lanesFor(shape[dim]),
               [&](Nest &nest, const Coords &coords) {
                 failUnless(evaluate(nest, op.getCondition(), coords), [&] {
                   callApi(Api::Fail, {}, {constantText(op.getMessage()), site(loc)});
                 });
               });
  return success();
}

// The lowest index outside is the one to report.
LogicalResult Lowering::lowerCheckBounds(core::CheckBoundsOp op) {
  ArrayRef<int64_t> shape = core::shapeOf(op.getInside().getType());
  int dim = lastDim(shape);
  auto check = [&](Nest &nest, const Coords &coords) {
    Value inside = evaluate(nest, op.getInside(), coords);
    Value index = evaluate(nest, op.getIndex(), coords); // here: others may use it after the branch
    failUnless(inside, [&] {
      if (int64_t lanes = lanesOf(inside)) {
        Value none = splat(builder, loc, i64(std::numeric_limits<int64_t>::max()), lanes);
        Value wrong = arith::SelectOp::create(builder, loc, inside, none,
                                              splat(builder, loc, index, lanes));
        index = vector::ReductionOp::create(builder, loc, vector::CombiningKind::MINSI, wrong);
      }
      callApi(Api::OutOfBounds, {},
              {constantText(op.getAccess()), index, scalar(op.getCount()), site(loc)});
    });
  };
  forEachChunk(loc, shape, dim, dim < 0 ? 0 : lanesFor(shape[dim]), check);
  return success();
}

// i64, or f64: the forms that the runtime prints.
static Value widenForPrint(OpBuilder &b, Location loc, Value value, bool isSigned) {
  Type type = value.getType();
  if (isa<LLVM::LLVMPointerType>(type))
    return LLVM::PtrToIntOp::create(b, loc, b.getI64Type(), value);
  if (type.isIndex())
    return arith::IndexCastOp::create(b, loc, b.getI64Type(), value);
  if (isa<FloatType>(type))
    return type.isF64() ? value : arith::ExtFOp::create(b, loc, b.getF64Type(), value);
  if (type.isInteger(64))
    return value;
  if (isSigned && !type.isInteger(1))
    return arith::ExtSIOp::create(b, loc, b.getI64Type(), value);
  return arith::ExtUIOp::create(b, loc, b.getI64Type(), value);
}

LogicalResult Lowering::lowerPrint(core::PrintOp op) {
  Value prefix = constantText(op.getPrefix());
  if (op.getValues().empty()) {
    Value none = LLVM::ZeroOp::create(builder, loc, ptrType);
    callApi(Api::Print, {}, {prefix, i32(TILERY_PRINT_INT), none, none, i32(0), i32(0), site(loc)});
  }
  for (auto [index, value] : llvm::enumerate(op.getValues())) {
    Type element = getElementTypeOrSelf(value.getType());
    ArrayRef<int64_t> shape = core::shapeOf(value.getType());
    bool isSigned = index < op.getIsSigned().size() && op.getIsSigned()[index];
    Type printed = isa<FloatType>(element) ? Type(builder.getF64Type()) : builder.getI64Type();
    BufferAllocator::Mark mark = allocator.mark();
    Buffer buffer = allocateAs(shape, printed, loc);
    forEachChunk(loc, shape, -1, 0, [&](Nest &nest, const Coords &coords) {
      Value number = widenForPrint(builder, loc, evaluate(nest, value, coords), isSigned);
      storeBuffer(nest, buffer, coords, number);
    });
    int64_t rank = int64_t(shape.size());
    Value extents = entryAlloca(Slot::Shape, 8 * std::max<int64_t>(rank, 1));
    for (int64_t dim = 0; dim < rank; ++dim)
      LLVM::StoreOp::create(builder, loc, i64(shape[dim]), ptrAt(extents, 8 * dim));
    int kind = isa<FloatType>(element) ? TILERY_PRINT_FLOAT
               : isSigned              ? TILERY_PRINT_INT
                                       : TILERY_PRINT_UINT;
    callApi(Api::Print, {},
            {prefix, i32(kind), buffer.base, extents, i32(rank), i32(op.getHex()), site(loc)});
    allocator.release(mark);
  }
  return success();
}

} // namespace tilery::vec
