// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Operations that make or move elements: which register of the source is which of the result.
#include "compiler/Conversion/MathExpansion/MathExpansion.h"
#include "compiler/Target/Simt/Lowering.h"

#include "llvm/ADT/TypeSwitch.h"

namespace tilery::simt {

LogicalResult Lowering::lowerRange(core::RangeOp op) {
  LinearLayout layout = layoutOf(op.getResult());
  int32_t start = int32_t(op.getStart());
  Elements list;
  for (unsigned r = 0; r < layout.numRegisters(); ++r) {
    Value index = elementIndex(layout, r);
    list.push_back(start ? Value(arith::AddIOp::create(b, loc, index, i32(start))) : index);
  }
  define(op.getResult(), std::move(list));
  return success();
}

// Elements that differ lie in a constant array from which each thread reads its own.
static Value constantArray(LLVM::LLVMFuncOp function, OpBuilder &b, DenseElementsAttr elements) {
  auto module = function->getParentOfType<ModuleOp>();
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(module.getBody());
  std::string name;
  for (unsigned i = 0; module.lookupSymbol(name = "tilery_constant_" + std::to_string(i)); ++i)
    ;
  auto type = LLVM::LLVMArrayType::get(elements.getElementType(), unsigned(elements.size()));
  auto flat = elements.reshape(
      RankedTensorType::get({int64_t(elements.size())}, elements.getElementType()));
  auto global = LLVM::GlobalOp::create(b, function.getLoc(), type, true, LLVM::Linkage::Internal,
                                       name, flat, 16, 1);
  b.setInsertionPointToStart(&function.getBody().front());
  return LLVM::AddressOfOp::create(b, function.getLoc(), global);
}

Value Lowering::emitConstant(TypedAttr value) {
  if (isFp8(value.getType()))
    value = b.getIntegerAttr(b.getI8Type(), cast<FloatAttr>(value).getValue().bitcastToAPInt());
  return arith::ConstantOp::create(b, loc, value);
}

// As memory holds them: booleans in bytes, fp8 as its bits.
static DenseElementsAttr storedElements(DenseElementsAttr elements) {
  Type element = elements.getElementType(), i8 = IntegerType::get(elements.getContext(), 8);
  if (element.isInteger(1))
    return elements.mapValues(i8, [](const APInt &value) { return value.zext(8); });
  return isFp8(element) ? elements.bitcast(i8) : elements;
}

LogicalResult Lowering::lowerConstant(arith::ConstantOp op) {
  auto elements = dyn_cast<DenseElementsAttr>(op.getValue());
  if (!elements) {
    define(op, {emitConstant(cast<TypedAttr>(op.getValue()))});
    return success();
  }
  LinearLayout layout = layoutOf(op);
  Elements list;
  if (elements.isSplat()) {
    auto value = cast<TypedAttr>(elements.getSplatValue<Attribute>());
    list.assign(layout.numRegisters(), emitConstant(value));
  } else {
    DenseElementsAttr stored = storedElements(elements);
    Value array = constantArray(function, b, stored);
    for (unsigned r = 0; r < layout.numRegisters(); ++r) {
      Value address = LLVM::GEPOp::create(b, loc, array.getType(), stored.getElementType(), array,
                                          ArrayRef<LLVM::GEPArg>{elementIndex(layout, r)});
      Value raw = LLVM::LoadOp::create(b, loc, stored.getElementType(), address);
      list.push_back(fromStored(raw, loweredElement(elements.getElementType())));
    }
  }
  define(op, std::move(list));
  return success();
}

// Register r of the result holds element e; its source element is images(e). The source has the
// projected layout (AssignLayouts), so the source's register follows from r alone.
LogicalResult Lowering::lowerMove(Operation *op, ArrayRef<int32_t> images) {
  Value source = op->getOperand(0), result = op->getResult(0);
  LinearLayout from = layoutOf(source), to = layoutOf(result);
  LinearLayout projected = mapped(to, images);
  Span span(from.registers);
  Elements list;
  for (unsigned r = 0; r < to.numRegisters(); ++r) {
    auto registers = span.express(projected.ofRegister(r));
    if (!registers)
      return op->emitError("layouts of source and result do not fit; this is a bug in tilery");
    list.push_back(elements(source)[*registers]);
  }
  define(result, std::move(list));
  return success();
}

static SmallVector<int32_t> identityImages(ArrayRef<int64_t> shape) {
  SmallVector<int32_t> images;
  for (unsigned bit = 0; bit < indexBits(shape); ++bit)
    images.push_back(1 << bit);
  return images;
}

LogicalResult Lowering::lowerShape(Operation *op) {
  auto shape = [](Value value) { return core::shapeOf(value.getType()); };
  return llvm::TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](core::RangeOp range) { return lowerRange(range); })
      .Case([&](core::SplatOp splat) {
        define(splat, Elements(layoutOf(splat).numRegisters(), scalar(splat.getSource())));
        return success();
      })
      .Case([&](core::BroadcastOp repeat) {
        return lowerMove(op, broadcastBackImages(shape(repeat.getSource()), shape(repeat)));
      })
      .Case<core::ExpandDimsOp, core::ReshapeOp>(
          [&](auto) { return lowerMove(op, identityImages(shape(op->getResult(0)))); })
      .Case([&](core::TransOp trans) {
        return lowerMove(op, transposeBackImages(shape(trans.getSource()), trans.getOrder()));
      })
      .Case([&](core::JoinOp join) { // bit 0 of the register chooses the half
        Elements list;
        for (auto [left, right] : llvm::zip(elements(join.getLhs()), elements(join.getRhs())))
          list.append({left, right});
        define(join, std::move(list));
        return success();
      })
      .Case([&](core::SplitOp split) {
        LinearLayout whole = layoutOf(split.getSource());
        unsigned bit = unsigned(llvm::find(whole.registers, 1) - whole.registers.begin());
        Elements halves[2];
        for (unsigned r = 0; r < whole.numRegisters(); ++r)
          halves[r >> bit & 1].push_back(elements(split.getSource())[r]);
        define(split.getLhs(), std::move(halves[0]));
        define(split.getRhs(), std::move(halves[1]));
        return success();
      })
      .Case([&](core::CatOp cat) { // the last register bit chooses the half
        Elements list = elements(cat.getLhs());
        llvm::append_range(list, elements(cat.getRhs()));
        define(cat, std::move(list));
        return success();
      })
      .Default([](Operation *) { return failure(); });
}

