// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Target/Simt/LayoutChoice.h"

#include "compiler/Target/Simt/Passes.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/TypeSwitch.h"

namespace tilery::simt {

// The result has the elements of one operand, moved or repeated.
bool onlyMoves(Operation *op) {
  return isa<core::SplatOp, core::BroadcastOp, core::ExpandDimsOp, core::TransOp, core::ReshapeOp,
             core::HintOp>(op);
}

bool isElementwise(Operation *op) {
  return isa<arith::ArithDialect, math::MathDialect>(op->getDialect()) ||
         isa<core::AddPtrOp, core::PtrToIntOp, core::IntToPtrOp, core::PtrCastOp>(op) ||
         op->getName().getStringRef() == "device.local" ||
         op->getName().getStringRef() == "device.symm_at";
}

bool LayoutChoice::isFree(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op)
    return false;
  auto found = freeness.find(value);
  if (found != freeness.end())
    return found->second;
  bool result = isa<core::RangeOp, arith::ConstantOp>(op) || onlyMoves(op) ||
                (isElementwise(op) && op->getNumResults() == 1 &&
                 llvm::all_of(op->getOperands(), [&](Value operand) {
                   return !isTileValue(operand) || isFree(operand);
                 }));
  return freeness[value] = result;
}

LinearLayout LayoutChoice::defaultFor(Type type) {
  auto tile = cast<RankedTensorType>(type);
  Type element = tile.getElementType();
  unsigned bits = element.isIntOrFloat() ? element.getIntOrFloatBitWidth() : 64;
  return defaultLayout(tile.getShape(), bits, machine.laneBits(), warpBits);
}

LayoutAttr LayoutChoice::memoryLayout(Value pointer, Value mask) {
  ArrayRef<int64_t> shape = core::shapeOf(pointer.getType());
  unsigned fastest = axes.fastestDim(pointer);
  unsigned vector = axes.vectorWidth(pointer, mask, fastest);
  unsigned bits = indexBits(shape), threadBits = machine.laneBits() + warpBits;
  unsigned perThread = bits > threadBits ? bits - threadBits : 0;
  vector = std::min({vector, 1u << std::min(perThread, 10u), unsigned(shape[fastest])});
  SmallVector<unsigned> order = {fastest};
  for (unsigned dim = unsigned(shape.size()); dim-- > 0;)
    if (dim != fastest)
      order.push_back(dim);
  return blockedLayout(shape, order, vector, machine.laneBits(), warpBits)
      .attr(kernel.getContext());
}

// Results of matrix units need not pass through shared memory: exchanges between neighbouring
// lanes already make runs as long as one access takes.
LayoutAttr LayoutChoice::widened(LayoutAttr product, Value pointer, Value mask) {
  LinearLayout layout = LinearLayout::of(product);
  ArrayRef<int64_t> shape = core::shapeOf(pointer.getType());
  unsigned fastest = axes.fastestDim(pointer), shift = axisShift(shape, fastest);
  unsigned width = axes.vectorWidth(pointer, mask, fastest);
  for (int32_t step = 1; step < int32_t(width); step *= 2) {
    int32_t wanted = step << shift;
    if (llvm::is_contained(layout.registers, wanted))
      continue;
    auto lane = llvm::find(layout.lanes, wanted);
    auto spare = llvm::find_if(layout.registers, [&](int32_t base) {
      return (base & axisMask(shape, fastest)) == base && base >= int32_t(width) << shift;
    });
    if (lane == layout.lanes.end() || spare == layout.registers.end())
      return memoryLayout(pointer, mask);
    std::swap(*lane, *spare);
  }
  return layout.attr(kernel.getContext());
}

