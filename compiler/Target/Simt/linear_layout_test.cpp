// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Linear layouts against plain enumeration of registers, lanes and warps.
#include "compiler/Target/Simt/AsyncDot.h"
#include "compiler/Target/Simt/LinearLayout.h"

#include "llvm/Support/MathExtras.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace tilery::simt {
namespace {

using Shape = std::vector<int64_t>;

int64_t elementsOf(const Shape &shape) {
  int64_t count = 1;
  for (int64_t extent : shape)
    count *= extent;
  return count;
}

// How often each element of the tile is held.
std::map<int32_t, unsigned> holders(const LinearLayout &layout) {
  std::map<int32_t, unsigned> counts;
  for (unsigned warp = 0; warp < 1u << layout.warps.size(); ++warp)
    for (unsigned lane = 0; lane < 1u << layout.lanes.size(); ++lane)
      for (unsigned r = 0; r < layout.numRegisters(); ++r)
        ++counts[layout.at(r, lane, warp)];
  return counts;
}

void expectEven(const LinearLayout &layout, int64_t elements) {
  std::map<int32_t, unsigned> counts = holders(layout);
  ASSERT_EQ(int64_t(counts.size()), elements);
  EXPECT_EQ(counts.rbegin()->first, elements - 1);
  for (auto [element, count] : counts)
    ASSERT_EQ(count, counts.begin()->second) << "element " << element;
}

// As nested loops number the elements of a tile.
int32_t indexOf(const Shape &shape, const Shape &at) {
  int64_t index = 0;
  for (size_t dim = 0; dim < shape.size(); ++dim)
    index = index * shape[dim] + at[dim];
  return int32_t(index);
}

Shape coordinatesOf(const Shape &shape, int64_t index) {
  Shape at(shape.size());
  for (size_t dim = shape.size(); dim-- > 0; index /= shape[dim])
    at[dim] = index % shape[dim];
  return at;
}

// A linear map applied to an index as its bits say.
int32_t applied(llvm::ArrayRef<int32_t> images, int64_t index) {
  int32_t result = 0;
  for (size_t bit = 0; bit < images.size(); ++bit)
    if (index >> bit & 1)
      result ^= images[bit];
  return result;
}

const std::vector<Shape> shapes = {
    {1},       {2},         {32},       {4096},       {1, 1},
    {1, 64},   {64, 1},     {16, 16},   {128, 64},    {32, 512},
    {2, 4, 8}, {4, 1, 128}, {8, 16, 4}, {2, 2, 2, 32}};

//===-- One layout
//-----------------------------------------------------------------------------===//

TEST(LinearLayout, AtIsTheXorOfTheBasesOfSetBits) {
  LinearLayout layout{{1, 2}, {4, 8, 16, 32, 64}, {128, 0}};
  EXPECT_EQ(layout.numRegisters(), 4u);
  EXPECT_EQ(layout.at(0, 0, 0), 0);
  EXPECT_EQ(layout.at(3, 0, 0), 3);
  EXPECT_EQ(layout.at(1, 31, 0), 1 + 124);
  EXPECT_EQ(layout.at(2, 5, 1), 2 + 4 + 16 + 128);
  EXPECT_EQ(layout.at(2, 5, 3),
            layout.at(2, 5, 1)); // the second warp bit repeats
  EXPECT_EQ(layout.replicatedWarps(), 2u);
  EXPECT_EQ(layout.replicatedLanes(), 0u);
}

TEST(LinearLayout, ContiguityCountsAlignedNeighboursInRegisters) {
  Bases lanes = {16, 32, 64, 128, 256};
  EXPECT_EQ((LinearLayout{{1, 2, 4, 8}, lanes, {}}.contiguity()), 16u);
  EXPECT_EQ((LinearLayout{{8, 2, 1, 4}, lanes, {}}.contiguity()),
            16u); // in any order
  EXPECT_EQ((LinearLayout{{2, 4, 8}, lanes, {}}.contiguity()), 1u);
  EXPECT_EQ((LinearLayout{{1, 4, 8}, lanes, {}}.contiguity()), 2u);
  // Another base that touches bit 1 breaks the alignment of pairs of pairs.
  EXPECT_EQ((LinearLayout{{1, 2}, {6, 8}, {}}.contiguity()), 2u);
  EXPECT_EQ((LinearLayout{{1}, {3}, {}}.contiguity()), 1u);
  LinearLayout shuffled{{8, 2, 1, 4}, lanes, {}};
  llvm::SmallVector<unsigned> bits = shuffled.contiguousBits();
  ASSERT_EQ(bits.size(), 4u);
  for (unsigned i = 0; i < 4; ++i)
    EXPECT_EQ(shuffled.registers[bits[i]], 1 << i);
}

TEST(LinearLayout, WithoutCopiesKeepsEachElementOfAThreadOnce) {
  LinearLayout layout{{1, 0, 2, 3, 8}, {4, 16}, {32}};
  llvm::SmallVector<unsigned> kept;
  LinearLayout slim = withoutCopies(layout, &kept);
  EXPECT_EQ(slim.registers, (Bases{1, 2, 8}));
  EXPECT_EQ(slim.lanes, layout.lanes);
  EXPECT_EQ(slim.warps, layout.warps);
  ASSERT_EQ(kept.size(), layout.numRegisters());
  for (unsigned r = 0; r < layout.numRegisters(); ++r)
    EXPECT_EQ(slim.ofRegister(kept[r]), layout.ofRegister(r));
  EXPECT_EQ(withoutCopies(slim), slim);
}

TEST(Span, ExpressesExactlyWhatItsGeneratorsReach) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 200; ++trial) {
    Bases generators(random() % 7);
    for (int32_t &generator : generators)
      generator = int32_t(random() % 64);
    auto sumOf = [&](unsigned chosen) {
      int32_t sum = 0;
      for (size_t i = 0; i < generators.size(); ++i)
        sum ^= chosen >> i & 1 ? generators[i] : 0;
      return sum;
    };
    std::vector<bool> reached(64, false);
    for (unsigned chosen = 0; chosen < 1u << generators.size(); ++chosen)
      reached[size_t(sumOf(chosen))] = true;
    Span span(generators);
    for (int32_t vector = 0; vector < 64; ++vector) {
      std::optional<unsigned> chosen = span.express(vector);
      ASSERT_EQ(chosen.has_value(), reached[size_t(vector)])
          << "trial " << trial;
      if (chosen)
        ASSERT_EQ(sumOf(*chosen), vector) << "trial " << trial;
    }
  }
}