// Through shared memory: the source in row-major order, each thread reads what its index names.
LogicalResult Lowering::lowerGather(core::GatherOp op) {
  auto type = cast<RankedTensorType>(op.getSource().getType());
  ArrayRef<int64_t> from = type.getShape(), to = core::shapeOf(op.getType());
  Type element = type.getElementType();
  int64_t bytes = (storedType(loweredElement(element)).getIntOrFloatBitWidth() + 7) / 8;
  FailureOr<Value> base = scratch(type.getNumElements() * bytes);
  if (failed(base))
    return failure();
  storeShared(*base, layoutOf(op.getSource()), elements(op.getSource()), {});
  scratchWritten();
  LinearLayout layout = layoutOf(op.getResult());
  unsigned axis = op.getAxis(), shift = axisShift(from, axis);
  Elements list;
  for (unsigned r = 0; r < layout.numRegisters(); ++r) {
    // The result's index with the coordinate along the axis taken out, in the source's shape.
    Value index = elementIndex(layout, r);
    unsigned low = axisShift(to, axis), width = unsigned(llvm::Log2_64(uint64_t(to[axis])));
    unsigned fromWidth = unsigned(llvm::Log2_64(uint64_t(from[axis])));
    Value below = arith::AndIOp::create(b, loc, index, i32((1 << low) - 1));
    Value above = arith::ShRUIOp::create(b, loc, index, i32(low + width));
    above = arith::ShLIOp::create(b, loc, above, i32(shift + fromWidth));
    Value at = elements(op.getIndex())[r];
    if (at.getType().getIntOrFloatBitWidth() > 32)
      at = arith::TruncIOp::create(b, loc, b.getI32Type(), at);
    else if (at.getType().getIntOrFloatBitWidth() < 32)
      at = arith::ExtSIOp::create(b, loc, b.getI32Type(), at);
    at = arith::AndIOp::create(b, loc, at, i32(from[axis] - 1)); // never outside of the tile
    at = arith::ShLIOp::create(b, loc, at, i32(shift));
    Value sum = arith::AddIOp::create(b, loc, arith::AddIOp::create(b, loc, above, at), below);
    Value address = sharedAddress(*base, arith::MulIOp::create(b, loc, sum, i32(bytes)));
    list.push_back(fromStored(
        LLVM::LoadOp::create(b, loc, storedType(loweredElement(element)), address),
        loweredElement(element)));
  }
  scratchRead();
  define(op, std::move(list));
  return success();
}

} // namespace tilery::simt
