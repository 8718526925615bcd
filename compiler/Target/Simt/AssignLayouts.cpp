// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Chooses the layout of every tile; Passes.td says how.
//
// Algorithm:
//  1) values are free (cheap to compute again in any layout) or fixed;
//  2) fixed values get the best layout that reaches them, to a fixed point over loops;
//  3) fixed values get their types; operands are requested in the layout their user needs:
//     free ones are cloned, fixed ones converted, each once a layout.
#include "compiler/Target/Simt/AxisInfo.h"
#include "compiler/Target/Simt/DotLayout.h"
#include "compiler/Target/Simt/Passes.h"

#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace tilery::simt {
#define GEN_PASS_DEF_ASSIGNLAYOUTS
#include "compiler/Target/Simt/Passes.h.inc"

namespace {

/// How dear it is to give a value up in this layout.
enum class Weight { None, Default, Demand, Plain, Memory, Matrix };

struct Choice {
  LayoutAttr layout;
  Weight weight = Weight::None;
};

bool isTileValue(Value value) { return isa<RankedTensorType>(value.getType()); }

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

class Assignment {
public:
  Assignment(func::FuncOp kernel, const Machine &machine, unsigned numWarps)
      : kernel(kernel), machine(machine), warpBits(llvm::Log2_32(numWarps)) {}

  LogicalResult run() {
    findDotLayouts();
    propagate();
    fillUnknown();
    setTypes();
    return rewrite();
  }

private:
  //===-- 1) Free values -------------------------------------------------------------------===//