//===-- Images
//---------------------------------------------------------------------------------===//

TEST(Images, TransposeMovesEveryElement) {
  const std::vector<std::pair<Shape, std::vector<int32_t>>> cases = {
      {{4, 8}, {1, 0}},
      {{1, 16}, {1, 0}},
      {{2, 4, 8}, {2, 0, 1}},
      {{2, 4, 8}, {0, 2, 1}},
      {{8}, {0}}};
  for (const auto &[shape, order] : cases) {
    Shape result;
    for (int32_t dim : order)
      result.push_back(shape[size_t(dim)]);
    auto forth = transposeImages(shape, order),
         back = transposeBackImages(shape, order);
    for (int64_t index = 0; index < elementsOf(shape); ++index) {
      Shape at = coordinatesOf(shape, index), moved;
      for (int32_t dim : order)
        moved.push_back(at[size_t(dim)]);
      EXPECT_EQ(applied(forth, index), indexOf(result, moved));
      EXPECT_EQ(applied(back, applied(forth, index)), index);
    }
  }
}

TEST(Images, BroadcastReadsCoordinateZeroOfRepeatedDimensions) {
  const std::vector<std::pair<Shape, Shape>> cases = {{{1, 8}, {4, 8}},
                                                      {{4, 1}, {4, 8}},
                                                      {{1, 1}, {4, 8}},
                                                      {{2, 1, 4}, {2, 8, 4}}};
  for (const auto &[source, result] : cases) {
    auto images = broadcastBackImages(source, result);
    for (int64_t index = 0; index < elementsOf(result); ++index) {
      Shape at = coordinatesOf(result, index);
      for (size_t dim = 0; dim < at.size(); ++dim)
        at[dim] = source[dim] == 1 ? 0 : at[dim];
      EXPECT_EQ(applied(images, index), indexOf(source, at));
    }
  }
}

TEST(Images, DropAxisForgetsOneCoordinate) {
  Shape shape = {4, 8, 2};
  for (unsigned axis = 0; axis < 3; ++axis) {
    Shape rest = shape;
    rest.erase(rest.begin() + axis);
    auto images = dropAxisImages(shape, axis);
    for (int64_t index = 0; index < elementsOf(shape); ++index) {
      Shape at = coordinatesOf(shape, index);
      EXPECT_EQ((index & axisMask(shape, axis)) >> axisShift(shape, axis),
                at[axis]);
      at.erase(at.begin() + axis);
      EXPECT_EQ(applied(images, index), indexOf(rest, at));
    }
  }
}

TEST(Images, AMappedLayoutHoldsTheImagesOfItsElements) {
  Shape shape = {8, 32};
  LinearLayout layout = defaultLayout(shape, 32, 5, 1);
  auto images = transposeImages(shape, {1, 0});
  LinearLayout moved = mapped(layout, images);
  for (unsigned warp = 0; warp < 2; ++warp)
    for (unsigned lane = 0; lane < 32; ++lane)
      for (unsigned r = 0; r < layout.numRegisters(); ++r)
        EXPECT_EQ(moved.at(r, lane, warp),
                  applied(images, layout.at(r, lane, warp)));
}