namespace {
/// What a value becomes part of: elementwise results, and what loops and branches carry.
class Uses {
public:
  /// False when a user is of another kind.
  bool follow(Value value, llvm::function_ref<bool(Value)> isGoal) {
    if (!seen.insert(value).second || isGoal(value))
      return true;
    return llvm::all_of(value.getUses(), [&](OpOperand &use) {
      Operation *user = use.getOwner();
      if (auto loop = dyn_cast<scf::ForOp>(user)) {
        unsigned number = loop.getTiedLoopResult(&use).getResultNumber();
        return follow(loop.getResult(number), isGoal) &&
               follow(loop.getRegionIterArg(number), isGoal);
      }
      if (isa<scf::YieldOp>(user) && isa<scf::ForOp, scf::IfOp>(user->getParentOp())) {
        Value result = user->getParentOp()->getResult(use.getOperandNumber());
        auto loop = dyn_cast<scf::ForOp>(user->getParentOp());
        return follow(result, isGoal) &&
               (!loop || follow(loop.getRegionIterArg(use.getOperandNumber()), isGoal));
      }
      return isElementwise(user) && user->getNumResults() == 1 && follow(user->getResult(0), isGoal);
    });
  }

private:
  llvm::DenseSet<Value> seen;
};
} // namespace

bool LayoutChoice::adaptLoads() {
  kernel.walk([&](core::LoadOp load) {
    if (!isTileValue(load))
      return;
    llvm::SmallSetVector<LayoutAttr, 2> products;
    bool onlyProducts = Uses().follow(load.getResult(), [&](Value value) {
      Choice choice = choiceOf(value);
      if (choice.weight == Weight::Matrix)
        products.insert(choice.layout);
      return choice.weight == Weight::Matrix;
    });
    if (onlyProducts && products.size() == 1)
      adapted[load] = widened(products[0], load.getPointer(), load.getMask());
  });
  return !adapted.empty();
}

void LayoutChoice::findDotLayouts() {
  kernel.walk([&](AsyncDotOp dot) {
    ArrayRef<int64_t> shape = core::shapeOf(dot.getType());
    offer(dot.getResult(), asyncDotLayout(shape[0], shape[1], numWarps()).attr(kernel.getContext()),
          Weight::Matrix);
  });
  kernel.walk([&](core::DotOp dot) {
    offer(dot.getResult(), dotLayout(dot, machine, warpBits).attr(kernel.getContext()),
          Weight::Matrix);
  });
}

bool LayoutChoice::offer(Value value, LayoutAttr layout, Weight weight) {
  if (!isTileValue(value) || isFree(value))
    return false;
  Choice &choice = choices[value];
  if (!layout || choice.weight >= weight)
    return false;
  choice = {layout, weight};
  return true;
}

/// The heaviest choice among operands of the result's shape.
Choice LayoutChoice::heaviest(ValueRange operands) {
  Choice best;
  for (Value operand : operands)
    if (isTileValue(operand))
      if (Choice choice = choiceOf(operand); choice.weight > best.weight)
        best = choice;
  return best;
}

/// In which layout a value comes most cheaply, also a free one.
Choice LayoutChoice::preferred(Value value) {
  if (!isFree(value))
    return choiceOf(value);
  Operation *op = value.getDefiningOp();
  if (onlyMoves(op) && isTileValue(op->getOperand(0)) && !isa<core::BroadcastOp>(op)) {
    Choice source = preferred(op->getOperand(0));
    if (source.layout)
      source.layout = forwards(op, source.layout);
    return source;
  }
  Choice best;
  if (isElementwise(op))
    for (Value operand : op->getOperands())
      if (isTileValue(operand))
        if (Choice choice = preferred(operand); choice.weight > best.weight)
          best = choice;
  return best;
}

LayoutAttr LayoutChoice::forwards(Operation *op, LayoutAttr source) {
  LinearLayout layout = LinearLayout::of(source);
  if (auto trans = dyn_cast<core::TransOp>(op))
    layout = mapped(layout, transposeImages(core::shapeOf(trans.getSource().getType()),
                                            trans.getOrder()));
  return layout.attr(kernel.getContext());
}

