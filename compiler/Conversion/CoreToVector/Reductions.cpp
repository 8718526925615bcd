// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// reduce and scan with any combine region. Along the lane dimension a reduction keeps one
// partial result a lane and combines the lanes at the end; along another one, lanes are
// independent results.
#include "compiler/Conversion/CoreToVector/Elementwise.h"

namespace tilery::vec {

using core::shapeOf;

namespace {

class Reduction {
public:
  Reduction(Lowering &lowering, ValueRange sources, Region &combine, int64_t axis)
      : lowering(lowering), sources(sources), combine(combine), axis(axis),
        shape(shapeOf(sources[0].getType())), laneDim(lowering.lastDim(shape)),
        lanes(laneDim < 0 ? 0 : lowering.lanesFor(shape[laneDim])) {}

  bool alongLanes() const { return laneDim == axis; }

  SmallVector<Value> values(Nest &nest, const Coords &coords, int64_t width) {
    SmallVector<Value> result;
    for (Value source : sources) {
      Value value = lowering.splat(nest.builder, nest.loc,
                                   lowering.evaluate(nest, source, coords), width);
      result.push_back(isHalf(value.getType()) ? toF32(nest.builder, nest.loc, value) : value);
    }
    return result;
  }

  SmallVector<Value> combined(Nest &nest, ValueRange left, ValueRange right) {
    SmallVector<Value> arguments(left);
    llvm::append_range(arguments, right);
    return lowering.emitCombine(nest.builder, combine, arguments);
  }

  // Rounded to the type of a source, if it was widened.
  Value result(Nest &nest, size_t index, Value value) {
    Type element = getElementTypeOrSelf(sources[index].getType());
    return isHalf(element) ? fromF32(nest.builder, nest.loc, value, element) : value;
  }

  // Loops over every dimension but the axis; `body` gets coordinates with an open axis.
  void forEachResult(llvm::function_ref<void(Nest &, Coords &)> body, int64_t width) {
    Nest nest(lowering.builder, lowering.loc, width);
    Coords coords(shape.size());
    size_t opened = 0;
    for (auto [dim, extent] : llvm::enumerate(shape)) {
      if (int64_t(dim) == axis)
        continue;
      bool lane = width && int(dim) == laneDim;
      coords[dim] = nest.open(extent, lane ? width : 1);
      coords[dim].lane = lane;
      ++opened;
    }
    body(nest, coords);
    while (opened--)
      nest.close();
  }

  // The axis in steps, carrying the partial results.
  SmallVector<Value> accumulate(Nest &nest, Coords coords) {
    bool lane = alongLanes();
    int64_t step = lane ? lanes : 1;
    coords[axis] = {Value(), lane && lanes, 0};
    SmallVector<Value> partial = values(nest, coords, lanes);
    if (shape[axis] <= step)
      return partial;
    coords[axis] = nest.open(step, shape[axis], step, partial);
    coords[axis].lane = lane;
    SmallVector<Value> carried(nest.carried());
    return nest.close(combined(nest, carried, values(nest, coords, lanes)));
  }

  // Halves until one element is left.
  SmallVector<Value> combineLanes(Nest &nest, SmallVector<Value> partial) {
    OpBuilder &b = nest.builder;
    for (int64_t width = lanes; width > 1; width /= 2) {
      SmallVector<Value> halves[2];
      for (int64_t half = 0; half < 2; ++half)
        for (Value value : partial)
          halves[half].push_back(width == 2 ? extract(b, nest.loc, value, half)
                                            : slice(b, nest.loc, value, half, width / 2));
      partial = combined(nest, halves[0], halves[1]);
    }
    return partial;
  }

private:
  static Value extract(OpBuilder &b, Location loc, Value value, int64_t index) {
    return vector::ExtractOp::create(b, loc, value, index);
  }
  static Value slice(OpBuilder &b, Location loc, Value value, int64_t half, int64_t width) {
    SmallVector<int64_t> mask;
    for (int64_t lane = 0; lane < width; ++lane)
      mask.push_back(half * width + lane);
    return vector::ShuffleOp::create(b, loc, value, value, mask);
  }

  Lowering &lowering;
  ValueRange sources;
  Region &combine;
  int64_t axis;

public:
  ArrayRef<int64_t> shape;
  int laneDim;
  int64_t lanes;
};

Coords withoutAxis(Coords coords, int64_t axis) {
  coords.erase(coords.begin() + axis);
  return coords;
}

} // namespace

LogicalResult Lowering::lowerReduce(core::ReduceOp op) {
  int64_t axis = op.getAxis();
  Reduction reduction(*this, op.getSources(), op.getCombine(), axis);
  SmallVector<Buffer> results;
  for (Value result : op.getResults())
    if (auto tile = dyn_cast<RankedTensorType>(result.getType()))
      results.push_back(allocate(tile, loc));
  bool alongLanes = reduction.alongLanes();
  auto body = [&](Nest &nest, Coords &coords) {
    SmallVector<Value> values = reduction.accumulate(nest, coords);
    if (alongLanes)
      values = reduction.combineLanes(nest, values);
    for (auto [index, partial] : llvm::enumerate(values)) {
      Value value = reduction.result(nest, index, partial);
      if (results.empty())
        setScalar(op.getResult(index), value);
      else
        storeBuffer(nest, results[index], withoutAxis(coords, axis), value);
    }
  };
  reduction.forEachResult(body, reduction.lanes);
  for (auto [result, buffer] : llvm::zip(op.getResults(), results))
    setBuffer(result, buffer);
  return success();
}

LogicalResult Lowering::lowerScan(core::ScanOp op) {
  int64_t axis = op.getAxis();
  Reduction scan(*this, op.getSources(), op.getCombine(), axis);
  int64_t extent = scan.shape[axis];
  int64_t width = scan.alongLanes() ? 0 : scan.lanes;
  SmallVector<Buffer> results;
  for (Value result : op.getResults())
    results.push_back(allocate(cast<RankedTensorType>(result.getType()), loc));
  auto store = [&](Nest &nest, const Coords &coords, ValueRange values) {
    for (auto [index, value] : llvm::enumerate(values))
      storeBuffer(nest, results[index], coords, scan.result(nest, index, value));
  };
  auto body = [&](Nest &nest, Coords &coords) {
    coords[axis] = {op.getReverse() && extent > 1 ? i64(extent - 1) : Value(), false,
                    nest.depth()};
    SmallVector<Value> prefix = scan.values(nest, coords, width);
    store(nest, coords, prefix);
    if (extent == 1)
      return;
    Coord step = nest.open(1, extent, 1, prefix);
    coords[axis] = step;
    if (op.getReverse()) {
      // With two elements there is no loop, and the only step has a constant position.
      coords[axis].base = arith::SubIOp::create(builder, loc, i64(extent - 1), step.base);
      coords[axis].level = nest.depth();
    }
    SmallVector<Value> carried(nest.carried());
    SmallVector<Value> next = scan.combined(nest, carried, scan.values(nest, coords, width));
    store(nest, coords, next);
    nest.close(next);
  };
  scan.forEachResult(body, width);
  for (auto [result, buffer] : llvm::zip(op.getResults(), results))
    setBuffer(result, buffer);
  return success();
}

} // namespace tilery::vec
