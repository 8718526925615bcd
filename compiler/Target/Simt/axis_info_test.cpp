// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// What is known of the tiles in small kernels; "test.probe" marks the values
// that are looked at.
#include "compiler/Target/Simt/AxisInfo.h"

#include "compiler/Dialect/Core/IR/Core.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

#include <random>

namespace tilery::simt {
namespace {

using List = AxisInfo::List;

class AxisInfoTest : public testing::Test {
protected:
  AxisInfoTest() {
    context.loadDialect<core::CoreDialect, mlir::arith::ArithDialect,
                        mlir::func::FuncDialect, mlir::scf::SCFDialect>();
    context.allowUnregisteredDialects();
  }

  /// The operands of the probes of a kernel with pointers %p (16-byte aligned),
  /// %q and %f (of halves, 16-byte aligned) and the integers %n (a multiple of
  /// 16) and %m.
  std::vector<mlir::Value> probes(const std::string &body) {
    std::string text =
        "func.func @kernel(%p: !core.ptr<f32> {core.divisibility = 16 : i32}, "
        "%q: !core.ptr<f32>, %f: !core.ptr<f16> {core.divisibility = 16 : "
        "i32}, "
        "%n: i32 {core.divisibility = 16 : i32}, %m: i32) {\n" +
        body + "\nreturn\n}";
    module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
    std::vector<mlir::Value> values;
    if (!module) {
      ADD_FAILURE() << text;
      return values;
    }
    module->walk([&](mlir::Operation *op) {
      if (op->getName().getStringRef() == "test.probe")
        values.insert(values.end(), op->operand_begin(), op->operand_end());
    });
    return values;
  }

  AxisInfo infoOf(const std::string &body) {
    AxisAnalysis axes;
    return axes.of(probes(body).at(0));
  }

  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

TEST_F(AxisInfoTest, ARangeCountsUp) {
  AxisInfo info = infoOf("%r = core.range 32, 96 : tensor<64xi32>\n"
                         "\"test.probe\"(%r) : (tensor<64xi32>) -> ()");
  EXPECT_EQ(info, (AxisInfo{{64}, {32}, {1}}));
}

TEST_F(AxisInfoTest, ASplatIsEqualAndKeepsItsDivisor) {
  AxisInfo info = infoOf("%s = core.splat %n : i32 -> tensor<64xi32>\n"
                         "\"test.probe\"(%s) : (tensor<64xi32>) -> ()");
  EXPECT_EQ(info, (AxisInfo{{1}, {16}, {64}}));
}

TEST_F(AxisInfoTest, RowsTimesAStrideAreDivisibleAndNotContiguous) {
  AxisInfo info = infoOf(R"(
    %r = core.range 0, 32 : tensor<32xi32>
    %s = core.splat %n : i32 -> tensor<32xi32>
    %o = arith.muli %r, %s : tensor<32xi32>
    "test.probe"(%o) : (tensor<32xi32>) -> ())");
  EXPECT_EQ(info.contiguity, List{1});
  EXPECT_EQ(info.divisibility, List{16});
  EXPECT_EQ(info.constancy, List{1});
}

TEST_F(AxisInfoTest, AnUnknownStartKeepsRunsButNotTheirAlignment) {
  AxisInfo info = infoOf(R"(
    %r = core.range 0, 32 : tensor<32xi32>
    %s = core.splat %m : i32 -> tensor<32xi32>
    %o = arith.addi %r, %s : tensor<32xi32>
    "test.probe"(%o) : (tensor<32xi32>) -> ())");
  EXPECT_EQ(info, (AxisInfo{{32}, {1}, {1}}));
}

TEST_F(AxisInfoTest, DifferencesKeepRunsOfTheLeftSideOnly) {
  const char *body = R"(
    %r = core.range 0, 32 : tensor<32xi32>
    %s = core.splat %n : i32 -> tensor<32xi32>
    %a = arith.subi %r, %s : tensor<32xi32>
    %b = arith.subi %s, %r : tensor<32xi32>
    "test.probe"(%a, %b) : (tensor<32xi32>, tensor<32xi32>) -> ())";
  std::vector<mlir::Value> values = probes(body);
  AxisAnalysis axes;
  EXPECT_EQ(axes.of(values[0]), (AxisInfo{{32}, {16}, {1}}));
  EXPECT_EQ(axes.of(values[1]).contiguity, List{1});
}

TEST_F(AxisInfoTest, RemaindersAndQuotientsCutRuns) {
  const char *body = R"(
    %r = core.range 0, 64 : tensor<64xi32>
    %c = arith.constant dense<16> : tensor<64xi32>
    %x = arith.remsi %r, %c : tensor<64xi32>
    %y = arith.divsi %r, %c : tensor<64xi32>
    "test.probe"(%x, %y) : (tensor<64xi32>, tensor<64xi32>) -> ())";
  std::vector<mlir::Value> values = probes(body);
  AxisAnalysis axes;
  EXPECT_EQ(axes.of(values[0]).contiguity, List{16});
  EXPECT_EQ(axes.of(values[1]).constancy, List{16});
  EXPECT_EQ(axes.of(values[1]).contiguity, List{1});
}

TEST_F(AxisInfoTest, AComparisonIsEqualOverWholeRuns) {
  const char *body = R"(
    %r = core.range 0, 64 : tensor<64xi32>
    %n64 = core.splat %n : i32 -> tensor<64xi32>
    %m64 = core.splat %m : i32 -> tensor<64xi32>
    %a = arith.cmpi slt, %r, %n64 : tensor<64xi32>
    %b = arith.cmpi slt, %r, %m64 : tensor<64xi32>
    %c = arith.cmpi sgt, %n64, %r : tensor<64xi32>
    %d = arith.cmpi eq, %r, %n64 : tensor<64xi32>
    "test.probe"(%a, %b, %c, %d) : (tensor<64xi1>, tensor<64xi1>, tensor<64xi1>, tensor<64xi1>) -> ())";
  std::vector<mlir::Value> values = probes(body);
  AxisAnalysis axes;
  EXPECT_EQ(axes.of(values[0]).constancy, List{16});
  EXPECT_EQ(axes.of(values[1]).constancy, List{1});
  EXPECT_EQ(axes.of(values[2]).constancy, List{16});
  EXPECT_EQ(axes.of(values[3]).constancy, List{1});
}