  bool isFree(Value value) {
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

  //===-- 2) Layouts of fixed values -----------------------------------------------------------===//

  LinearLayout defaultFor(Type type) {
    auto tile = cast<RankedTensorType>(type);
    Type element = tile.getElementType();
    unsigned bits = element.isIntOrFloat() ? element.getIntOrFloatBitWidth() : 64;
    return defaultLayout(tile.getShape(), bits, machine.laneBits(), warpBits);
  }

  LayoutAttr memoryLayout(Value pointer, Value mask) {
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

  unsigned numWarps() const { return 1u << warpBits; }

  void findDotLayouts() {
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

  bool offer(Value value, LayoutAttr layout, Weight weight) {
    if (!isTileValue(value) || isFree(value))
      return false;
    Choice &choice = choices[value];
    if (!layout || choice.weight >= weight)
      return false;
    choice = {layout, weight};
    return true;
  }

  Choice choiceOf(Value value) { return choices.lookup(value); }

  /// The heaviest choice among operands of the result's shape.
  Choice heaviest(ValueRange operands) {
    Choice best;
    for (Value operand : operands)
      if (isTileValue(operand))
        if (Choice choice = choiceOf(operand); choice.weight > best.weight)
          best = choice;
    return best;
  }

  /// In which layout a value comes most cheaply, also a free one.
  Choice preferred(Value value) {
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

  LayoutAttr forwards(Operation *op, LayoutAttr source) {
    LinearLayout layout = LinearLayout::of(source);
    if (auto trans = dyn_cast<core::TransOp>(op))
      layout = mapped(layout, transposeImages(core::shapeOf(trans.getSource().getType()),
                                              trans.getOrder()));
    return layout.attr(kernel.getContext());
  }

  bool propagateLoop(scf::ForOp loop) {
    bool changed = false;
    for (auto [init, argument, yielded, result] :
         llvm::zip(loop.getInits(), loop.getRegionIterArgs(), loop.getYieldedValues(),
                   loop.getResults()))
      changed |= unify({init, argument, yielded, result});
    return changed;
  }

  // These values take turns in one place, so they have one layout.
  bool unify(ArrayRef<Value> values) {
    if (!isTileValue(values[0]))
      return false;
    Choice best = heaviest(values);
    bool changed = false;
    for (Value value : values)
      if (isa<BlockArgument>(value) || isa<scf::ForOp, scf::IfOp, scf::WhileOp>(value.getDefiningOp()))
        changed |= offer(value, best.layout, best.weight);
    return changed;
  }

  bool propagateWhile(scf::WhileOp loop) {
    bool changed = false;
    for (auto [init, argument, yielded] :
         llvm::zip(loop.getInits(), loop.getBeforeArguments(), loop.getYieldOp().getOperands()))
      changed |= unify({init, argument, yielded});
    for (auto [forwarded, argument, result] :
         llvm::zip(loop.getConditionOp().getArgs(), loop.getAfterArguments(), loop.getResults()))
      changed |= unify({forwarded, argument, result});
    return changed;
  }

  bool propagateIf(scf::IfOp branch) {
    bool changed = false;
    for (unsigned i = 0; i < branch.getNumResults(); ++i)
      changed |= unify({branch.thenYield().getOperand(i), branch.elseYield().getOperand(i),
                        branch.getResult(i)});
    return changed;
  }

  // A carried tile of pointers or masks takes the layout of the access that uses it.
  bool demand(Value value, LayoutAttr layout) {
    if (!value || !isTileValue(value))
      return false;
    if (isa<BlockArgument>(value))
      return offer(value, layout, Weight::Demand);
    Operation *op = value.getDefiningOp();
    if (!isElementwise(op))
      return false;
    bool changed = false;
    for (Value operand : op->getOperands())
      changed |= demand(operand, layout);
    return changed;
  }

  bool propagateMemory(Operation *op, Value pointer, Value mask) {
    LayoutAttr layout = memoryLayout(pointer, mask);
    bool changed = demand(pointer, layout);
    for (Value result : op->getResults())
      changed |= offer(result, layout, Weight::Memory);
    return changed;
  }

  bool propagateReduce(core::ReduceOp reduce) {
    Choice source = combineSource(reduce.getSources());
    bool changed = false;
    if (source.layout)
      for (Value result : reduce.getResults())
        changed |= offer(result, reducedLayout(source.layout, reduce), source.weight);
    return changed;
  }

  Choice combineSource(ValueRange sources) {
    Choice best;
    for (Value source : sources)
      if (Choice choice = preferred(source); choice.weight > best.weight)
        best = choice;
    return best;
  }

  LayoutAttr reducedLayout(LayoutAttr source, core::ReduceOp reduce) {
    ArrayRef<int64_t> shape = core::shapeOf(reduce.getSources()[0].getType());
    return withoutCopies(mapped(LinearLayout::of(source), dropAxisImages(shape, reduce.getAxis())))
        .attr(kernel.getContext());
  }

  // The axis inside registers and lanes only, so that no scan crosses warps.
  LayoutAttr scanLayout(core::ScanOp scan) {
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
  LayoutAttr splitSource(core::SplitOp split) {
    Choice source = preferred(split.getSource());
    LinearLayout layout = source.layout ? LinearLayout::of(source.layout)
                                        : defaultFor(split.getSource().getType());
    if (llvm::is_contained(layout.registers, 1) && LinearLayout(layout).contiguity() >= 2)
      return layout.attr(kernel.getContext());
    LinearLayout halves = defaultFor(split.getLhs().getType());
    return joined(halves).attr(kernel.getContext());
  }

  static LinearLayout joined(const LinearLayout &half) {
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

  static LinearLayout halved(const LinearLayout &whole) {
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

  bool propagateSplit(core::SplitOp split) {
    if (!isTileValue(split.getLhs()))
      return false;
    LayoutAttr half = halved(LinearLayout::of(splitSource(split))).attr(kernel.getContext());
    return offer(split.getLhs(), half, Weight::Plain) | offer(split.getRhs(), half, Weight::Plain);
  }

  bool propagateJoin(core::JoinOp join) {
    Choice half = heaviest({join.getLhs(), join.getRhs()});
    if (!half.layout)
      return false;
    return offer(join.getResult(),
                 joined(LinearLayout::of(half.layout)).attr(kernel.getContext()), Weight::Plain);
  }

  LayoutAttr catSource(core::CatOp cat) {
    Choice half = heaviest({cat.getLhs(), cat.getRhs()});
    return half.layout ? half.layout : defaultFor(cat.getLhs().getType()).attr(kernel.getContext());
  }

  bool propagateCat(core::CatOp cat) {
    LinearLayout layout = LinearLayout::of(catSource(cat));
    layout.registers.push_back(1 << indexBits(core::shapeOf(cat.getLhs().getType())));
    return offer(cat.getResult(), layout.attr(kernel.getContext()), Weight::Plain);
  }

  bool propagateGather(core::GatherOp gather) {
    Choice index = preferred(gather.getIndex());
    return offer(gather.getResult(),
                 index.layout ? index.layout
                              : defaultFor(gather.getType()).attr(kernel.getContext()),
                 Weight::Plain);
  }

  bool propagateOp(Operation *op) {
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

  void propagate() {
    bool changed = true;
    while (changed) {
      changed = false;
      kernel.walk<WalkOrder::PreOrder>([&](Operation *op) { changed |= propagateOp(op); });
    }
  }

  // What no anchor reaches takes the default, from which others may follow.
  void fillUnknown() {
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

  LayoutAttr reduceSource(core::ReduceOp reduce) {
    Choice source = combineSource(reduce.getSources());
    return source.layout ? source.layout
                         : defaultFor(reduce.getSources()[0].getType()).attr(kernel.getContext());
  }

  //===-- 3) Types and operands --------------------------------------------------------------------===//

  static Type encoded(Type type, LayoutAttr layout) {
    return cast<RankedTensorType>(type).cloneWithEncoding(layout);
  }

  void setTypes() {
    for (auto &[value, choice] : choices) {
      Value(value).setType(encoded(value.getType(), choice.layout));
    }
  }

  /// `value` in `layout`, made right after it, once.
  Value request(Value value, LayoutAttr layout) {
    auto key = std::make_pair(value, Attribute(layout));
    if (Value made = requests.lookup(key))
      return made;
    Value made = make(value, layout);
    requests[key] = made;
    return made;
  }

  Value make(Value value, LayoutAttr layout) {
    OpBuilder b(kernel.getContext());
    b.setInsertionPointAfterValue(value);
    if (!isFree(value)) {
      if (cast<RankedTensorType>(value.getType()).getEncoding() == layout)
        return value;
      return ConvertLayoutOp::create(b, value.getLoc(), encoded(value.getType(), layout), value);
    }
    Operation *op = value.getDefiningOp();
    SmallVector<Value> operands;
    for (Value operand : op->getOperands())
      operands.push_back(isTileValue(operand) ? request(operand, backwards(op, layout)) : operand);
    b.setInsertionPointAfter(op);
    Type type = encoded(value.getType(), layout);
    if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
      auto elements = cast<DenseElementsAttr>(constant.getValue());
      return arith::ConstantOp::create(b, op->getLoc(), elements.reshape(cast<ShapedType>(type)));
    }
    OperationState state(op->getLoc(), op->getName(), operands, {type},
                         llvm::to_vector(op->getDiscardableAttrs()));
    state.propertiesAttr = op->getPropertiesAsAttribute();
    return b.create(state)->getResult(0);
  }

  /// The layout of a moving operation's source, given its result's.
  LayoutAttr backwards(Operation *op, LayoutAttr layout) {
    LinearLayout result = LinearLayout::of(layout);
    if (auto trans = dyn_cast<core::TransOp>(op))
      result = mapped(result, transposeBackImages(core::shapeOf(trans.getSource().getType()),
                                                  trans.getOrder()));
    if (auto repeat = dyn_cast<core::BroadcastOp>(op))
      result = withoutCopies(
          mapped(result, broadcastBackImages(core::shapeOf(repeat.getSource().getType()),
                                             core::shapeOf(repeat.getType()))));
    return result.attr(kernel.getContext()); // expand_dims and reshape keep the index
  }

  void take(Operation *op, unsigned operand, LayoutAttr layout) {
    if (isTileValue(op->getOperand(operand)))
      op->setOperand(operand, request(op->getOperand(operand), layout));
  }

  void takeAll(Operation *op, LayoutAttr layout) {
    for (unsigned i = 0; i < op->getNumOperands(); ++i)
      take(op, i, layout);
  }

  LayoutAttr layoutOf(Value value) {
    return cast<LayoutAttr>(cast<RankedTensorType>(value.getType()).getEncoding());
  }

  void takeLike(Operation *op, unsigned operand, Value like) {
    if (isTileValue(like))
      take(op, operand, layoutOf(like));
  }

  void rewriteDot(core::DotOp dot) {
    DotOperandLayouts layouts = dotOperandLayouts(dot, machine, LinearLayout::of(layoutOf(dot)));
    take(dot, 0, layouts.lhs.attr(kernel.getContext()));
    take(dot, 1, layouts.rhs.attr(kernel.getContext()));
    take(dot, 2, layoutOf(dot));
  }

  // Results of matrix units need not pass through shared memory: exchanges between neighbouring
  // lanes already make runs as long as one access takes.
  LayoutAttr storeLayout(core::StoreOp store) {
    Choice value = preferred(store.getValue());
    if (value.weight != Weight::Matrix)
      return memoryLayout(store.getPointer(), store.getMask());
    LinearLayout layout = LinearLayout::of(value.layout);
    ArrayRef<int64_t> shape = core::shapeOf(store.getPointer().getType());
    unsigned fastest = axes.fastestDim(store.getPointer()), shift = axisShift(shape, fastest);
    unsigned width = axes.vectorWidth(store.getPointer(), store.getMask(), fastest);
    for (int32_t step = 1; step < int32_t(width); step *= 2) {
      int32_t wanted = step << shift;
      if (llvm::is_contained(layout.registers, wanted))
        continue;
      auto lane = llvm::find(layout.lanes, wanted);
      auto spare = llvm::find_if(layout.registers, [&](int32_t base) {
        return (base & axisMask(shape, fastest)) == base && base >= int32_t(width) << shift;
      });
      if (lane == layout.lanes.end() || spare == layout.registers.end())
        return memoryLayout(store.getPointer(), store.getMask());
      std::swap(*lane, *spare);
    }
    return layout.attr(kernel.getContext());
  }

  void rewriteYield(scf::YieldOp yield) {
    Operation *parent = yield->getParentOp();
    for (unsigned i = 0; i < yield->getNumOperands(); ++i)
      if (auto loop = dyn_cast<scf::WhileOp>(parent))
        takeLike(yield, i, loop.getBeforeArguments()[i]);
      else
        takeLike(yield, i, parent->getResult(i));
  }

  void rewriteOp(Operation *op) {
    llvm::TypeSwitch<Operation *>(op)
        .Case([&](scf::ForOp loop) {
          for (unsigned i = 0; i < loop.getNumResults(); ++i)
            takeLike(loop, loop.getNumControlOperands() + i, loop.getResult(i));
        })
        .Case([&](scf::WhileOp loop) {
          for (unsigned i = 0; i < loop->getNumOperands(); ++i)
            takeLike(loop, i, loop.getBeforeArguments()[i]);
        })
        .Case([&](scf::ConditionOp condition) {
          auto loop = cast<scf::WhileOp>(condition->getParentOp());
          for (unsigned i = 0; i < loop.getNumResults(); ++i)
            takeLike(condition, i + 1, loop.getResult(i));
        })
        .Case([&](scf::YieldOp yield) { rewriteYield(yield); })
        .Case([&](core::DotOp dot) { rewriteDot(dot); })
        .Case([&](AsyncDotOp dot) {
          ArrayRef<int64_t> lhs = core::shapeOf(dot.getLhs().getType()),
                            acc = core::shapeOf(dot.getType());
          if (!lhs.empty())
            take(dot, 0, asyncLhsLayout(lhs[0], acc[1], lhs[1], numWarps()).attr(kernel.getContext()));
          take(dot, 2, layoutOf(dot));
        })
        .Case([&](DotWaitOp wait) {
          for (unsigned i = 0; i < wait->getNumOperands(); ++i)
            takeLike(wait, i, wait.getResult(i));
        })
        .Case([&](core::LoadOp load) {
          if (isTileValue(load))
            takeAll(load, layoutOf(load));
        })
        .Case([&](core::StoreOp store) {
          if (isTileValue(store.getPointer()))
            takeAll(store, storeLayout(store));
        })
        .Case<core::AtomicRMWOp, core::AtomicCASOp>([&](auto atomic) {
          if (isTileValue(atomic.getResult()))
            takeAll(atomic, layoutOf(atomic.getResult()));
        })
        .Case([&](core::ReduceOp reduce) { takeAll(reduce, reduceSource(reduce)); })
        .Case([&](core::ScanOp scan) { takeAll(scan, layoutOf(scan.getResult(0))); })
        .Case([&](core::SplitOp split) { takeAll(split, splitSource(split)); })
        .Case([&](core::JoinOp join) {
          takeAll(join, halved(LinearLayout::of(layoutOf(join))).attr(kernel.getContext()));
        })
        .Case([&](core::CatOp cat) {
          LinearLayout half = LinearLayout::of(layoutOf(cat));
          half.registers.pop_back();
          takeAll(cat, half.attr(kernel.getContext()));
        })
        .Case([&](core::GatherOp gather) {
          take(gather, 0, defaultFor(gather.getSource().getType()).attr(kernel.getContext()));
          take(gather, 1, layoutOf(gather));
        })
        .Case<core::AssertOp, core::PrintOp>([&](Operation *use) {
          for (unsigned i = 0; i < use->getNumOperands(); ++i)
            if (Value value = use->getOperand(i); isTileValue(value)) {
              Choice best = preferred(value);
              take(use, i, best.layout ? best.layout
                                       : defaultFor(value.getType()).attr(kernel.getContext()));
            }
        })
        .Default([&](Operation *other) {
          if (isElementwise(other) && other->getNumResults() && isTileValue(other->getResult(0)))
            takeAll(other, layoutOf(other->getResult(0)));
        });
  }

  LogicalResult rewrite() {
    SmallVector<Operation *> fixed, free;
    kernel.walk<WalkOrder::PreOrder>([&](Operation *op) {
      if (op->getNumResults() == 1 && isTileValue(op->getResult(0)) && isFree(op->getResult(0)))
        free.push_back(op);
      else
        fixed.push_back(op);
    });
    for (Operation *op : fixed)
      rewriteOp(op);
    for (Operation *op : llvm::reverse(free)) {
      if (!op->use_empty())
        return op->emitError("tile operation ")
               << op->getName() << " is not supported on this target";
      op->erase();
    }
    return success();
  }

  func::FuncOp kernel;
  const Machine &machine;
  unsigned warpBits;
  AxisAnalysis axes;
  DenseMap<Value, bool> freeness;
  llvm::MapVector<Value, Choice> choices;
  DenseMap<std::pair<Value, Attribute>, Value> requests;
};

struct AssignLayouts : impl::AssignLayoutsBase<AssignLayouts> {
  using AssignLayoutsBase::AssignLayoutsBase;

  void runOnOperation() override {
    auto result = getOperation()->walk([&](func::FuncOp kernel) {
      return WalkResult(Assignment(kernel, *machine, numWarps).run());
    });
    if (result.wasInterrupted())
      signalPassFailure();
  }

  const Machine *machine = nullptr;
};

} // namespace

std::unique_ptr<Pass> createAssignLayouts(const Machine &machine, unsigned numWarps) {
  AssignLayoutsOptions options;
  options.numWarps = numWarps;
  auto pass = std::make_unique<AssignLayouts>(options);
  pass->machine = &machine;
  return pass;
}

} // namespace tilery::simt