bool LayoutChoice::propagateLoop(scf::ForOp loop) {
  bool changed = false;
  for (auto [init, argument, yielded, result] :
       llvm::zip(loop.getInits(), loop.getRegionIterArgs(), loop.getYieldedValues(),
                 loop.getResults()))
    changed |= unify({init, argument, yielded, result});
  return changed;
}

// These values take turns in one place, so they have one layout.
bool LayoutChoice::unify(ArrayRef<Value> values) {
  if (!isTileValue(values[0]))
    return false;
  Choice best = heaviest(values);
  bool changed = false;
  for (Value value : values)
    if (isa<BlockArgument>(value) || isa<scf::ForOp, scf::IfOp, scf::WhileOp>(value.getDefiningOp()))
      changed |= offer(value, best.layout, best.weight);
  return changed;
}

bool LayoutChoice::propagateWhile(scf::WhileOp loop) {
  bool changed = false;
  for (auto [init, argument, yielded] :
       llvm::zip(loop.getInits(), loop.getBeforeArguments(), loop.getYieldOp().getOperands()))
    changed |= unify({init, argument, yielded});
  for (auto [forwarded, argument, result] :
       llvm::zip(loop.getConditionOp().getArgs(), loop.getAfterArguments(), loop.getResults()))
    changed |= unify({forwarded, argument, result});
  return changed;
}

bool LayoutChoice::propagateIf(scf::IfOp branch) {
  bool changed = false;
  for (unsigned i = 0; i < branch.getNumResults(); ++i)
    changed |= unify({branch.thenYield().getOperand(i), branch.elseYield().getOperand(i),
                      branch.getResult(i)});
  return changed;
}

// A carried tile of pointers or masks takes the layout of the access that uses it. Each value is
// visited once: a sort before an address has exponentially many ways to its input.
bool LayoutChoice::demand(Value wanted, LayoutAttr layout) {
  SmallVector<Value> pending = {wanted};
  llvm::SmallDenseSet<Value> seen;
  bool changed = false;
  while (!pending.empty()) {
    Value value = pending.pop_back_val();
    if (!value || !isTileValue(value) || !seen.insert(value).second)
      continue;
    if (isa<BlockArgument>(value))
      changed |= offer(value, layout, Weight::Demand);
    else if (isElementwise(value.getDefiningOp()))
      llvm::append_range(pending, value.getDefiningOp()->getOperands());
  }
  return changed;
}

bool LayoutChoice::propagateMemory(Operation *op, Value pointer, Value mask) {
  LayoutAttr known = adapted.lookup(op);
  LayoutAttr layout = known ? known : memoryLayout(pointer, mask);
  bool changed = demand(pointer, layout);
  for (Value result : op->getResults())
    changed |= offer(result, layout, Weight::Memory);
  return changed;
}

bool LayoutChoice::propagateReduce(core::ReduceOp reduce) {
  Choice source = combineSource(reduce.getSources());
  bool changed = false;
  if (source.layout)
    for (Value result : reduce.getResults())
      changed |= offer(result, reducedLayout(source.layout, reduce), source.weight);
  return changed;
}

Choice LayoutChoice::combineSource(ValueRange sources) {
  Choice best;
  for (Value source : sources)
    if (Choice choice = preferred(source); choice.weight > best.weight)
      best = choice;
  return best;
}

LayoutAttr LayoutChoice::reducedLayout(LayoutAttr source, core::ReduceOp reduce) {
  ArrayRef<int64_t> shape = core::shapeOf(reduce.getSources()[0].getType());
  return withoutCopies(mapped(LinearLayout::of(source), dropAxisImages(shape, reduce.getAxis())))
      .attr(kernel.getContext());
}

