// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Chooses the layout of every tile; Passes.td says how.
//
// Algorithm:
//  1) values are free (cheap to compute again in any layout) or fixed;
//  2) fixed values get the best layout that reaches them, to a fixed point over loops;
//  3) fixed values get their types; operands are requested in the layout their user needs:
//     free ones are cloned, fixed ones converted, each once a layout.
#include "compiler/Target/Simt/Accesses.h"
#include "compiler/Target/Simt/LayoutChoice.h"
#include "compiler/Target/Simt/Passes.h"
#include "compiler/Target/Simt/RowStage.h"

#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace tilery::simt {
#define GEN_PASS_DEF_ASSIGNLAYOUTS
#include "compiler/Target/Simt/Passes.h.inc"

namespace {

class Assignment : LayoutChoice {
public:
  using LayoutChoice::LayoutChoice;

  LogicalResult run() {
    choose();
    setTypes();
    return rewrite();
  }

private:
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
    Operation *op = value.getDefiningOp();
    if (!isFree(value)) {
      if (cast<RankedTensorType>(value.getType()).getEncoding() == layout)
        return value;
      if (!isa_and_nonnull<arith::ExtFOp, arith::ExtSIOp, arith::ExtUIOp>(op))
        return ConvertLayoutOp::create(b, value.getLoc(), encoded(value.getType(), layout), value);
      // Fewer bytes change their place before they are widened.
    }
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

  LayoutAttr storeLayout(core::StoreOp store) {
    Choice value = preferred(store.getValue());
    return value.weight == Weight::Matrix
               ? widened(value.layout, store.getPointer(), store.getMask())
               : memoryLayout(store.getPointer(), store.getMask());
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
        .Case([&](StoreTileOp store) {
          unsigned bits = getElementTypeOrSelf(store.getValue()).getIntOrFloatBitWidth();
          RowStage stage(core::shapeOf(store.getValue().getType()), bits / 8, numWarps());
          take(store, 0, stage.tile.attr(kernel.getContext()));
        })
        .Case([&](StoreRowsOp store) {
          RowStage stage(core::shapeOf(store.getValue().getType()),
                         pointeeBytes(store.getRows().getType()), numWarps());
          take(store, 0, stage.rows.attr(kernel.getContext()));
          take(store, 1, stage.tile.attr(kernel.getContext()));
          if (store.getMask())
            take(store, 3, stage.rows.attr(kernel.getContext()));
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
        .Case([&](core::CheckBoundsOp check) {
          if (Value inside = check.getInside(); isTileValue(inside)) {
            Choice best = preferred(inside);
            takeAll(check, best.layout ? best.layout
                                       : defaultFor(inside.getType()).attr(kernel.getContext()));
          }
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
