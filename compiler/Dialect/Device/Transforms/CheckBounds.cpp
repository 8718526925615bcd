// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Comparisons of accesses with the extents of arguments; Passes.td shows it.
//
// Algorithm, for each access:
// 1) find the arguments that its pointers may come from, and for memory of another rank where the
//    argument's memory begins there;
// 2) compare address - begin with the extent, for each of them; it is inside when one holds it;
// 3) lanes that the mask switches off are inside.
#include "compiler/Dialect/Device/Transforms/Passes.h"

#include "compiler/Dialect/Core/Analysis/PointerOrigins.h"
#include "compiler/Dialect/Device/IR/Device.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Dominance.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace tilery::device {
#define GEN_PASS_DEF_CHECKBOUNDS
#include "compiler/Dialect/Device/Transforms/Passes.h.inc"

namespace {

int64_t pointeeBytes(Type pointer) {
  Type element = getElementTypeOrSelf(pointer), pointee;
  if (auto core = dyn_cast<core::PointerType>(element))
    pointee = core.getPointee();
  else if (auto symmetric = dyn_cast<SymmType>(element))
    pointee = symmetric.getPointee();
  return pointee && pointee.isIntOrFloat() ? (pointee.getIntOrFloatBitWidth() + 7) / 8 : 8;
}

// As users write it.
std::string nameOf(core::AtomicKind kind) {
  StringRef name = core::stringifyAtomicKind(kind);
  bool prefixed = name.starts_with("f") || (name.starts_with("u") && name != "umul");
  return ("tl.atomic_" + (prefixed ? name.drop_front() : name)).str();
}

/// An argument that a pointer may come from.
struct Origin {
  unsigned argument;
  Value begin; ///< i64: address of the argument's memory; 0 when its extent is unknown
};

/// What an operation reaches from a pointer on.
struct Access {
  Value pointer, mask;
  std::string who; ///< "tl.load reads"
  Value count;     ///< elements, of a transfer; null: one for each pointer
};

class Checker {
public:
  Checker(func::FuncOp kernel, bool everything, bool symmetricOnly)
      : kernel(kernel), everything(everything), signals(symmetricOnly), b(kernel.getContext()),
        loc(kernel.getLoc()), dominance(kernel) {}

  void run() {
    SmallVector<Operation *> users;
    kernel.walk([&](Operation *op) { users.push_back(op); });
    for (Operation *op : users) {
      loc = op->getLoc();
      b.setInsertionPoint(op);
      visit(op);
    }
    if (!extentOf.empty())
      kernel->setAttr("core.extents", b.getDenseI32ArrayAttr(
                                          llvm::to_vector(llvm::make_first_range(extentOf))));
  }

private:
  func::FuncOp kernel;
  bool everything, signals;
  OpBuilder b;
  Location loc;
  DominanceInfo dominance;
  llvm::MapVector<int32_t, Value> extentOf; ///< i64 argument with the bytes of an argument
  DenseMap<unsigned, Value> localBegins;
  DenseMap<Operation *, Value> remoteBegins;
  bool warned = false;

  //===-- Which accesses -----------------------------------------------------------------===//

  void visit(Operation *op) {
    if (everything)
      visitMemory(op);
    if (everything || signals)
      visitSymmetric(op);
  }

  void visitMemory(Operation *op) {
    if (auto load = dyn_cast<core::LoadOp>(op))
      check({load.getPointer(), load.getMask(), "tl.load reads", {}});
    else if (auto store = dyn_cast<core::StoreOp>(op))
      check({store.getPointer(), store.getMask(), "tl.store writes", {}});
    else if (auto atomic = dyn_cast<core::AtomicRMWOp>(op))
      check({atomic.getPointer(), atomic.getMask(), nameOf(atomic.getKind()) + " updates", {}});
    else if (auto atomic = dyn_cast<core::AtomicCASOp>(op))
      check({atomic.getPointer(), {}, "tl.atomic_cas updates", {}});
    else if (auto put = dyn_cast<PutOp>(op))
      check({put.getSource(), {}, "dl.put accesses", put.getCount()});
    else if (auto get = dyn_cast<GetOp>(op))
      check({get.getDestination(), {}, "dl.get accesses", get.getCount()});
    else if (auto gather = dyn_cast<core::GatherOp>(op))
      checkGather(gather);
  }

