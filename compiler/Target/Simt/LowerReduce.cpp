// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Reductions in three steps: the registers of a thread, the lanes of a warp, the warps.
#include "compiler/Target/Simt/Lowering.h"

#include "llvm/Support/MathExtras.h"

namespace tilery::simt {

namespace {
/// Which bits of lane and warp numbers run along the reduced axis.
struct AxisBits {
  SmallVector<unsigned> lanes, warps;

  AxisBits(const LinearLayout &layout, int32_t mask) {
    for (auto [i, base] : llvm::enumerate(layout.lanes))
      if (base & mask)
        lanes.push_back(unsigned(i));
    for (auto [i, base] : llvm::enumerate(layout.warps))
      if (base & mask)
        warps.push_back(unsigned(i));
  }
};
} // namespace

// Partial results of several sources, register by register of the result: list[source][register].
LogicalResult Lowering::lowerReduce(core::ReduceOp op) {
  auto type = cast<RankedTensorType>(op.getSources()[0].getType());
  ArrayRef<int64_t> shape = type.getShape();
  LinearLayout layout = layoutOf(op.getSources()[0]);
  int32_t mask = axisMask(shape, op.getAxis());
  LinearLayout projected = mapped(layout, dropAxisImages(shape, op.getAxis()));
  SmallVector<unsigned> target; // the result's register of each register of the source
  LinearLayout result = withoutCopies(projected, &target);

  auto input = [&](unsigned source, unsigned r) {
    Value value = elements(op.getSources()[source])[r];
    Type element = getElementTypeOrSelf(op.getSources()[source].getType());
    return isHalf(element) ? toF32(value, element) : value; // rounded once, at the end
  };
  unsigned count = op.getSources().size();
  // Registers, as a balanced tree in the order of elements.
  SmallVector<SmallVector<Elements>> groups(result.numRegisters());
  for (unsigned r = 0; r < layout.numRegisters(); ++r) {
    Elements tuple;
    for (unsigned source = 0; source < count; ++source)
      tuple.push_back(input(source, r));
    groups[target[r]].push_back(tuple);
  }
  // Registers that are copies of one another would be counted twice.
  if (withoutCopies(layout).registers.size() != layout.registers.size())
    return op.emitError("a layout repeats elements in registers; this is a bug in tilery");
  SmallVector<Elements> partial; // of each result register
  for (SmallVector<Elements> &group : groups) {
    while (group.size() > 1) {
      SmallVector<Elements> next;
      for (size_t i = 0; i + 1 < group.size(); i += 2)
        next.push_back(combinePair(op.getCombine(), group[i], group[i + 1]));
      if (group.size() % 2)
        next.push_back(group.back());
      group = std::move(next);
    }
    partial.push_back(group[0]);
  }
  AxisBits bits(layout, mask);
  for (unsigned laneBit : bits.lanes)
    for (Elements &tuple : partial) {
      Elements other;
      for (Value value : tuple)
        other.push_back(shuffleXor(value, 1u << laneBit));
      tuple = combinePair(op.getCombine(), tuple, other);
    }
  if (!bits.warps.empty()) {
    auto combined = combineWarps(op, partial, layout);
    if (failed(combined))
      return failure();
    partial = std::move(*combined);
  }
  for (unsigned source = 0; source < count; ++source) {
    Type element = getElementTypeOrSelf(op.getSources()[source].getType());
    Elements list;
    for (Elements &tuple : partial)
      list.push_back(isa<FloatType>(element) ? fromF32Or(tuple[source], element) : tuple[source]);
    define(op.getResult(source), std::move(list));
  }
  return success();
}

// Each warp writes its partial results; every thread combines those of its result, in the order of
// warps, so that all threads get the same bits.
FailureOr<SmallVector<Elements>> Lowering::combineWarps(core::ReduceOp op,
                                                        SmallVector<Elements> partial,
                                                        const LinearLayout &layout) {
  ArrayRef<int64_t> shape = core::shapeOf(op.getSources()[0].getType());
  int32_t mask = axisMask(shape, op.getAxis());
  LinearLayout result = withoutCopies(mapped(layout, dropAxisImages(shape, op.getAxis())));
  AxisBits bits(layout, mask);
  unsigned parts = 1u << bits.warps.size();
  int64_t results = 1;
  for (auto [dim, extent] : llvm::enumerate(shape))
    if (dim != op.getAxis())
      results *= extent;
  SmallVector<int64_t> starts;
  int64_t total = 0;
  for (Value value : partial[0]) {
    starts.push_back(total);
    int64_t bytes = (storedType(value.getType()).getIntOrFloatBitWidth() + 7) / 8;
    total += llvm::alignTo(results * parts * bytes, 16);
  }
  FailureOr<Value> base = scratch(total);
  if (failed(base))
    return failure();
  // This thread's place among the parts, from the warp bits along the axis.
  Bases partBases(layout.warps.size(), 0);
  for (auto [position, bit] : llvm::enumerate(bits.warps))
    partBases[bit] = 1 << position;
  Value part = selectBases(warp(), partBases);
  auto address = [&](unsigned source, unsigned r, Value partIndex) {
    int64_t bytes = (storedType(partial[0][source].getType()).getIntOrFloatBitWidth() + 7) / 8;
    Value slot = arith::MulIOp::create(b, loc, elementIndex(result, r), i32(parts));
    slot = arith::AddIOp::create(b, loc, slot, partIndex);
    Value offset = arith::AddIOp::create(b, loc, arith::MulIOp::create(b, loc, slot, i32(bytes)),
                                         i32(starts[source]));
    return sharedAddress(*base, offset);
  };
  // One lane among those that hold the same partial result writes.
  LinearLayout writers = result;
  for (unsigned laneBit : bits.lanes)
    writers.lanes[laneBit] = 0;
  for (unsigned warpBit : bits.warps)
    writers.warps[warpBit] = 1; // different parts: each warp writes
  emitIf(isFirstCopy(writers), [&] {
    for (unsigned r = 0; r < partial.size(); ++r)
      for (unsigned source = 0; source < partial[r].size(); ++source)
        LLVM::StoreOp::create(b, loc, toStored(partial[r][source]), address(source, r, part));
  });
  scratchWritten();
  SmallVector<Elements> combined;
  for (unsigned r = 0; r < partial.size(); ++r) {
    Elements sum;
    for (unsigned p = 0; p < parts; ++p) {
      Elements tuple;
      for (unsigned source = 0; source < partial[r].size(); ++source) {
        Type element = partial[r][source].getType();
        Value stored = LLVM::LoadOp::create(b, loc, storedType(element), address(source, r, i32(p)));
        tuple.push_back(fromStored(stored, element));
      }
      sum = p ? combinePair(op.getCombine(), sum, tuple) : tuple;
    }
    combined.push_back(std::move(sum));
  }
  scratchRead();
  return combined;
}

} // namespace tilery::simt