TEST_F(AxisInfoTest, ALoopCounterDividesByItsStep) {
  AxisInfo info = infoOf(R"(
    %zero = arith.constant 0 : i32
    %step = arith.constant 64 : i32
    scf.for %k = %zero to %m step %step : i32 {
      %r = core.range 0, 64 : tensor<64xi32>
      %s = core.splat %k : i32 -> tensor<64xi32>
      %o = arith.addi %s, %r : tensor<64xi32>
      "test.probe"(%o) : (tensor<64xi32>) -> ()
    })");
  EXPECT_EQ(info, (AxisInfo{{64}, {64}, {1}}));
}

TEST_F(AxisInfoTest, ACarriedTileIsWhatAllIterationsPromise) {
  const char *body = R"(
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %r = core.range 0, 64 : tensor<64xi32>
    %c = arith.constant dense<8> : tensor<64xi32>
    %odd = arith.constant dense<3> : tensor<64xi32>
    %x:2 = scf.for %k = %zero to %m step %one iter_args(%a = %r, %b = %r)
        -> (tensor<64xi32>, tensor<64xi32>) : i32 {
      "test.probe"(%a, %b) : (tensor<64xi32>, tensor<64xi32>) -> ()
      %a1 = arith.addi %a, %c : tensor<64xi32>
      %b1 = arith.addi %b, %odd : tensor<64xi32>
      scf.yield %a1, %b1 : tensor<64xi32>, tensor<64xi32>
    })";
  std::vector<mlir::Value> values = probes(body);
  AxisAnalysis axes;
  EXPECT_EQ(axes.of(values[0]), (AxisInfo{{64}, {8}, {1}}));
  EXPECT_EQ(axes.of(values[1]), (AxisInfo{{64}, {1}, {1}}));
}