  void visitSymmetric(Operation *op) {
    if (auto notify = dyn_cast<NotifyOp>(op))
      check({notify.getSignal(), {}, "dl.notify uses", {}});
    else if (auto wait = dyn_cast<WaitOp>(op))
      check({wait.getSignal(), {}, "dl.wait uses", wait.getCount()});
    else if (auto get = dyn_cast<GetOp>(op))
      check({get.getSource(), {}, "dl.get accesses", get.getCount()});
    else if (auto put = dyn_cast<PutOp>(op)) {
      check({put.getDestination(), {}, "dl.put accesses", put.getCount()});
      if (put.getSignal())
        check({put.getSignal(), {}, "dl.put uses", {}});
    }
  }

  //===-- Extents and begins ----------------------------------------------------------------===//

  Value i64(int64_t value) { return arith::ConstantIntOp::create(b, loc, value, 64); }
  Value compare(arith::CmpIPredicate predicate, Value x, Value y) {
    return arith::CmpIOp::create(b, loc, predicate, x, y);
  }
  Value addressOf(Value pointer) {
    Type type = core::withElement(pointer.getType(), b.getI64Type());
    return core::PtrToIntOp::create(b, loc, type, pointer);
  }
  Value like(Value tile, Value scalar) {
    Type type = core::withElement(tile.getType(), scalar.getType());
    return isa<RankedTensorType>(type) ? Value(core::SplatOp::create(b, loc, type, scalar)) : scalar;
  }

  Value extent(unsigned argument) {
    Value &found = extentOf[int32_t(argument)];
    if (!found) {
      unsigned last = kernel.getNumArguments();
      (void)kernel.insertArgument(last, b.getI64Type(), {}, kernel.getLoc());
      found = kernel.getArgument(last);
    }
    return found;
  }
  Value isKnown(unsigned argument) {
    return compare(arith::CmpIPredicate::sge, extent(argument), i64(0));
  }
  // An unknown extent begins at address 0 and ends with the address space.
  Value whereKnown(unsigned argument, Value begin) {
    return arith::SelectOp::create(b, loc, isKnown(argument), begin, i64(0));
  }

  Value localBegin(unsigned argument) {
    Value &begin = localBegins[argument];
    if (!begin) {
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToStart(&kernel.getBody().front());
      begin = whereKnown(argument, addressOf(kernel.getArgument(argument)));
    }
    return begin;
  }

  // The object lies at one offset in all heaps: how far the pointer had been advanced before it
  // was translated is the same on both sides.
  Value remoteBegin(SymmAtOp at, unsigned argument) {
    Value &begin = remoteBegins[at];
    if (!begin) {
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointAfter(at);
      Value advanced = arith::SubIOp::create(b, loc, addressOf(at.getSource()),
                                             addressOf(kernel.getArgument(argument)));
      begin = whereKnown(argument,
                         arith::SubIOp::create(b, loc, addressOf(at.getResult()), advanced));
    }
    return begin;
  }

  std::optional<unsigned> argumentOf(Value origin) {
    auto argument = dyn_cast<BlockArgument>(origin);
    if (!argument || argument.getOwner()->getParentOp() != kernel)
      return std::nullopt;
    return argument.getArgNumber();
  }

  std::optional<Origin> originOf(Value value, Operation *user) {
    if (std::optional<unsigned> argument = argumentOf(value))
      return Origin{*argument, localBegin(*argument)};
    auto at = value.getDefiningOp<SymmAtOp>();
    if (!at || !dominance.properlyDominates(at.getOperation(), user))
      return std::nullopt;
    SmallVector<Value> sources = core::pointerOrigins(at.getSource());
    std::optional<unsigned> argument = argumentOf(sources.front());
    if (sources.size() != 1 || !argument)
      return std::nullopt;
    return Origin{*argument, remoteBegin(at, *argument)};
  }

  SmallVector<Origin> originsOf(Value pointer, Operation *user) {
    SmallVector<Origin> origins;
    for (Value value : core::pointerOrigins(pointer)) {
      std::optional<Origin> origin = originOf(value, user);
      if (!origin)
        return {};
      origins.push_back(*origin);
    }
    return origins;
  }

  //===-- Comparisons ---------------------------------------------------------------------------===//

