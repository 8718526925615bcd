// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Target/Simt/Accesses.h"

#include "compiler/Dialect/Core/IR/Core.h"
#include "compiler/Dialect/Device/IR/Device.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace tilery::simt {

Value argumentOf(Value pointer) {
  while (Operation *op = pointer.getDefiningOp()) {
    if (!isa<core::AddPtrOp, core::SplatOp, core::BroadcastOp, core::ExpandDimsOp, core::TransOp,
             core::ReshapeOp, core::HintOp, core::PtrCastOp, ConvertLayoutOp, device::LocalOp>(op))
      return {};
    pointer = op->getOperand(0);
  }
  auto argument = dyn_cast<BlockArgument>(pointer);
  return argument && isa<func::FuncOp>(argument.getOwner()->getParentOp()) ? pointer : Value();
}

bool writes(func::FuncOp kernel, Value argument) {
  bool found = false;
  kernel.walk([&](Operation *op) {
    Value pointer;
    if (auto store = dyn_cast<core::StoreOp>(op))
      pointer = store.getPointer();
    if (isa<core::AtomicRMWOp, core::AtomicCASOp>(op))
      pointer = op->getOperand(0);
    if (!pointer)
      return;
    Value written = argumentOf(pointer);
    found |= !written || written == argument;
  });
  return found;
}

bool waitsForMemory(Operation *op) {
  auto inside = [](Operation *inner) {
    auto load = dyn_cast<core::LoadOp>(inner);
    bool looks = isa<core::AtomicRMWOp, core::AtomicCASOp>(inner) || (load && load.getIsVolatile());
    return looks ? WalkResult::interrupt() : WalkResult::advance();
  };
  return isa<scf::WhileOp>(op) && op->walk(inside).wasInterrupted();
}

unsigned pointeeBytes(Type pointer) {
  Type pointee = cast<core::PointerType>(getElementTypeOrSelf(pointer)).getPointee();
  return pointee.isIntOrFloat() ? (pointee.getIntOrFloatBitWidth() + 7) / 8 : 8;
}

bool isAllTrue(Value mask) {
  if (!mask)
    return true;
  if (auto splat = mask.getDefiningOp<core::SplatOp>())
    return isAllTrue(splat.getSource());
  return matchPattern(mask, m_One());
}

SmallVector<unsigned> neighbourBits(const LinearLayout &layout, ArrayRef<int64_t> shape,
                                    unsigned dim, unsigned width) {
  SmallVector<unsigned> bits;
  unsigned shift = axisShift(shape, dim);
  for (unsigned bit = 0; 1u << bit < width; ++bit) {
    int32_t base = 1 << (shift + bit);
    auto at = llvm::find(layout.registers, base);
    auto touches = [&](int32_t other) { return other != base && (other & base); };
    if (base > axisMask(shape, dim) || at == layout.registers.end() ||
        llvm::any_of(layout.registers, touches) || llvm::any_of(layout.lanes, touches) ||
        llvm::any_of(layout.warps, touches))
      break;
    bits.push_back(unsigned(at - layout.registers.begin()));
  }
  return bits;
}

bool sameThreads(Value first, Value second) {
  if (first == second)
    return true;
  auto a = first.getDefiningOp<core::AddPtrOp>(), c = second.getDefiningOp<core::AddPtrOp>();
  if (!a || !c || a.getOffset() != c.getOffset())
    return false;
  if (a.getPointer() == c.getPointer())
    return true;
  // Both bases are uniform: all of the difference between elements is in the offset.
  auto uniform = [](Value pointer) {
    return !isa<RankedTensorType>(pointer.getType()) || pointer.getDefiningOp<core::SplatOp>();
  };
  if (uniform(a.getPointer()) && uniform(c.getPointer())) {
    Value one = argumentOf(first), other = argumentOf(second);
    return one && other && one != other;
  }
  return sameThreads(a.getPointer(), c.getPointer());
}

// What an integer that is never negative is at least; 0 when it cannot be seen.
static int64_t atLeast(Value value) {
  APInt constant;
  if (matchPattern(value, m_ConstantInt(&constant)))
    return std::max<int64_t>(constant.getSExtValue(), 0);
  Operation *op = value.getDefiningOp();
  if (isa_and_nonnull<core::NumProgramsOp>(op))
    return 1;
  if (isa_and_nonnull<arith::ExtSIOp, arith::ExtUIOp>(op))
    return atLeast(op->getOperand(0));
  if (isa_and_nonnull<arith::MulIOp>(op))
    return atLeast(op->getOperand(0)) * atLeast(op->getOperand(1));
  return 0;
}

// How far a scalar, start + variable * step, moves from one iteration to the next; 0 when that cannot be seen.
static int64_t strideOf(Value scalar, scf::ForOp loop) {
  auto isVariable = [&](Value value) { return value == loop.getInductionVar(); };
  if (isVariable(scalar))
    return atLeast(loop.getStep());
  if (auto *op = scalar.getDefiningOp(); isa_and_nonnull<arith::ExtSIOp, arith::ExtUIOp, arith::TruncIOp>(op))
    return strideOf(op->getOperand(0), loop); // a range's numbers are of its type
  auto sum = scalar.getDefiningOp<arith::AddIOp>();
  if (sum && loop.isDefinedOutsideOfLoop(sum.getLhs()))
    return strideOf(sum.getRhs(), loop);
  auto product = scalar.getDefiningOp<arith::MulIOp>();
  if (product && isVariable(product.getLhs()) && loop.isDefinedOutsideOfLoop(product.getRhs()))
    return atLeast(product.getRhs()) * atLeast(loop.getStep());
  return 0;
}

// Offsets `scalar` + 0, 1, ..., all others in the next iteration.
static bool areOthersEachTime(Value offsets, scf::ForOp loop) {
  auto sum = offsets.getDefiningOp<arith::AddIOp>();
  auto begin = sum ? sum.getLhs().getDefiningOp<core::SplatOp>() : core::SplatOp();
  if (!begin)
    return false;
  Operation *lanes = sum.getRhs().getDefiningOp();
  while (isa_and_nonnull<arith::ExtSIOp, arith::ExtUIOp, ConvertLayoutOp>(lanes))
    lanes = lanes->getOperand(0).getDefiningOp();
  auto range = dyn_cast_or_null<core::RangeOp>(lanes);
  return range && strideOf(begin.getSource(), loop) >= int64_t(range.getEnd()) - int64_t(range.getStart());
}

bool iterationsAreApart(scf::ForOp loop) {
  SmallVector<Value> loaded, stored;
  bool others = loop.getBody()
                    ->walk([&](Operation *op) {
                      if (auto load = dyn_cast<core::LoadOp>(op); load && !load.getIsVolatile())
                        loaded.push_back(load.getPointer());
                      else if (auto store = dyn_cast<core::StoreOp>(op))
                        stored.push_back(store.getPointer());
                      else if (!isMemoryEffectFree(op) && !isa<scf::YieldOp, scf::IfOp>(op))
                        return WalkResult::interrupt();
                      return WalkResult::advance();
                    })
                    .wasInterrupted();
  auto offsetsOf = [](Value pointer) {
    auto add = pointer.getDefiningOp<core::AddPtrOp>();
    return add ? add.getOffset() : Value();
  };
  if (others || stored.empty())
    return false;
  Value offsets = offsetsOf(stored.front());
  return offsets && areOthersEachTime(offsets, loop) &&
         llvm::all_of(llvm::concat<Value>(loaded, stored), [&](Value pointer) {
           return offsetsOf(pointer) == offsets && sameThreads(pointer, stored.front());
         });
}

} // namespace tilery::simt