//===-- Constructions
//----------------------------------------------------------------------------===//

TEST(Constructions, LayoutsHoldEachElementEquallyOften) {
  for (const Shape &shape : shapes)
    for (unsigned laneBits : {5u, 6u})
      for (unsigned warpBits : {0u, 1u, 2u, 3u, 4u}) {
        SCOPED_TRACE(testing::PrintToString(shape) + " lanes 2^" +
                     std::to_string(laneBits) + " warps 2^" +
                     std::to_string(warpBits));
        for (unsigned bits : {1u, 8u, 16u, 32u, 64u}) {
          LinearLayout layout = defaultLayout(shape, bits, laneBits, warpBits);
          EXPECT_EQ(layout.lanes.size(), laneBits);
          EXPECT_EQ(layout.warps.size(), warpBits);
          EXPECT_EQ(withoutCopies(layout), layout);
          expectEven(layout, elementsOf(shape));
        }
        llvm::SmallVector<unsigned> order;
        for (unsigned dim = 0; dim < shape.size(); ++dim)
          order.push_back(dim);
        for (unsigned vector : {1u, 4u, 16u})
          expectEven(blockedLayout(shape, order, vector, laneBits, warpBits),
                     elementsOf(shape));
      }
}

TEST(Constructions,
     DefaultLayoutTakesSixteenBytesAThreadWhereTheTileIsLargeEnough) {
  EXPECT_EQ(defaultLayout({4096}, 32, 5, 2).contiguity(), 4u);
  EXPECT_EQ(defaultLayout({4096}, 16, 5, 2).contiguity(), 8u);
  EXPECT_EQ(defaultLayout({4096}, 8, 5, 2).contiguity(), 16u);
  EXPECT_EQ(defaultLayout({4096}, 64, 5, 2).contiguity(), 2u);
  EXPECT_EQ(defaultLayout({128}, 16, 5, 2).contiguity(),
            1u); // one element a thread
  EXPECT_EQ(defaultLayout({64, 2}, 8, 5, 0).contiguity(), 2u);
}

TEST(Constructions, BlockedLayoutFollowsItsOrder) {
  LinearLayout columns = blockedLayout({64, 32}, {0, 1}, 4, 5, 1);
  EXPECT_EQ(columns.registers[0], 32); // the next row
  EXPECT_EQ(columns.registers[1], 64);
  EXPECT_EQ(columns.lanes[0], 128);
}

//===-- Products by groups of four warps
//---------------------------------------------------------===//

TEST(AsyncDot, AccumulatorsLieOnOneThreadEach) {
  for (unsigned warps : {4u, 8u, 16u})
    for (int64_t m : {64, 128, 256})
      for (int64_t n : {16, 64, 128, 256}) {
        GroupGrid grid = GroupGrid::of(m, n, warps);
        EXPECT_EQ(grid.rowGroups * grid.columnGroups * 4, int64_t(warps));
        if (grid.columns < 8)
          continue; // refused before a layout is asked for
        SCOPED_TRACE(testing::Message()
                     << m << "x" << n << " by " << warps << " warps");
        LinearLayout layout = asyncDotLayout(m, n, warps);
        EXPECT_EQ(layout.warps.size(), llvm::Log2_32(warps));
        EXPECT_EQ(holders(layout).begin()->second, 1u);
        expectEven(layout, m * n);
      }
}

// Thread t of a group (w = t / 32, l = t % 32): d[4j + 0, 1] is row 16 w + l /
// 4, columns 8 j + 2 (l % 4) and the next; d[4j + 2, 3] the same, eight rows
// below (PTX ISA, wgmma).
TEST(AsyncDot, AccumulatorsLieAsTheInstructionWritesThem) {
  LinearLayout layout = asyncDotLayout(64, 128, 4);
  for (unsigned t = 0; t < 128; ++t)
    for (unsigned r = 0; r < layout.numRegisters(); ++r) {
      unsigned w = t / 32, l = t % 32;
      unsigned row = 16 * w + l / 4 + (r & 2 ? 8 : 0),
               column = 8 * (r / 4) + 2 * (l % 4) + (r & 1);
      ASSERT_EQ(layout.at(r, l, w), int32_t(row * 128 + column));
    }
}

TEST(AsyncDot, LeftOperandsRepeatOnlyAlongColumnGroups) {
  for (unsigned warps : {4u, 8u})
    for (int64_t m : {64, 128})
      for (int64_t k : {16, 64, 128}) {
        SCOPED_TRACE(testing::Message()
                     << m << "x" << k << " by " << warps << " warps");
        int64_t n = 128;
        LinearLayout layout = asyncLhsLayout(m, n, k, warps);
        expectEven(layout, m * k);
        EXPECT_EQ(holders(layout).begin()->second,
                  unsigned(GroupGrid::of(m, n, warps).columnGroups));
      }
}

} // namespace
} // namespace tilery::simt
