// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Target/Simt/SharedMemory.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/Support/MathExtras.h"

#include <array>

using namespace mlir;

namespace tilery::simt {

// 32 banks of 4 bytes; lanes that read the same word share the pass.
unsigned bankPasses(const LinearLayout &layout, unsigned elementBytes, unsigned vectorBytes,
                    const Swizzle &swizzle) {
  std::array<llvm::SmallDenseSet<int32_t, 8>, 32> words;
  for (unsigned lane = 0; lane < (1u << layout.lanes.size()); ++lane) {
    int32_t start = swizzle.apply(layout.at(0, lane, 0) * int32_t(elementBytes));
    for (int32_t byte = start; byte < start + int32_t(vectorBytes); byte += 4)
      words[size_t(byte / 4) % 32].insert(byte / 4);
  }
  size_t most = 1;
  for (const auto &bank : words)
    most = std::max<size_t>(most, bank.size());
  return unsigned(most);
}

SmallVector<int32_t> sharedImages(ArrayRef<int64_t> shape, unsigned fastest, unsigned elementBytes,
                                  const Swizzle &swizzle) {
  SmallVector<int32_t> images;
  unsigned bits = indexBits(shape), low = axisShift(shape, fastest);
  int32_t own = axisMask(shape, fastest);
  unsigned extentBits = llvm::popcount(uint32_t(own));
  for (unsigned bit = 0; bit < bits; ++bit) {
    // The contiguous dimension's bits come first; the others keep their order behind them.
    bool isOwn = own >> bit & 1;
    unsigned place = isOwn ? bit - low : bit < low ? bit + extentBits : bit;
    images.push_back(swizzle.apply(int32_t(elementBytes) << place));
  }
  return images;
}

// Among all shifts, the one that `cost` likes best.
static Swizzle cheapest(unsigned unit, int64_t tileBytes,
                        llvm::function_ref<unsigned(const Swizzle &)> cost) {
  Swizzle best;
  unsigned least = cost(best);
  int32_t mask = 128 - int32_t(unit); // bits of a row of banks above the vector
  for (unsigned shift = 1; (int64_t(1) << shift) * unit < tileBytes; ++shift) {
    Swizzle swizzle{shift, mask};
    if (unsigned passes = cost(swizzle); passes < least) {
      least = passes;
      best = swizzle;
    }
  }
  return best;
}

Swizzle chooseSwizzle(const LinearLayout &from, const LinearLayout &to, unsigned elementBytes,
                      unsigned vectorBytes, int64_t tileBytes) {
  return cheapest(std::max(vectorBytes, 4u), tileBytes, [&](const Swizzle &swizzle) {
    return bankPasses(from, elementBytes, vectorBytes, swizzle) +
           bankPasses(to, elementBytes, vectorBytes, swizzle);
  });
}

//===-- Matrices --------------------------------------------------------------------------------===//

static bool startsRows(ArrayRef<int32_t> offsets) {
  return llvm::all_of(offsets,
                      [](int32_t offset) { return offset % int32_t(MatrixRows::rowBytes) == 0; });
}

// Which registers make up a word of 4 bytes, the lowest first; none when words are not whole.
static std::optional<SmallVector<unsigned>> wordsAlongRows(const LinearLayout &offsets,
                                                           unsigned elementBytes) {
  SmallVector<unsigned> bits;
  for (int32_t step = int32_t(elementBytes); step < 4; step *= 2) {
    auto at = llvm::find(offsets.registers, step);
    if (at == offsets.registers.end())
      return std::nullopt;
    bits.push_back(unsigned(at - offsets.registers.begin()));
  }
  return bits;
}

std::optional<MatrixRows> MatrixRows::of(const LinearLayout &offsets, unsigned elementBytes) {
  if (offsets.lanes.size() != 5 || elementBytes > 4 || !startsRows(offsets.warps))
    return std::nullopt;
  ArrayRef<int32_t> lanes = offsets.lanes;
  MatrixRows rows;
  if (lanes[0] == 4 && lanes[1] == 8 && startsRows(lanes.drop_front(2))) {
    auto words = wordsAlongRows(offsets, elementBytes);
    if (!words)
      return std::nullopt;
    rows.wordBits = *words;
    rows.addresses.lanes.append(lanes.begin() + 2, lanes.end());
  } else if (elementBytes == 2 && lanes[2] == 2 && lanes[3] == 4 && lanes[4] == 8 &&
             startsRows(lanes.take_front(2)) && !offsets.registers.empty()) {
    rows.transposed = true;
    rows.wordBits = {0}; // operands have neighbours of a word in the first register bit
    rows.addresses.lanes = {offsets.registers[0], lanes[0], lanes[1]};
  } else {
    return std::nullopt;
  }
  for (unsigned bit = 0; bit < offsets.registers.size(); ++bit) {
    int32_t offset = offsets.registers[bit];
    bool inWord = llvm::is_contained(rows.wordBits, bit);
    if (!startsRows(offset) && !(inWord && !rows.transposed))
      return std::nullopt;
    if (inWord)
      continue;
    if (rows.matrixBits.size() < 2) {
      rows.matrixBits.push_back(bit);
      rows.addresses.lanes.push_back(offset);
    } else {
      rows.otherBits.push_back(bit);
      rows.addresses.registers.push_back(offset);
    }
  }
  rows.addresses.lanes.resize(5, 0);
  rows.addresses.warps = offsets.warps;
  return rows;
}

static unsigned scattered(unsigned number, ArrayRef<unsigned> bits) {
  unsigned result = 0;
  for (auto [i, bit] : llvm::enumerate(bits))
    result |= (number >> i & 1) << bit;
  return result;
}

unsigned MatrixRows::registerOf(unsigned other, unsigned matrix, unsigned inWord) const {
  return scattered(other, otherBits) | scattered(matrix, matrixBits) | scattered(inWord, wordBits);
}

Swizzle chooseSwizzle(const LinearLayout &from, unsigned vectorBytes, const MatrixRows &to,
                      int64_t tileBytes) {
  // The eight rows of one matrix are one pass where they are in different banks.
  LinearLayout matrix{{}, Bases(ArrayRef(to.addresses.lanes).take_front(3)), {}};
  return cheapest(MatrixRows::rowBytes, tileBytes, [&](const Swizzle &swizzle) {
    return bankPasses(from, 1, vectorBytes, swizzle) +
           4 * bankPasses(matrix, 1, MatrixRows::rowBytes, swizzle);
  });
}

} // namespace tilery::simt
