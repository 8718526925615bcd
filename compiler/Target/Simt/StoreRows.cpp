// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Finds the stores of products' results that can leave by copies of rows; Passes.td says which.
#include "compiler/Dialect/Device/IR/Device.h"
#include "compiler/Target/Simt/Accesses.h"
#include "compiler/Target/Simt/AxisInfo.h"
#include "compiler/Target/Simt/LayoutChoice.h"
#include "compiler/Target/Simt/Passes.h"
#include "compiler/Target/Simt/RingMemory.h"
#include "compiler/Target/Simt/RowStage.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace tilery::simt {
#define GEN_PASS_DEF_STOREROWS
#include "compiler/Target/Simt/Passes.h.inc"

namespace {

/// Of an elementwise operation on tiles, the same on parts of them.
Value onParts(OpBuilder &b, Operation *op, ValueRange operands, Type type) {
  OperationState state(op->getLoc(), op->getName(), operands, {type},
                       llvm::to_vector(op->getDiscardableAttrs()));
  state.propertiesAttr = op->getPropertiesAsAttribute();
  return b.create(state)->getResult(0);
}

/// Rebuilds values from those that they are computed of; null where that needs more than is cheap.
class Parts {
public:
  explicit Parts(OpBuilder &b) : b(b) {}

  /// The first element of a tile.
  Value first(Value tile) {
    if (!isTileValue(tile))
      return tile;
    Operation *op = tile.getDefiningOp();
    if (!op)
      return {};
    if (isa<core::SplatOp, core::BroadcastOp, core::ExpandDimsOp, core::HintOp>(op))
      return first(op->getOperand(0));
    if (auto range = dyn_cast<core::RangeOp>(op))
      return arith::ConstantIntOp::create(b, op->getLoc(), int32_t(range.getStart()), 32);
    DenseElementsAttr constant;
    if (matchPattern(tile, m_Constant(&constant)))
      return constant.isSplat() ? Value(arith::ConstantOp::create(
                                      b, op->getLoc(), constant.getSplatValue<TypedAttr>()))
                                : Value();
    return elementwise(op, getElementTypeOrSelf(tile), [&](Value operand) { return first(operand); });
  }

  /// The first element of each row.
  Value column(Value tile) {
    if (!isTileValue(tile))
      return tile;
    auto type = cast<RankedTensorType>(tile.getType());
    auto narrow = RankedTensorType::get({type.getDimSize(0)}, type.getElementType());
    Operation *op = tile.getDefiningOp();
    if (!op)
      return {};
    if (auto expanded = dyn_cast<core::ExpandDimsOp>(op); expanded && expanded.getAxis() == 1)
      return expanded.getSource();
    if (auto repeated = dyn_cast<core::BroadcastOp>(op);
        repeated && core::shapeOf(repeated.getSource().getType())[0] == type.getDimSize(0))
      return column(repeated.getSource());
    if (isa<core::HintOp>(op))
      return column(op->getOperand(0));
    if (isElementwise(op) && !isa<arith::ConstantOp>(op))
      return elementwise(op, narrow, [&](Value operand) { return column(operand); });
    Value same = uniformColumn(op) ? first(tile) : Value();
    return same ? Value(core::SplatOp::create(b, op->getLoc(), narrow, same)) : Value();
  }

private:
  /// Whether all rows start alike.
  static bool uniformColumn(Operation *op) {
    return isa<core::SplatOp, core::BroadcastOp, core::ExpandDimsOp, arith::ConstantOp>(op);
  }

  Value elementwise(Operation *op, Type type, llvm::function_ref<Value(Value)> part) {
    if (!isElementwise(op) || op->getNumResults() != 1)
      return {};
    SmallVector<Value> operands;
    for (Value operand : op->getOperands()) {
      Value made = part(operand);
      if (!made)
        return {};
      operands.push_back(made);
    }
    return onParts(b, op, operands, type);
  }