// The axis inside registers and lanes only, so that no scan crosses warps.
LayoutAttr LayoutChoice::scanLayout(core::ScanOp scan) {
  auto tile = cast<RankedTensorType>(scan.getSources()[0].getType());
  ArrayRef<int64_t> shape = tile.getShape();
  unsigned axis = scan.getAxis(), width = llvm::Log2_64(uint64_t(shape[axis]));
  unsigned inLanes = std::min(width, machine.laneBits());
  LinearLayout layout;
  auto axisBit = [&](unsigned bit) { return 1 << (axisShift(shape, axis) + bit); };
  for (unsigned bit = 0; bit < width - inLanes; ++bit)
    layout.registers.push_back(axisBit(bit));
  for (unsigned bit = width - inLanes; bit < width; ++bit)
    layout.lanes.push_back(axisBit(bit));
  for (unsigned bit = 0; bit < indexBits(shape); ++bit) {
    if (axisMask(shape, axis) >> bit & 1)
      continue;
    Bases &to = layout.lanes.size() < machine.laneBits() ? layout.lanes
                : layout.warps.size() < warpBits         ? layout.warps
                                                         : layout.registers;
    to.push_back(1 << bit);
  }
  layout.lanes.resize(machine.laneBits(), 0);
  layout.warps.resize(warpBits, 0);
  return layout.attr(kernel.getContext());
}

// Halves of a tile whose last dimension lies in a register bit.
LayoutAttr LayoutChoice::splitSource(core::SplitOp split) {
  Choice source = preferred(split.getSource());
  LinearLayout layout = source.layout ? LinearLayout::of(source.layout)
                                      : defaultFor(split.getSource().getType());
  if (llvm::is_contained(layout.registers, 1) && LinearLayout(layout).contiguity() >= 2)
    return layout.attr(kernel.getContext());
  LinearLayout halves = defaultFor(split.getLhs().getType());
  return joined(halves).attr(kernel.getContext());
}

LinearLayout LayoutChoice::joined(const LinearLayout &half) {
  LinearLayout layout;
  layout.registers.push_back(1);
  for (int32_t base : half.registers)
    layout.registers.push_back(base << 1);
  for (int32_t base : half.lanes)
    layout.lanes.push_back(base << 1);
  for (int32_t base : half.warps)
    layout.warps.push_back(base << 1);
  return layout;
}

LinearLayout LayoutChoice::halved(const LinearLayout &whole) {
  LinearLayout layout;
  for (int32_t base : whole.registers)
    if (base != 1)
      layout.registers.push_back(base >> 1);
  for (int32_t base : whole.lanes)
    layout.lanes.push_back(base >> 1);
  for (int32_t base : whole.warps)
    layout.warps.push_back(base >> 1);
  return layout;
}

bool LayoutChoice::propagateSplit(core::SplitOp split) {
  if (!isTileValue(split.getLhs()))
    return false;
  LayoutAttr half = halved(LinearLayout::of(splitSource(split))).attr(kernel.getContext());
  bool isNewLeft = offer(split.getLhs(), half, Weight::Plain);
  return offer(split.getRhs(), half, Weight::Plain) || isNewLeft;
}

bool LayoutChoice::propagateJoin(core::JoinOp join) {
  Choice half = heaviest({join.getLhs(), join.getRhs()});
  if (!half.layout)
    return false;
  return offer(join.getResult(),
               joined(LinearLayout::of(half.layout)).attr(kernel.getContext()), Weight::Plain);
}

LayoutAttr LayoutChoice::catSource(core::CatOp cat) {
  Choice half = heaviest({cat.getLhs(), cat.getRhs()});
  return half.layout ? half.layout : defaultFor(cat.getLhs().getType()).attr(kernel.getContext());
}

bool LayoutChoice::propagateCat(core::CatOp cat) {
  LinearLayout layout = LinearLayout::of(catSource(cat));
  layout.registers.push_back(1 << indexBits(core::shapeOf(cat.getLhs().getType())));
  return offer(cat.getResult(), layout.attr(kernel.getContext()), Weight::Plain);
}

