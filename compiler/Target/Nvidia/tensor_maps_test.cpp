// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// From a load to the recipe that the launcher follows, and its numbers for
// given arguments.
#include "compiler/Target/Nvidia/TensorMaps.h"

#include "mlir/AsmParser/AsmParser.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

namespace tilery::nvidia {
namespace {

using Kind = HostExpression::Kind;

int64_t evaluate(const HostExpression &e,
                 const std::vector<int64_t> &arguments) {
  if (e.kind == Kind::Constant)
    return e.value;
  if (e.kind == Kind::Argument)
    return arguments.at(size_t(e.value));
  int64_t lhs = evaluate(*e.lhs, arguments), rhs = evaluate(*e.rhs, arguments);
  switch (e.kind) {
  case Kind::Add:
    return lhs + rhs;
  case Kind::Subtract:
    return lhs - rhs;
  case Kind::Multiply:
    return lhs * rhs;
  case Kind::DivideSigned:
    return lhs / rhs;
  case Kind::Minimum:
    return std::min(lhs, rhs);
  default:
    return std::max(lhs, rhs);
  }
}

class TensorMapsTest : public testing::Test {
protected:
  TensorMapsTest() {
    context.loadDialect<core::CoreDialect, simt::SimtDialect,
                        mlir::arith::ArithDialect, mlir::func::FuncDialect,
                        mlir::scf::SCFDialect>();
  }

  /// A kernel that loads a 64 x 64 tile of a matrix of %m rows and %n columns.
  core::LoadOp load(const std::string &divisibility,
                    const std::string &columnBound = "%n",
                    const std::string &between = "") {
    std::string text = R"(
func.func @kernel(%p: !core.ptr<bf16> {core.divisibility = 16 : i32}, %m: i32, %n: i32,
                  %stride: i32 {core.divisibility = )" +
                       divisibility + R"( : i32}) {
  %id = core.program_id 0 : i32
  %c64 = arith.constant 64 : i32
  %first = arith.muli %id, %c64 : i32
  %r = core.range 0, 64 : tensor<64xi32>
  %f = core.splat %first : i32 -> tensor<64xi32>
  %rows = arith.addi %f, %r : tensor<64xi32>
  %row = core.expand_dims %rows, 1 : tensor<64xi32> -> tensor<64x1xi32>
  %col = core.expand_dims %r, 0 : tensor<64xi32> -> tensor<1x64xi32>
  %s = core.splat %stride : i32 -> tensor<64x1xi32>
  %ro = arith.muli %row, %s : tensor<64x1xi32>
  %rob = core.broadcast %ro : tensor<64x1xi32> -> tensor<64x64xi32>
  %cob = core.broadcast %col : tensor<1x64xi32> -> tensor<64x64xi32>
  %o = arith.addi %rob, %cob : tensor<64x64xi32>
  %ps = core.splat %p : !core.ptr<bf16> -> tensor<64x64x!core.ptr<bf16>>
  %a = core.addptr %ps, %o : tensor<64x64x!core.ptr<bf16>>, tensor<64x64xi32>
)" + between + R"(
  %ms = core.splat %m : i32 -> tensor<64x1xi32>
  %ns = core.splat )" + columnBound +
                       R"( : i32 -> tensor<1x64xi32>
  %mr = arith.cmpi slt, %row, %ms : tensor<64x1xi32>
  %mc = arith.cmpi slt, %col, %ns : tensor<1x64xi32>
  %mrb = core.broadcast %mr : tensor<64x1xi1> -> tensor<64x64xi1>
  %mcb = core.broadcast %mc : tensor<1x64xi1> -> tensor<64x64xi1>
  %mask = arith.andi %mrb, %mcb : tensor<64x64xi1>
  %v = core.load %a mask %mask : tensor<64x64x!core.ptr<bf16>>, tensor<64x64xi1> -> tensor<64x64xbf16>
  return
})";
    module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
    core::LoadOp found;
    if (module)
      module->walk([&](core::LoadOp op) { found = op; });
    EXPECT_TRUE(found) << text;
    return found;
  }