  OpBuilder &b;
};

/// A mask that takes away whole rows and ends of rows.
class RowMask {
public:
  RowMask(OpBuilder &b, AxisAnalysis &axes, int64_t width) : b(b), axes(axes), width(width) {}

  /// `tile` is part of the mask; its dimensions that count rows and columns are -1 when it has none.
  bool read(Value tile, int rows, int columns) {
    if (isAllTrue(tile))
      return true;
    Operation *op = tile.getDefiningOp();
    if (auto both = dyn_cast_or_null<arith::AndIOp>(op))
      return read(both.getLhs(), rows, columns) && read(both.getRhs(), rows, columns);
    if (auto same = dyn_cast_or_null<core::SplatOp>(op))
      return always(same.getSource());
    if (auto repeated = dyn_cast_or_null<core::BroadcastOp>(op)) {
      ArrayRef<int64_t> shape = core::shapeOf(repeated.getSource().getType());
      return read(repeated.getSource(), rows >= 0 && shape[size_t(rows)] == 1 ? -1 : rows,
                  columns >= 0 && shape[size_t(columns)] == 1 ? -1 : columns);
    }
    if (auto expanded = dyn_cast_or_null<core::ExpandDimsOp>(op)) {
      int axis = int(expanded.getAxis());
      auto before = [&](int dim) { return dim == axis ? -1 : dim > axis ? dim - 1 : dim; };
      return read(expanded.getSource(), before(rows), before(columns));
    }
    if (rows >= 0 && columns < 0 && core::shapeOf(tile.getType()).size() == 1)
      return ofRows(tile);
    return columns >= 0 && rows < 0 && ofColumns(op, unsigned(columns));
  }

  /// How many elements of each row are stored, i32.
  Value count(Location loc) {
    Value all = arith::ConstantIntOp::create(b, loc, width, 64);
    Value none = arith::ConstantIntOp::create(b, loc, 0, 64);
    Value least = all;
    for (Value end : ends)
      least = arith::MinSIOp::create(b, loc, least, end);
    least = arith::MaxSIOp::create(b, loc, least, none);
    for (Value condition : conditions)
      least = arith::SelectOp::create(b, loc, condition, least, none);
    return arith::TruncIOp::create(b, loc, b.getI32Type(), least);
  }

  Value rowMask; ///< null: all rows

private:
  bool always(Value condition) {
    conditions.push_back(condition);
    return true;
  }

  bool ofRows(Value tile) {
    rowMask = rowMask ? arith::AndIOp::create(b, tile.getLoc(), rowMask, tile).getResult() : tile;
    return true;
  }

  // index < end, of indices that count up along the row: the first `end - index[0]` hold.
  bool ofColumns(Operation *op, unsigned dim) {
    auto compared = dyn_cast_or_null<arith::CmpIOp>(op);
    if (!compared)
      return false;
    Value index = compared.getLhs(), end = compared.getRhs();
    auto predicate = compared.getPredicate();
    bool exchanged = predicate == arith::CmpIPredicate::sgt || predicate == arith::CmpIPredicate::sge;
    if (exchanged)
      std::swap(index, end);
    bool inclusive = predicate == arith::CmpIPredicate::sle || predicate == arith::CmpIPredicate::sge;
    if (!exchanged && !inclusive && predicate != arith::CmpIPredicate::slt)
      return false;
    if (axes.of(index).contiguity[dim] < width || axes.of(end).constancy[dim] < width)
      return false;
    Parts parts(b);
    Value start = wide(parts.first(index)), stop = wide(parts.first(end));
    if (!start || !stop)
      return false;
    Location loc = op->getLoc();
    Value length = arith::SubIOp::create(b, loc, stop, start);
    if (inclusive)
      length = arith::AddIOp::create(b, loc, length, arith::ConstantIntOp::create(b, loc, 1, 64));
    ends.push_back(length);
    return true;
  }

  Value wide(Value index) {
    if (!index || index.getType().isInteger(64))
      return index;
    return arith::ExtSIOp::create(b, index.getLoc(), b.getI64Type(), index);
  }