// Pointers divide in bytes; an access takes at most 16.
TEST_F(AxisInfoTest, VectorsAreAsWideAsAlignmentAndMaskAllow) {
  const char *body = R"(
    %r = core.range 0, 256 : tensor<256xi32>
    %ps = core.splat %p : !core.ptr<f32> -> tensor<256x!core.ptr<f32>>
    %qs = core.splat %q : !core.ptr<f32> -> tensor<256x!core.ptr<f32>>
    %fs = core.splat %f : !core.ptr<f16> -> tensor<256x!core.ptr<f16>>
    %a = core.addptr %ps, %r : tensor<256x!core.ptr<f32>>, tensor<256xi32>
    %b = core.addptr %qs, %r : tensor<256x!core.ptr<f32>>, tensor<256xi32>
    %c = core.addptr %fs, %r : tensor<256x!core.ptr<f16>>, tensor<256xi32>
    %ns = core.splat %n : i32 -> tensor<256xi32>
    %ms = core.splat %m : i32 -> tensor<256xi32>
    %whole = arith.cmpi slt, %r, %ns : tensor<256xi32>
    %cut = arith.cmpi slt, %r, %ms : tensor<256xi32>
    "test.probe"(%a, %b, %c, %whole, %cut) : (tensor<256x!core.ptr<f32>>, tensor<256x!core.ptr<f32>>,
      tensor<256x!core.ptr<f16>>, tensor<256xi1>, tensor<256xi1>) -> ())";
  std::vector<mlir::Value> values = probes(body);
  AxisAnalysis axes;
  EXPECT_EQ(axes.vectorWidth(values[0], {}, 0), 4u);
  EXPECT_EQ(axes.vectorWidth(values[1], {}, 0),
            1u); // aligned to its element only
  EXPECT_EQ(axes.vectorWidth(values[2], {}, 0), 8u);
  EXPECT_EQ(axes.vectorWidth(values[2], values[3], 0), 8u);
  EXPECT_EQ(axes.vectorWidth(values[2], values[4], 0), 1u);
}

TEST_F(AxisInfoTest, ATransposedTileIsContiguousAlongItsFirstDimension) {
  const char *body = R"(
    %r = core.range 0, 32 : tensor<32xi32>
    %row = core.expand_dims %r, 1 : tensor<32xi32> -> tensor<32x1xi32>
    %col = core.expand_dims %r, 0 : tensor<32xi32> -> tensor<1x32xi32>
    %s = core.splat %n : i32 -> tensor<32x1xi32>
    %rows = arith.muli %row, %s : tensor<32x1xi32>
    %x = core.broadcast %rows : tensor<32x1xi32> -> tensor<32x32xi32>
    %y = core.broadcast %col : tensor<1x32xi32> -> tensor<32x32xi32>
    %o = arith.addi %x, %y : tensor<32x32xi32>
    %ps = core.splat %p : !core.ptr<f32> -> tensor<32x32x!core.ptr<f32>>
    %a = core.addptr %ps, %o : tensor<32x32x!core.ptr<f32>>, tensor<32x32xi32>
    %t = core.trans %a [1, 0] : tensor<32x32x!core.ptr<f32>> -> tensor<32x32x!core.ptr<f32>>
    "test.probe"(%a, %t) : (tensor<32x32x!core.ptr<f32>>, tensor<32x32x!core.ptr<f32>>) -> ())";
  std::vector<mlir::Value> values = probes(body);
  AxisAnalysis axes;
  EXPECT_EQ(axes.fastestDim(values[0]), 1u);
  EXPECT_EQ(axes.vectorWidth(values[0], {}, 1), 4u);
  EXPECT_EQ(axes.fastestDim(values[1]), 0u);
  EXPECT_EQ(axes.vectorWidth(values[1], {}, 0), 4u);
}

TEST_F(AxisInfoTest, HintsRaiseWhatIsKnown) {
  AxisInfo info = infoOf(R"(
    %s = core.splat %m : i32 -> tensor<32xi32>
    %h = core.hint %s {divisibility = array<i32: 8>} : tensor<32xi32>
    "test.probe"(%h) : (tensor<32xi32>) -> ())");
  EXPECT_EQ(info.divisibility, List{8});
}

//===-- Random expressions
//----------------------------------------------------------------------===//

/// A tile of the IR and what it holds for arguments %n and %m.
struct Evaluated {
  mlir::Value value;
  std::vector<int64_t> elements;
};

class RandomExpressions {
public:
  RandomExpressions(mlir::func::FuncOp kernel, unsigned seed)
      : random(seed),
        b(mlir::OpBuilder::atBlockBegin(&kernel.getBody().front())),
        loc(kernel.getLoc()),
        type(mlir::RankedTensorType::get({Extent}, b.getI32Type())) {
    int32_t start = 8 * int32_t(random() % 4);
    add(core::RangeOp::create(b, loc, type, start, start + Extent),
        [&](int64_t i) { return start + i; });
    int64_t n = 16 * int64_t(random() % 8), m = int64_t(random() % 100);
    for (auto [argument, value] : {std::pair(3, n), std::pair(4, m)})
      add(core::SplatOp::create(b, loc, type,
                                kernel.getArgument(unsigned(argument))),
          [value = value](int64_t) { return value; });
    for (int32_t value : {1, 4, 16, 6})
      add(mlir::arith::ConstantOp::create(
              b, loc, mlir::DenseElementsAttr::get(type, value)),
          [=](int64_t) { return value; });
  }

