// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Swizzles and bank conflicts: counts that follow from 32 banks of 4 bytes. Matrices: which element
// each lane gets, as the PTX ISA tells it (ldmatrix).
#include "compiler/Target/Simt/SharedMemory.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

using namespace mlir;

namespace tilery::simt {
namespace {

// A 32 x 32 tile of 4-byte elements, a lane a column or a row.
const LinearLayout byColumns{{32, 64, 128, 256, 512}, {1, 2, 4, 8, 16}, {}};
const LinearLayout byRows{{1, 2, 4, 8, 16}, {32, 64, 128, 256, 512}, {}};

TEST(BankPasses, NeighboursHaveNoConflict) {
  EXPECT_EQ(bankPasses(byColumns, 4, 4, {}), 1u);
}

TEST(BankPasses, AColumnOfRowsOf128BytesIsInOneBank) {
  EXPECT_EQ(bankPasses(byRows, 4, 4, {}), 32u);
}

TEST(BankPasses, AStrideOfTwoWordsHalvesTheBanks) {
  EXPECT_EQ(bankPasses({{}, {2, 4, 8, 16, 32}, {}}, 4, 4, {}), 2u);
}

TEST(BankPasses, LanesThatReadTheSameWordShareThePass) {
  EXPECT_EQ(bankPasses({{}, {0, 0, 0, 0, 0}, {}}, 4, 4, {}), 1u);
  EXPECT_EQ(bankPasses({{}, {1, 2, 4, 8, 16}, {}}, 1, 1, {}),
            1u); // four bytes of one word
  EXPECT_EQ(bankPasses({{}, {0, 1, 2, 4, 8}, {}}, 2, 2, {}), 1u);
}

TEST(BankPasses, SixteenBytesALaneTakeFourPasses) {
  LinearLayout layout{{1, 2}, {4, 8, 16, 32, 64}, {}};
  EXPECT_EQ(bankPasses(layout, 4, 16, {}), 4u);
}

TEST(Swizzle, PermutesTheBytesOfATile) {
  for (unsigned unit : {4u, 8u, 16u})
    for (unsigned shift = 5; shift < 12; ++shift) {
      Swizzle swizzle{shift, 128 - int32_t(unit)};
      std::set<int32_t> seen;
      for (int32_t offset = 0; offset < 8192; ++offset) {
        int32_t stored = swizzle.apply(offset);
        seen.insert(stored);
        // Groups of `unit` bytes stay together.
        ASSERT_EQ(stored % int32_t(unit), offset % int32_t(unit));
        ASSERT_EQ(stored - stored % int32_t(unit),
                  swizzle.apply(offset - offset % int32_t(unit)));
      }
      ASSERT_EQ(seen.size(), 8192u) << "shift " << shift << " unit " << unit;
      EXPECT_EQ(*seen.rbegin(), 8191);
    }
}

TEST(Swizzle, RemovesTheConflictsOfATransposition) {
  Swizzle swizzle = chooseSwizzle(byColumns, byRows, 4, 4, 4096);
  EXPECT_EQ(bankPasses(byColumns, 4, 4, swizzle), 1u);
  EXPECT_EQ(bankPasses(byRows, 4, 4, swizzle), 1u);
}

TEST(Swizzle, IsNoneWhereThereIsNoConflict) {
  EXPECT_EQ(chooseSwizzle(byColumns, byColumns, 4, 4, 4096), Swizzle());
}

// Any two layouts: never more passes than without a swizzle, and a permutation
// within the tile.
TEST(Swizzle, ChosenOnesAreBijectiveAndNeverWorseThanNone) {
  std::mt19937 random(2);
  for (int trial = 0; trial < 300; ++trial) {
    unsigned bits = 6 + unsigned(random() % 7),
             elementBytes = 1u << random() % 4;
    auto layout = [&] {
      Bases bases;
      for (unsigned bit = 0; bit < bits; ++bit)
        bases.push_back(1 << bit);
      std::shuffle(bases.begin(), bases.end(), random);
      LinearLayout made;
      made.lanes.assign(bases.begin(), bases.begin() + 5);
      made.registers.assign(bases.begin() + 5, bases.end());
      return made;
    };
    LinearLayout from = layout(), to = layout();
    unsigned vector =
        elementBytes * std::max(from.contiguity(), to.contiguity());
    vector = std::min(vector, 16u);
    int64_t bytes = int64_t(elementBytes) << bits;
    Swizzle swizzle = chooseSwizzle(from, to, elementBytes, vector, bytes);
    auto cost = [&](const Swizzle &with) {
      return bankPasses(from, elementBytes, vector, with) +
             bankPasses(to, elementBytes, vector, with);
    };
    ASSERT_LE(cost(swizzle), cost({})) << "trial " << trial;
    std::set<int32_t> seen;
    for (int32_t offset = 0; offset < bytes; ++offset)
      seen.insert(swizzle.apply(offset));
    ASSERT_EQ(int64_t(seen.size()), bytes) << "trial " << trial;
    ASSERT_EQ(*seen.rbegin(), bytes - 1) << "trial " << trial;
  }
}

//===-- Matrices --------------------------------------------------------------------------------===//

// The operands of a warp's instruction (PTX ISA, "Matrix Fragments for mma.m16n8k*"), in a tile with
// `rows` repetitions of it, as row-major indices.
LinearLayout lhsOperand(unsigned elementBytes, int32_t columns, int32_t rows) {
  int32_t word = 4 / int32_t(elementBytes);
  LinearLayout layout;
  for (int32_t inWord = 1; inWord < word; inWord *= 2)
    layout.registers.push_back(inWord);
  layout.registers.append({8 * columns, 4 * word});
  for (int32_t depth = 8 * word; depth < columns; depth *= 2)
    layout.registers.push_back(depth);
  for (int32_t row = 16; row < rows; row *= 2)
    layout.registers.push_back(row * columns);
  layout.lanes = {word, 2 * word, columns, 2 * columns, 4 * columns};
  return layout;
}

/// What the hardware does: lane l gets, of matrix m, the words that MatrixRows describes. Gives the byte
/// offset of each register's element, for the bytes of shared memory being their own offsets.
std::vector<int32_t> readByMatrices(const MatrixRows &rows, unsigned registers,
                                    unsigned elementBytes, unsigned lane) {
  std::vector<int32_t> result(registers, -1);
  unsigned inWord = 4 / elementBytes, matrices = 1u << rows.matrixBits.size();
  for (unsigned other = 0; other < 1u << rows.otherBits.size(); ++other)
    for (unsigned matrix = 0; matrix < matrices; ++matrix)
      for (unsigned i = 0; i < inWord; ++i) {
        unsigned row = rows.transposed ? 2 * (lane % 4) + i : lane / 4;
        int32_t start = rows.addresses.at(other, 8 * matrix + row, 0);
        int32_t byte = rows.transposed ? int32_t(lane / 4) * 2
                                       : int32_t(4 * (lane % 4) + i * elementBytes);
        EXPECT_EQ(start % 16, 0);
        result[rows.registerOf(other, matrix, i)] = start + byte;
      }
  return result;
}

void expectRead(const LinearLayout &operand, ArrayRef<int64_t> shape, unsigned fastest,
                unsigned elementBytes, bool transposed) {
  for (unsigned shift : {0u, 1u, 2u, 3u, 4u, 6u}) {
    Swizzle swizzle{shift, shift ? 112 : 0};
    LinearLayout offsets =
        mapped(operand, sharedImages(shape, fastest, elementBytes, swizzle));
    auto rows = MatrixRows::of(offsets, elementBytes);
    ASSERT_TRUE(rows) << "shift " << shift;
    EXPECT_EQ(rows->transposed, transposed);
    for (unsigned lane = 0; lane < 32; ++lane) {
      auto read = readByMatrices(*rows, offsets.numRegisters(), elementBytes, lane);
      for (unsigned r = 0; r < offsets.numRegisters(); ++r)
        ASSERT_EQ(read[r], offsets.at(r, lane, 0)) << "register " << r << " of lane " << lane;
    }
  }
}

TEST(MatrixRows, OperandsWhoseDepthIsContiguous) {
  for (unsigned bytes : {1u, 2u, 4u})
    for (int32_t rows : {16, 64})
      expectRead(lhsOperand(bytes, 64, rows), {rows, 64}, 1, bytes, false);
}

TEST(MatrixRows, OperandsWhoseRowsAreContiguousAreTransposed) {
  for (int32_t rows : {16, 64})
    expectRead(lhsOperand(2, 64, rows), {rows, 64}, 0, 2, true);
}

TEST(MatrixRows, OtherSizesOfElementsAreNotTransposed) {
  for (unsigned bytes : {1u, 4u}) {
    LinearLayout offsets =
        mapped(lhsOperand(bytes, 64, 64), sharedImages({64, 64}, 0, bytes, {}));
    EXPECT_FALSE(MatrixRows::of(offsets, bytes));
  }
}

TEST(MatrixRows, RowsThatAWarpReadsTwiceAreFound) {
  LinearLayout operand = lhsOperand(2, 16, 16);
  operand.lanes[4] = 0; // four rows of its eight are missing
  operand.registers.erase(operand.registers.begin() + 1);
  expectRead(operand, {4, 16}, 1, 2, false);
}

// A row of 16 bytes a lane on the way in, rows of matrices on the way out: neither has conflicts.
TEST(MatrixRows, TheSwizzleLeavesNoConflict) {
  for (int32_t columns : {32, 64, 128})
    for (unsigned fastest : {0u, 1u}) {
      SmallVector<int64_t> shape = {128, columns};
      auto images = sharedImages(shape, fastest, 2, {});
      LinearLayout written =
          mapped(blockedLayout(shape, fastest ? ArrayRef<unsigned>{1, 0} : ArrayRef<unsigned>{0, 1},
                               8, 5, 2),
                 images);
      auto rows = MatrixRows::of(mapped(lhsOperand(2, columns, 128), images), 2);
      ASSERT_TRUE(rows);
      Swizzle swizzle = chooseSwizzle(written, 16, *rows, 128 * columns * 2);
      LinearLayout matrix{{}, Bases(ArrayRef(rows->addresses.lanes).take_front(3)), {}};
      EXPECT_EQ(bankPasses(matrix, 1, 16, swizzle), 1u) << columns << " columns";
      EXPECT_EQ(bankPasses(written, 1, 16, swizzle), 4u) << columns << " columns";
    }
}

// In any order of dimensions every element has its own place.
TEST(SharedImages, AreAPermutation) {
  SmallVector<int64_t> shape = {4, 8, 16};
  for (unsigned fastest : {0u, 1u, 2u}) {
    auto images = sharedImages(shape, fastest, 2, {3, 112});
    std::set<int32_t> seen;
    for (int32_t index = 0; index < 512; ++index) {
      int32_t offset = 0;
      for (unsigned bit = 0; bit < images.size(); ++bit)
        offset ^= index >> bit & 1 ? images[bit] : 0;
      seen.insert(offset);
    }
    EXPECT_EQ(seen.size(), 512u);
    EXPECT_EQ(*seen.rbegin(), 1022);
    EXPECT_EQ(images[axisShift(shape, fastest)], 2);
  }
}

} // namespace
} // namespace tilery::simt