  // One more than the largest offset at which `bytes` are inside, as an unsigned number.
  Value limit(unsigned argument, Value bytes) {
    Value ends = arith::AddIOp::create(b, loc, arith::SubIOp::create(b, loc, extent(argument), bytes),
                                       i64(1));
    Value room = arith::MaxSIOp::create(b, loc, ends, i64(0));
    return arith::SelectOp::create(b, loc, isKnown(argument), room, i64(-1));
  }

  void check(const Access &access) {
    SmallVector<Origin> origins = originsOf(access.pointer, &*b.getInsertionPoint());
    if (origins.empty())
      return warnUnchecked();
    int64_t size = pointeeBytes(access.pointer.getType());
    Value address = addressOf(access.pointer), inside, index, bytes = i64(size);
    if (access.count)
      bytes = arith::MulIOp::create(b, loc, access.count, bytes);
    for (const Origin &origin : origins) {
      Value offset = arith::SubIOp::create(b, loc, address, like(address, origin.begin));
      Value holds = compare(arith::CmpIPredicate::ult, offset,
                            like(address, limit(origin.argument, bytes)));
      inside = inside ? Value(arith::OrIOp::create(b, loc, inside, holds)) : holds;
      index = index ? index : elements(origin.argument, offset);
    }
    if (access.count) {
      Value nothing = compare(arith::CmpIPredicate::eq, access.count, i64(0));
      inside = arith::OrIOp::create(b, loc, inside, nothing);
      // The last element is the one to blame, unless the first already is.
      Value negative = compare(arith::CmpIPredicate::slt, index, i64(0));
      Value last = arith::AddIOp::create(
          b, loc, index, arith::SubIOp::create(b, loc, access.count, i64(1)));
      index = arith::SelectOp::create(b, loc, negative, index, last);
    }
    if (access.mask)
      inside = arith::OrIOp::create(b, loc, inside, negated(access.mask));
    core::CheckBoundsOp::create(b, loc, inside, index,
                                elements(origins.front().argument, extent(origins.front().argument)),
                                access.who + " argument " + namesOf(origins));
  }

  Value negated(Value mask) {
    Value ones = arith::ConstantIntOp::create(b, loc, 1, 1);
    return arith::XOrIOp::create(b, loc, mask, like(mask, ones));
  }

  // Bytes as a number of elements of an argument, rounded down.
  Value elements(unsigned argument, Value bytes) {
    int64_t shift = llvm::Log2_64(uint64_t(pointeeBytes(kernel.getArgument(argument).getType())));
    return shift ? Value(arith::ShRSIOp::create(b, loc, bytes, like(bytes, i64(shift)))) : bytes;
  }

  std::string namesOf(ArrayRef<Origin> origins) {
    auto names = kernel->getAttrOfType<ArrayAttr>("core.parameters");
    std::string text;
    for (const Origin &origin : origins) {
      bool known = names && origin.argument < names.size();
      std::string name = known ? cast<StringAttr>(names[origin.argument]).str()
                               : std::to_string(origin.argument);
      text += (text.empty() ? "'" : " or '") + name + "'";
    }
    return text;
  }

  void checkGather(core::GatherOp gather) {
    auto source = cast<RankedTensorType>(gather.getSource().getType());
    Value index = gather.getIndex(), count = i64(source.getDimSize(gather.getAxis()));
    Type wide = core::withElement(index.getType(), b.getI64Type());
    if (index.getType() != wide)
      index = arith::ExtSIOp::create(b, loc, wide, index);
    Value inside = compare(arith::CmpIPredicate::ult, index, like(index, count));
    core::CheckBoundsOp::create(b, loc, inside, index, count, "tl.gather reads its source");
  }

  void warnUnchecked() {
    if (everything && !warned)
      emitWarning(loc, "this access is not checked: its pointer is not traced to one of the kernel's "
                       "arguments");
    warned = true;
  }
};

struct CheckBounds : impl::CheckBoundsBase<CheckBounds> {
  using CheckBoundsBase::CheckBoundsBase;

  void runOnOperation() override {
    for (auto kernel : getOperation().getOps<func::FuncOp>())
      Checker(kernel, kernel->hasAttr("core.check_bounds"), signals).run();
  }
};

} // namespace
} // namespace tilery::device
