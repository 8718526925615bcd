// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Target/Simt/LinearLayout.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace tilery::simt {

LinearLayout LinearLayout::of(LayoutAttr attr) {
  return {Bases(attr.getRegisters()), Bases(attr.getLanes()), Bases(attr.getWarps())};
}

LinearLayout LinearLayout::of(Type tile) {
  return of(cast<LayoutAttr>(cast<RankedTensorType>(tile).getEncoding()));
}

LayoutAttr LinearLayout::attr(MLIRContext *context) const {
  return LayoutAttr::get(context, registers, lanes, warps);
}

static int32_t combine(ArrayRef<int32_t> bases, unsigned bits) {
  int32_t sum = 0;
  for (auto [i, base] : llvm::enumerate(bases))
    if (bits >> i & 1)
      sum ^= base;
  return sum;
}

int32_t LinearLayout::ofRegister(unsigned r) const { return combine(registers, r); }

int32_t LinearLayout::at(unsigned r, unsigned lane, unsigned warp) const {
  return combine(registers, r) ^ combine(lanes, lane) ^ combine(warps, warp);
}

static unsigned zeroBases(ArrayRef<int32_t> bases) {
  unsigned zero = 0;
  for (auto [i, base] : llvm::enumerate(bases))
    if (base == 0)
      zero |= 1u << i;
  return zero;
}

unsigned LinearLayout::replicatedLanes() const { return zeroBases(lanes); }
unsigned LinearLayout::replicatedWarps() const { return zeroBases(warps); }

SmallVector<unsigned> LinearLayout::contiguousBits() const {
  SmallVector<unsigned> bits;
  for (int32_t base = 1;; base <<= 1) {
    auto at = llvm::find(registers, base);
    if (at == registers.end())
      return bits;
    // The bit must not be touched by any other base, else a group would not be aligned.
    auto touches = [&](int32_t other) { return other != base && (other & base); };
    if (llvm::any_of(registers, touches) || llvm::any_of(lanes, touches) ||
        llvm::any_of(warps, touches))
      return bits;
    bits.push_back(unsigned(at - registers.begin()));
  }
}

unsigned LinearLayout::contiguity() const { return 1u << contiguousBits().size(); }

void forEachVector(const LinearLayout &layout, ArrayRef<unsigned> bits,
                   llvm::function_ref<void(ArrayRef<unsigned>)> access) {
  unsigned inVector = 0;
  for (unsigned bit : bits)
    inVector |= 1u << bit;
  for (unsigned r = 0; r < layout.numRegisters(); ++r) {
    if (r & inVector)
      continue;
    SmallVector<unsigned> registers;
    for (unsigned i = 0; i < 1u << bits.size(); ++i) {
      unsigned member = r;
      for (auto [position, bit] : llvm::enumerate(bits))
        if (i >> position & 1)
          member |= 1u << bit;
      registers.push_back(member);
    }
    access(registers);
  }
}

LinearLayout mapped(const LinearLayout &layout, ArrayRef<int32_t> images) {
  LinearLayout result;
  auto apply = [&](ArrayRef<int32_t> from, Bases &to) {
    for (int32_t base : from)
      to.push_back(combine(images, unsigned(base)));
  };
  apply(layout.registers, result.registers);
  apply(layout.lanes, result.lanes);
  apply(layout.warps, result.warps);
  return result;
}

LinearLayout withoutCopies(const LinearLayout &layout, SmallVectorImpl<unsigned> *kept) {
  LinearLayout result{{}, layout.lanes, layout.warps};
  for (int32_t base : layout.registers)
    if (!Span(result.registers).express(base))
      result.registers.push_back(base);
  if (!kept)
    return result;
  Span span(result.registers);
  for (unsigned r = 0; r < layout.numRegisters(); ++r)
    kept->push_back(*span.express(layout.ofRegister(r)));
  return result;
}

Span::Span(ArrayRef<int32_t> generators) {
  for (auto [i, generator] : llvm::enumerate(generators)) {
    Row row{generator, 1u << i};
    for (const Row &other : rows)
      if ((row.vector ^ other.vector) < row.vector) {
        row.vector ^= other.vector;
        row.generators ^= other.generators;
      }
    if (row.vector)
      rows.push_back(row);
    llvm::sort(rows, [](const Row &a, const Row &b) { return a.vector > b.vector; });
  }
}

std::optional<unsigned> Span::express(int32_t vector) const {
  unsigned generators = 0;
  for (const Row &row : rows)
    if ((vector ^ row.vector) < vector) {
      vector ^= row.vector;
      generators ^= row.generators;
    }
  if (vector)
    return std::nullopt;
  return generators;
}

