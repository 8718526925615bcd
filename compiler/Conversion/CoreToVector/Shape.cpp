// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Operations that rearrange elements: reshape, join, split, cat, gather.
#include "compiler/Conversion/CoreToVector/Elementwise.h"

namespace tilery::vec {

using core::shapeOf;

static RankedTensorType tileType(Value value) { return cast<RankedTensorType>(value.getType()); }

static bool isRowMajor(const Buffer &buffer) {
  int64_t stride = 1;
  for (int64_t dim = int64_t(buffer.shape.size()) - 1; dim >= 0; --dim) {
    if (buffer.shape[dim] > 1 && buffer.strides[dim] != stride)
      return false;
    stride *= buffer.shape[dim];
  }
  return true;
}

// The elements that start `offset` elements in, with some strides of the whole.
static Buffer viewOf(Lowering &lowering, const Buffer &whole, int64_t offset,
                     ArrayRef<int64_t> shape, ArrayRef<int64_t> strides) {
  Buffer view;
  view.element = whole.element;
  view.shape.assign(shape.begin(), shape.end());
  view.strides.assign(strides.begin(), strides.end());
  view.base = lowering.ptrAt(whole.base, offset * byteSize(storedType(whole.element)));
  return view;
}

LogicalResult Lowering::lowerReshape(core::ReshapeOp op) {
  auto type = tileType(op.getResult());
  if (sourceCoords(op, Coords(type.getRank())))
    return success(); // only extents of 1 come or go
  Value source = op.getSource();
  Buffer buffer;
  // The source's own memory serves when nobody else looks at it.
  if (isStored(source) && source.hasOneUse() && source.getParentBlock() == op->getBlock() &&
      isRowMajor(bufferOf(source))) {
    buffer = bufferOf(source);
  } else {
    buffer = allocate(tileType(source), loc);
    if (failed(evaluateInto(source, buffer, loc)))
      return failure();
  }
  SmallVector<int64_t> strides(type.getRank());
  int64_t stride = 1;
  for (int64_t dim = type.getRank() - 1; dim >= 0; --dim) {
    strides[dim] = stride;
    stride *= type.getDimSize(dim);
  }
  setBuffer(op, viewOf(*this, buffer, 0, type.getShape(), strides));
  return success();
}

LogicalResult Lowering::lowerJoin(core::JoinOp op) {
  Buffer whole = allocate(tileType(op.getResult()), loc);
  ArrayRef<int64_t> shape = shapeOf(op.getLhs().getType());
  auto strides = ArrayRef<int64_t>(whole.strides).drop_back();
  if (failed(evaluateInto(op.getLhs(), viewOf(*this, whole, 0, shape, strides), loc)) ||
      failed(evaluateInto(op.getRhs(), viewOf(*this, whole, 1, shape, strides), loc)))
    return failure();
  setBuffer(op, whole);
  return success();
}

LogicalResult Lowering::lowerSplit(core::SplitOp op) {
  auto whole = materialise(op.getSource(), loc);
  if (failed(whole))
    return failure();
  ArrayRef<int64_t> shape = shapeOf(op.getLhs().getType());
  for (auto [index, half] : llvm::enumerate(op->getResults())) {
    Buffer view = viewOf(*this, *whole, int64_t(index) * whole->strides.back(), shape,
                         ArrayRef<int64_t>(whole->strides).drop_back());
    if (shape.empty()) {
      Nest nest(builder, loc, 0);
      setScalar(half, loadBuffer(nest, view, {}));
      continue;
    }
    Buffer copy = allocate(tileType(half), loc);
    copyBuffer(view, copy);
    setBuffer(half, copy);
  }
  return success();
}

LogicalResult Lowering::lowerCat(core::CatOp op) {
  Buffer whole = allocate(tileType(op.getResult()), loc);
  ArrayRef<int64_t> shape = shapeOf(op.getLhs().getType());
  int64_t second = shape[0] * whole.strides[0];
  if (failed(evaluateInto(op.getLhs(), viewOf(*this, whole, 0, shape, whole.strides), loc)) ||
      failed(evaluateInto(op.getRhs(), viewOf(*this, whole, second, shape, whole.strides), loc)))
    return failure();
  setBuffer(op, whole);
  return success();
}

LogicalResult Lowering::lowerGather(core::GatherOp op) {
  auto source = materialise(op.getSource(), loc);
  if (failed(source))
    return failure();
  auto type = tileType(op.getResult());
  int64_t axis = op.getAxis(), extent = source->shape[axis];
  Buffer result = allocate(type, loc);
  forEachChunk(loc, type.getShape(), -1, 0, [&](Nest &nest, const Coords &coords) {
    Value index = evaluateWide(nest, op.getIndex(), coords);
    // Indices outside are the program's error; wrapping keeps them inside the tile.
    index = arith::AndIOp::create(builder, loc, index, i64(extent - 1));
    Coords position(coords);
    position[axis] = {index, false, nest.depth()};
    storeBuffer(nest, result, coords, loadBuffer(nest, *source, position));
  });
  setBuffer(op, result);
  return success();
}

} // namespace tilery::vec