bool LayoutChoice::propagateGather(core::GatherOp gather) {
  Choice index = preferred(gather.getIndex());
  return offer(gather.getResult(),
               index.layout ? index.layout
                            : defaultFor(gather.getType()).attr(kernel.getContext()),
               Weight::Plain);
}

bool LayoutChoice::propagateOp(Operation *op) {
  return llvm::TypeSwitch<Operation *, bool>(op)
      .Case([&](scf::ForOp loop) { return propagateLoop(loop); })
      .Case([&](scf::WhileOp loop) { return propagateWhile(loop); })
      .Case([&](scf::IfOp branch) { return propagateIf(branch); })
      .Case([&](core::LoadOp load) {
        return isTileValue(load) && propagateMemory(op, load.getPointer(), load.getMask());
      })
      .Case([&](core::StoreOp store) {
        return isTileValue(store.getPointer()) &&
               propagateMemory(op, store.getPointer(), store.getMask());
      })
      .Case([&](core::AtomicRMWOp atomic) {
        return isTileValue(atomic.getResult()) &&
               propagateMemory(op, atomic.getPointer(), atomic.getMask());
      })
      .Case([&](core::AtomicCASOp atomic) {
        return isTileValue(atomic.getResult()) &&
               propagateMemory(op, atomic.getPointer(), Value());
      })
      .Case([&](core::ReduceOp reduce) { return propagateReduce(reduce); })
      .Case([&](core::ScanOp scan) {
        bool changed = false;
        for (Value result : scan.getResults())
          changed |= offer(result, scanLayout(scan), Weight::Plain);
        return changed;
      })
      .Case([&](DotWaitOp wait) {
        bool changed = false;
        for (auto [given, result] : llvm::zip(wait.getAccumulators(), wait.getResults()))
          changed |= offer(result, choiceOf(given).layout, choiceOf(given).weight);
        return changed;
      })
      .Case([&](core::SplitOp split) { return propagateSplit(split); })
      .Case([&](core::JoinOp join) { return propagateJoin(join); })
      .Case([&](core::CatOp cat) { return propagateCat(cat); })
      .Case([&](core::GatherOp gather) { return propagateGather(gather); })
      .Default([&](Operation *other) {
        if (!isElementwise(other))
          return false;
        Choice best = heaviest(other->getOperands());
        bool changed = false;
        for (Value result : other->getResults())
          changed |= offer(result, best.layout, best.weight);
        return changed;
      });
}

void LayoutChoice::propagate() {
  bool changed = true;
  while (changed) {
    changed = false;
    kernel.walk<WalkOrder::PreOrder>([&](Operation *op) { changed |= propagateOp(op); });
  }
}

// What no anchor reaches takes the default, from which others may follow.
void LayoutChoice::fillUnknown() {
  kernel.walk<WalkOrder::PreOrder>([&](Operation *op) {
    auto fill = [&](Value value) {
      if (isTileValue(value) &&
          offer(value, defaultFor(value.getType()).attr(kernel.getContext()), Weight::Default))
        propagate();
    };
    for (Region &region : op->getRegions())
      for (Block &block : region)
        llvm::for_each(block.getArguments(), fill);
    if (auto reduce = dyn_cast<core::ReduceOp>(op)) {
      LayoutAttr source = reduceSource(reduce);
      for (Value result : reduce.getResults())
        if (isTileValue(result))
          offer(result, reducedLayout(source, reduce), Weight::Default);
    }
    llvm::for_each(op->getResults(), fill);
  });
}

LayoutAttr LayoutChoice::reduceSource(core::ReduceOp reduce) {
  Choice source = combineSource(reduce.getSources());
  return source.layout ? source.layout
                       : defaultFor(reduce.getSources()[0].getType()).attr(kernel.getContext());
}

} // namespace tilery::simt
