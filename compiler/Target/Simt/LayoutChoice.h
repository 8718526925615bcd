// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Which layout every tile of a kernel gets (steps 1 and 2 of AssignLayouts).
#pragma once

#include "compiler/Target/Simt/AxisInfo.h"
#include "compiler/Target/Simt/DotLayout.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/MathExtras.h"

namespace tilery::simt {

using namespace mlir;

/// How dear it is to give a value up in this layout.
enum class Weight { None, Default, Demand, Plain, Memory, Matrix };

struct Choice {
  LayoutAttr layout;
  Weight weight = Weight::None;
};

inline bool isTileValue(Value value) { return isa<RankedTensorType>(value.getType()); }
/// The result has the elements of one operand, moved or repeated.
bool onlyMoves(Operation *op);
bool isElementwise(Operation *op);

class LayoutChoice {
public:
  LayoutChoice(func::FuncOp kernel, const Machine &machine, unsigned numWarps)
      : kernel(kernel), machine(machine), warpBits(llvm::Log2_32(numWarps)) {}

  void choose() {
    findDotLayouts();
    propagate();
    if (adaptLoads()) {
      choices.clear();
      findDotLayouts();
      propagate();
    }
    fillUnknown();
  }

protected:
  bool isFree(Value value);

  LinearLayout defaultFor(Type type);

  LayoutAttr memoryLayout(Value pointer, Value mask);

  /// The layout of a product's result with lanes and registers exchanged until accesses are wide;
  /// that of the memory when this does not help.
  LayoutAttr widened(LayoutAttr product, Value pointer, Value mask);

  /// Loads that are combined with results of products only get a layout near that of the product.
  /// True when there are any.
  bool adaptLoads();

  unsigned numWarps() const { return 1u << warpBits; }

  void findDotLayouts();

  bool offer(Value value, LayoutAttr layout, Weight weight);

  Choice choiceOf(Value value) { return choices.lookup(value); }

  /// The heaviest choice among operands of the result's shape.
  Choice heaviest(ValueRange operands);

  /// In which layout a value comes most cheaply, also a free one.
  Choice preferred(Value value);

  LayoutAttr forwards(Operation *op, LayoutAttr source);

  bool propagateLoop(scf::ForOp loop);

  // These values take turns in one place, so they have one layout.
  bool unify(ArrayRef<Value> values);

  bool propagateWhile(scf::WhileOp loop);

  bool propagateIf(scf::IfOp branch);

  // A carried tile of pointers or masks takes the layout of the access that uses it.
  bool demand(Value value, LayoutAttr layout);

  bool propagateMemory(Operation *op, Value pointer, Value mask);

  bool propagateReduce(core::ReduceOp reduce);

  Choice combineSource(ValueRange sources);

  LayoutAttr reducedLayout(LayoutAttr source, core::ReduceOp reduce);

  // The axis inside registers and lanes only, so that no scan crosses warps.
  LayoutAttr scanLayout(core::ScanOp scan);

  // Halves of a tile whose last dimension lies in a register bit.
  LayoutAttr splitSource(core::SplitOp split);

  static LinearLayout joined(const LinearLayout &half);

  static LinearLayout halved(const LinearLayout &whole);

  bool propagateSplit(core::SplitOp split);

  bool propagateJoin(core::JoinOp join);

  LayoutAttr catSource(core::CatOp cat);

  bool propagateCat(core::CatOp cat);

  bool propagateGather(core::GatherOp gather);

  bool propagateOp(Operation *op);

  void propagate();

  // What no anchor reaches takes the default, from which others may follow.
  void fillUnknown();

  LayoutAttr reduceSource(core::ReduceOp reduce);

  func::FuncOp kernel;
  const Machine &machine;
  unsigned warpBits;
  AxisAnalysis axes;
  DenseMap<Value, bool> freeness;
  llvm::MapVector<Value, Choice> choices;
  DenseMap<Operation *, LayoutAttr> adapted; ///< loads near products
};

} // namespace tilery::simt
