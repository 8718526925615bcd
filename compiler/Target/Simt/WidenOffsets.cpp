// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Offsets of pointers in 64 bits.
#include "compiler/Target/Simt/Passes.h"

#include "compiler/Dialect/Core/IR/Core.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace tilery::simt {
#define GEN_PASS_DEF_WIDENOFFSETS
#include "compiler/Target/Simt/Passes.h.inc"

namespace {

class Widener {
public:
  /// `value` (i32 or narrower, signed) as i64, its sums and products redone.
  Value widen(Value value) {
    if (getElementTypeOrSelf(value.getType()).isInteger(64))
      return value;
    Value &wide = known[value];
    if (!wide) {
      Value made = compute(value); // may rehash `known`
      known[value] = made;
      return made;
    }
    return wide;
  }

private:
  static Type wideType(Value value) {
    Type i64 = IntegerType::get(value.getContext(), 64);
    return core::withElement(value.getType(), i64);
  }

  Value compute(Value value) {
    Operation *op = value.getDefiningOp();
    bool follows = isa_and_nonnull<arith::AddIOp, arith::SubIOp, arith::MulIOp, core::SplatOp,
                                   core::BroadcastOp, core::ExpandDimsOp, core::TransOp,
                                   core::HintOp, core::ReshapeOp>(op);
    OpBuilder b(value.getContext());
    if (!follows) {
      b.setInsertionPointAfterValue(value);
      return arith::ExtSIOp::create(b, value.getLoc(), wideType(value), value);
    }
    SmallVector<Value> operands;
    for (Value operand : op->getOperands())
      operands.push_back(widen(operand));
    b.setInsertionPointAfter(op);
    OperationState state(op->getLoc(), op->getName(), operands, {wideType(value)}, {});
    for (NamedAttribute attr : op->getAttrs())
      if (attr.getName() != "overflowFlags")
        state.addAttribute(attr.getName(), attr.getValue());
    state.propertiesAttr = op->getPropertiesAsAttribute();
    return b.create(state)->getResult(0);
  }

  DenseMap<Value, Value> known;
};

struct WidenOffsets : impl::WidenOffsetsBase<WidenOffsets> {
  void runOnOperation() override {
    Widener widener;
    getOperation()->walk([&](core::AddPtrOp op) {
      op.getOffsetMutable().assign(widener.widen(op.getOffset()));
    });
  }
};

} // namespace
} // namespace tilery::simt