  std::optional<TensorMapRecipe> recipe(core::LoadOp op) {
    auto access = affineAccess(op);
    if (!access)
      return std::nullopt;
    auto type = simt::BufferType::get(&context, {64, 64}, access->element,
                                      access->fastest);
    mlir::Attribute attr = tensorMapAttr(*access, type);
    return attr ? std::optional(recipeOf(attr)) : std::nullopt;
  }

  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

TEST_F(TensorMapsTest, AMatrixWithMasksAtItsEnds) {
  auto found = recipe(load("8"));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->pointer, 0);
  EXPECT_EQ(found->element, "bf16");
  EXPECT_EQ(found->box, (std::vector<int32_t>{64, 64}));
  EXPECT_EQ(found->swizzleBytes, 128);
  ASSERT_EQ(found->extents.size(), 2u);
  ASSERT_EQ(found->strides.size(), 1u);
  std::vector<int64_t> arguments = {0, 1000, 776, 800};
  EXPECT_EQ(evaluate(found->extents[0], arguments),
            776); // the contiguous dimension first
  EXPECT_EQ(evaluate(found->extents[1], arguments), 1000);
  EXPECT_EQ(evaluate(found->strides[0], arguments), 800);
}

TEST_F(TensorMapsTest, AnExtentThatTheHostCanCompute) {
  auto found = recipe(load("8", "%bound", R"(
  %c2 = arith.constant 2 : i32
  %half = arith.divsi %n, %c2 : i32
  %sum = arith.addi %half, %m : i32
  %bound = arith.minsi %sum, %n : i32)"));
  ASSERT_TRUE(found);
  EXPECT_EQ(evaluate(found->extents[0], {0, 100, 300, 304}), 250);
  EXPECT_EQ(evaluate(found->extents[0], {0, 200, 300, 304}), 300);
}

TEST_F(TensorMapsTest, NoRecipeForWhatOnlyTheDeviceKnows) {
  EXPECT_FALSE(recipe(load("8", "%id")));
}

TEST_F(TensorMapsTest, NoAccessWhoseRowsAreNotAlignedTo16Bytes) {
  EXPECT_FALSE(affineAccess(load("4")));
  EXPECT_FALSE(affineAccess(load("1")));
  EXPECT_TRUE(affineAccess(load("16")));
}

// The attribute's text, as it stands in IR, names every kind of expression.
TEST_F(TensorMapsTest, RecipesAreReadFromAttributes) {
  mlir::Attribute attr = mlir::parseAttribute(R"({
    pointer = 3 : i32, element = "fp8e4nv", swizzle = 64 : i32, box = array<i32: 64, 128, 1>,
    extents = [["constant", 7 : i64],
               ["subtract", ["argument", 1 : i64], ["constant", 2 : i64]],
               ["maximum", ["multiply", ["argument", 0 : i64], ["argument", 1 : i64]],
                           ["minimum", ["argument", 0 : i64], ["constant", 9 : i64]]]],
    strides = [["add", ["argument", 0 : i64], ["constant", 1 : i64]],
               ["divide", ["argument", 1 : i64], ["constant", -2 : i64]]]})",
                                              &context);
  ASSERT_TRUE(attr);
  TensorMapRecipe recipe = recipeOf(attr);
  std::vector<int64_t> arguments = {5, 21};
  EXPECT_EQ(recipe.pointer, 3);
  EXPECT_EQ(recipe.element, "fp8e4nv");
  EXPECT_EQ(recipe.swizzleBytes, 64);
  EXPECT_EQ(recipe.box, (std::vector<int32_t>{64, 128, 1}));
  ASSERT_EQ(recipe.extents.size(), 3u);
  EXPECT_EQ(evaluate(recipe.extents[0], arguments), 7);
  EXPECT_EQ(evaluate(recipe.extents[1], arguments), 19);
  EXPECT_EQ(evaluate(recipe.extents[2], arguments), 105);
  EXPECT_EQ(evaluate(recipe.strides[0], arguments), 6);
  EXPECT_EQ(evaluate(recipe.strides[1], arguments), -10);
}

} // namespace
} // namespace tilery::nvidia