//===-- Maps between indices -------------------------------------------------------------------------===//

unsigned indexBits(ArrayRef<int64_t> shape) {
  unsigned bits = 0;
  for (int64_t extent : shape)
    bits += llvm::Log2_64(uint64_t(extent));
  return bits;
}

unsigned axisShift(ArrayRef<int64_t> shape, unsigned axis) {
  return indexBits(shape.drop_front(axis + 1));
}

int32_t axisMask(ArrayRef<int64_t> shape, unsigned axis) {
  return int32_t(shape[axis] - 1) << axisShift(shape, axis);
}

SmallVector<int32_t> transposeImages(ArrayRef<int64_t> shape, ArrayRef<int32_t> order) {
  SmallVector<int64_t> resultShape;
  for (int32_t dim : order)
    resultShape.push_back(shape[dim]);
  SmallVector<int32_t> images(indexBits(shape));
  for (auto [position, dim] : llvm::enumerate(order))
    for (unsigned bit = 0; bit < llvm::Log2_64(uint64_t(shape[dim])); ++bit)
      images[axisShift(shape, unsigned(dim)) + bit] =
          1 << (axisShift(resultShape, unsigned(position)) + bit);
  return images;
}

SmallVector<int32_t> transposeBackImages(ArrayRef<int64_t> shape, ArrayRef<int32_t> order) {
  SmallVector<int64_t> resultShape;
  SmallVector<int32_t> back(order.size());
  for (auto [position, dim] : llvm::enumerate(order)) {
    resultShape.push_back(shape[dim]);
    back[dim] = int32_t(position);
  }
  return transposeImages(resultShape, back);
}

SmallVector<int32_t> broadcastBackImages(ArrayRef<int64_t> source, ArrayRef<int64_t> result) {
  SmallVector<int32_t> images(indexBits(result), 0);
  for (unsigned dim = 0; dim < result.size(); ++dim)
    for (unsigned bit = 0; bit < llvm::Log2_64(uint64_t(source[dim])); ++bit)
      images[axisShift(result, dim) + bit] = 1 << (axisShift(source, dim) + bit);
  return images;
}

SmallVector<int32_t> dropAxisImages(ArrayRef<int64_t> shape, unsigned axis) {
  unsigned below = axisShift(shape, axis), width = llvm::Log2_64(uint64_t(shape[axis]));
  SmallVector<int32_t> images(indexBits(shape), 0);
  for (unsigned bit = 0; bit < images.size(); ++bit)
    if (bit < below)
      images[bit] = 1 << bit;
    else if (bit >= below + width)
      images[bit] = 1 << (bit - width);
  return images;
}

//===-- Constructions --------------------------------------------------------------------------------===//

LinearLayout blockedLayout(ArrayRef<int64_t> shape, ArrayRef<unsigned> order, unsigned vector,
                           unsigned laneBits, unsigned warpBits) {
  // The bits of an index from the fastest to the slowest.
  SmallVector<int32_t> bits;
  for (unsigned dim : order)
    for (unsigned bit = 0; bit < llvm::Log2_64(uint64_t(shape[dim])); ++bit)
      bits.push_back(1 << (axisShift(shape, dim) + bit));
  LinearLayout layout;
  auto take = [&, next = size_t(0)](Bases &to, size_t count) mutable {
    for (; count && next < bits.size(); --count)
      to.push_back(bits[next++]);
  };
  take(layout.registers, llvm::Log2_32(vector));
  take(layout.lanes, laneBits);
  take(layout.warps, warpBits);
  take(layout.registers, bits.size());
  layout.lanes.resize(laneBits, 0);
  layout.warps.resize(warpBits, 0);
  return layout;
}

LinearLayout defaultLayout(ArrayRef<int64_t> shape, unsigned elementBits, unsigned laneBits,
                           unsigned warpBits) {
  SmallVector<unsigned> order;
  for (unsigned dim = 0; dim < shape.size(); ++dim)
    order.push_back(unsigned(shape.size()) - 1 - dim);
  unsigned bits = indexBits(shape);
  unsigned perThread = bits > laneBits + warpBits ? bits - laneBits - warpBits : 0;
  unsigned widest = llvm::Log2_32(std::max(1u, 128 / std::max(8u, elementBits)));
  unsigned last = shape.empty() ? 0 : llvm::Log2_64(uint64_t(shape.back()));
  return blockedLayout(shape, order, 1u << std::min({perThread, widest, last}), laneBits,
                       warpBits);
}

} // namespace tilery::simt