  OpBuilder &b;
  AxisAnalysis &axes;
  int64_t width;
  SmallVector<Value> conditions, ends;
};

/// Whether memory of another rank is written.
bool isOfPeer(Value pointer) {
  SmallVector<Value> pending = {pointer};
  while (!pending.empty()) {
    Operation *op = pending.pop_back_val().getDefiningOp();
    if (isa_and_nonnull<device::SymmAtOp>(op))
      return true;
    if (isa_and_nonnull<core::AddPtrOp, core::SplatOp, core::BroadcastOp, core::ExpandDimsOp,
                        core::HintOp, core::PtrCastOp>(op))
      pending.push_back(op->getOperand(0));
  }
  return false;
}

class Rows {
public:
  Rows(func::FuncOp kernel, const Machine &machine, unsigned numWarps)
      : kernel(kernel), machine(machine), numWarps(numWarps) {}

  void run() {
    kernel.walk([&](AsyncDotOp dot) { products.push_back(core::shapeOf(dot.getType())); });
    if (products.empty())
      return;
    SmallVector<core::StoreOp> stores;
    kernel.walk([&](core::StoreOp store) { stores.push_back(store); });
    for (core::StoreOp store : stores)
      if (int64_t columns = stagedColumns(store))
        convert(store, columns);
  }

private:
  /// Of each warp at a time, as many as there is memory for; 0 when the store stays as it is.
  int64_t stagedColumns(core::StoreOp store) {
    ArrayRef<int64_t> shape = core::shapeOf(store.getValue().getType());
    Type element = getElementTypeOrSelf(store.getValue());
    unsigned bytes = pointeeBytes(store.getPointer().getType());
    if (!llvm::is_contained(products, shape) || !element.isIntOrFloat() || (bytes != 2 && bytes != 4))
      return 0;
    Value pointer = store.getPointer();
    if (!isOfPeer(pointer))
      return 0;
    if (axes.of(pointer).contiguity[1] < shape[1] ||
        axes.vectorWidth(pointer, isAllTrue(store.getMask()) ? Value() : store.getMask(), 1) * bytes < 16)
      return 0;
    RowStage stage(shape, bytes, numWarps);
    constexpr int64_t leastBytes = 128; // of a row, so that copies are worth their start
    int64_t used = ringMemory(kernel).bytes + RowStage::boxBytes + (stage.bytesOfPost() + 16) * stage.warps();
    for (int64_t staged = stage.columns; staged * bytes >= leastBytes; staged /= 2)
      if (used + stage.bytesOfRows(staged) * stage.warps() <= machine.sharedBytes())
        return staged;
    return 0;
  }

  void convert(core::StoreOp store, int64_t columns) {
    OpBuilder b(store);
    RowMask mask(b, axes, core::shapeOf(store.getValue().getType())[1]);
    Value starts = Parts(b).column(store.getPointer());
    if (!starts || (store.getMask() && !mask.read(store.getMask(), 0, 1)))
      return; // what was made for it is dead
    StoreRowsOp::create(b, store.getLoc(), starts, store.getValue(), mask.count(store.getLoc()),
                        mask.rowMask, columns);
    store.erase();
  }

  func::FuncOp kernel;
  const Machine &machine;
  unsigned numWarps;
  AxisAnalysis axes;
  SmallVector<ArrayRef<int64_t>> products;
};

struct StoreRows : impl::StoreRowsBase<StoreRows> {
  using StoreRowsBase::StoreRowsBase;

  void runOnOperation() override {
    if (machine->copiesStores())
      getOperation()->walk([&](func::FuncOp kernel) { Rows(kernel, *machine, numWarps).run(); });
  }

  const Machine *machine = nullptr;
};

} // namespace

std::unique_ptr<Pass> createStoreRows(const Machine &machine, unsigned numWarps) {
  StoreRowsOptions options;
  options.numWarps = numWarps;
  auto pass = std::make_unique<StoreRows>(options);
  pass->machine = &machine;
  return pass;
}

} // namespace tilery::simt
