// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Swizzles and bank conflicts: counts that follow from 32 banks of 4 bytes.
#include "compiler/Target/Simt/SharedMemory.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

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

} // namespace
} // namespace tilery::simt