  void step() {
    const Evaluated x = pick(), y = pick();
    auto bigger = [&] {
      return llvm::any_of(x.elements,
                          [](int64_t e) { return std::abs(e) > 10000; }) ||
             llvm::any_of(y.elements,
                          [](int64_t e) { return std::abs(e) > 10000; });
    };
    bool positive =
        llvm::all_of(x.elements, [](int64_t e) { return e >= 0; }) &&
        llvm::all_of(y.elements, [](int64_t e) { return e > 0; });
    namespace arith = mlir::arith;
    switch (random() % 6) {
    case 0:
      return add(arith::AddIOp::create(b, loc, x.value, y.value),
                 [&](int64_t i) { return x.elements[i] + y.elements[i]; });
    case 1:
      return add(arith::SubIOp::create(b, loc, x.value, y.value),
                 [&](int64_t i) { return x.elements[i] - y.elements[i]; });
    case 2:
      if (!bigger())
        add(arith::MulIOp::create(b, loc, x.value, y.value),
            [&](int64_t i) { return x.elements[i] * y.elements[i]; });
      return;
    case 3:
      if (positive)
        add(arith::DivSIOp::create(b, loc, x.value, y.value),
            [&](int64_t i) { return x.elements[i] / y.elements[i]; });
      return;
    case 4:
      if (positive)
        add(arith::RemSIOp::create(b, loc, x.value, y.value),
            [&](int64_t i) { return x.elements[i] % y.elements[i]; });
      return;
    default:
      return compare(x, y);
    }
  }

  std::vector<Evaluated> tiles, masks;

private:
  static constexpr int32_t Extent = 64;

  const Evaluated pick() { return tiles[random() % tiles.size()]; }

  void compare(const Evaluated &x, const Evaluated &y) {
    using P = mlir::arith::CmpIPredicate;
    const std::pair<P, bool (*)(int64_t, int64_t)> kinds[] = {
        {P::slt, [](int64_t p, int64_t q) { return p < q; }},
        {P::sle, [](int64_t p, int64_t q) { return p <= q; }},
        {P::sgt, [](int64_t p, int64_t q) { return p > q; }},
        {P::sge, [](int64_t p, int64_t q) { return p >= q; }},
        {P::eq, [](int64_t p, int64_t q) { return p == q; }}};
    auto [predicate, holds] = kinds[random() % 5];
    Evaluated mask{
        mlir::arith::CmpIOp::create(b, loc, predicate, x.value, y.value), {}};
    for (int64_t i = 0; i < Extent; ++i)
      mask.elements.push_back(holds(x.elements[i], y.elements[i]));
    masks.push_back(mask);
  }

  void add(mlir::Value value, llvm::function_ref<int64_t(int64_t)> element) {
    Evaluated made{value, {}};
    for (int64_t i = 0; i < Extent; ++i)
      made.elements.push_back(element(i));
    tiles.push_back(made);
  }

  std::mt19937 random;
  mlir::OpBuilder b;
  mlir::Location loc;
  mlir::RankedTensorType type;
};

void expectTrue(const AxisInfo &info, const Evaluated &tile) {
  const std::vector<int64_t> &e = tile.elements;
  for (size_t i = 0; i < e.size(); ++i) {
    size_t run = i - i % size_t(info.contiguity[0]),
           equal = i - i % size_t(info.constancy[0]);
    ASSERT_EQ(e[i], e[run] + int64_t(i - run))
        << "contiguity " << info.contiguity[0];
    ASSERT_EQ(e[i], e[equal]) << "constancy " << info.constancy[0];
    ASSERT_EQ(e[run] % info.divisibility[0], 0)
        << "divisibility " << info.divisibility[0];
  }
}

TEST_F(AxisInfoTest, RandomExpressionsHoldWhatIsSaidOfThem) {
  for (unsigned seed = 0; seed < 400; ++seed) {
    probes("");
    RandomExpressions expressions(*module->getOps<mlir::func::FuncOp>().begin(),
                                  seed);
    for (int i = 0; i < 12; ++i)
      expressions.step();
    AxisAnalysis axes;
    for (const auto *list : {&expressions.tiles, &expressions.masks})
      for (const Evaluated &tile : *list) {
        std::string text;
        llvm::raw_string_ostream(text)
            << "seed " << seed << ", " << tile.value << "\n"
            << **module;
        SCOPED_TRACE(text);
        expectTrue(axes.of(tile.value), tile);
        if (HasFatalFailure())
          return;
      }
  }
}

} // namespace
} // namespace tilery::simt
