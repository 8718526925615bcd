// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Tiles that a thread computes again instead of keeping them in registers: Passes.td says which.
//
// Algorithm, for each loop that reads whole tiles from slots:
//  1) a reduction ends a section of the body: its threads meet;
//  2) a use in a later section than its definition, or in the loop of a definition before it, gets a copy of
//     what leads to the tile from slots, from halves loaded before the loop, and from small tiles;
//  3) copies are shared within a section.
#include "compiler/Target/Simt/IR/Simt.h"
#include "compiler/Target/Simt/LinearLayout.h"
#include "compiler/Target/Simt/Passes.h"

#include "llvm/ADT/MapVector.h"

using namespace mlir;

namespace tilery::simt {
#define GEN_PASS_DEF_RECOMPUTETILES
#include "compiler/Target/Simt/Passes.h.inc"

namespace {

class LoopTiles {
public:
  LoopTiles(scf::ForOp loop, unsigned smallest) : loop(loop), smallest(smallest) {}

  void run() {
    if (!llvm::any_of(*loop.getBody(), [&](Operation &op) {
          return isa<ReadSlotOp>(op) && isLarge(op.getResult(0));
        }))
      return;
    unsigned section = 0;
    for (Operation &op : *loop.getBody()) { // copies come before the operation that is looked at
      sections[&op] = section;
      for (OpOperand &operand : op.getOpOperands())
        if (Value copy = copyFor(operand.get(), &op, section))
          operand.set(copy);
      if (isa<core::ReduceOp>(op)) {
        ++section;
        copies.clear();
      }
    }
  }

private:
  bool isLarge(Value value) const {
    auto tile = dyn_cast<RankedTensorType>(value.getType());
    return tile && tile.getEncoding() && !tile.getElementType().isInteger(1) &&
           LinearLayout::of(tile).numRegisters() >= smallest;
  }

  bool isOutside(Value value) const { return loop.isDefinedOutsideOfLoop(value); }

  /// A tile of halves that was loaded before the loop: it stays, as words.
  bool isHalves(Value value) const {
    Type element = getElementTypeOrSelf(value.getType());
    return isOutside(value) && value.getDefiningOp<core::LoadOp>() &&
           (element.isBF16() || element.isF16()) && isLarge(value);
  }

  static bool isCheap(Operation *op) {
    return isa<arith::ExtFOp, arith::AddFOp, arith::SubFOp, arith::MulFOp, arith::SelectOp,
               core::ExpandDimsOp>(op);
  }

  /// Whether `value` comes in at most so many steps from where it can be had at any time.
  bool canCompute(Value value, unsigned steps) const {
    if (!isLarge(value) || isHalves(value) || isSpread(value))
      return true;
    Operation *op = value.getDefiningOp();
    if (auto read = dyn_cast_or_null<ReadSlotOp>(op))
      return op->getBlock() == loop.getBody();
    return op && steps && isCheap(op) &&
           llvm::all_of(op->getOperands(), [&](Value operand) { return canCompute(operand, steps - 1); });
  }

  /// The same element on all registers, or none of the loop's: nothing to keep.
  bool isSpread(Value value) const {
    Operation *op = value.getDefiningOp();
    if (isa_and_nonnull<core::SplatOp, arith::ConstantOp>(op))
      return true;
    auto repeat = dyn_cast_or_null<core::BroadcastOp>(op);
    return repeat && !isLarge(repeat.getSource());
  }

  /// From halves before the loop, by operations that have left the loop.
  bool hasLeft(Value value) const {
    Operation *op = value.getDefiningOp();
    return isOutside(value) && op && isCheap(op);
  }

  /// Null where `value` stays as it is.
  Value copyFor(Value value, Operation *user, unsigned section) {
    if (!isLarge(value) || isSpread(value))
      return {};
    Operation *op = value.getDefiningOp();
    constexpr unsigned mostSteps = 6;
    bool isEarlier = op && op->getBlock() == loop.getBody() && sections.lookup(op) < section;
    if (!isHalves(value) && ((!isEarlier && !hasLeft(value)) || !canCompute(value, mostSteps)))
      return {};
    return copy(value, user);
  }

  Value copy(Value value, Operation *before) {
    if (!isLarge(value) || isSpread(value))
      return value;
    Value &known = copies[value];
    if (known)
      return known;
    OpBuilder b(before);
    if (isHalves(value)) {
      known = KeepWordsOp::create(b, value.getLoc(), value.getType(), value);
      return known;
    }
    IRMapping map;
    Operation *op = value.getDefiningOp();
    for (Value operand : op->getOperands())
      map.map(operand, copy(operand, before));
    Value made = b.clone(*op, map)->getResult(0);
    return copies[value] = made; // `known` may have moved
  }

  mutable scf::ForOp loop;
  unsigned smallest;
  DenseMap<Operation *, unsigned> sections;
  DenseMap<Value, Value> copies; ///< of this section
};

struct RecomputeTiles : impl::RecomputeTilesBase<RecomputeTiles> {
  using RecomputeTilesBase::RecomputeTilesBase;

  void runOnOperation() override {
    // A tile counts as large from a quarter of a thread's registers on.
    constexpr unsigned registersOfProcessor = 65536, lanes = 32;
    unsigned smallest = std::max(registersOfProcessor / lanes / std::max(unsigned(numWarps), 8u) / 4, 16u);
    getOperation()->walk([&](scf::ForOp loop) { LoopTiles(loop, smallest).run(); });
  }
};

} // namespace
} // namespace tilery::simt
