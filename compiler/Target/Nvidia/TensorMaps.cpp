// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Target/Nvidia/TensorMaps.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace tilery::nvidia {
namespace {

// What no mask cuts off lies inside of the array: any extent will do.
constexpr int64_t Unbounded = 0x7fffffff;

//===-- Expressions: ["constant", n], ["argument", i], ["add", x, y], ... --------------------------===//

using Kind = HostExpression::Kind;
constexpr std::pair<Kind, StringLiteral> kindNames[] = {
    {Kind::Constant, "constant"},     {Kind::Argument, "argument"}, {Kind::Add, "add"},
    {Kind::Subtract, "subtract"},     {Kind::Multiply, "multiply"}, {Kind::DivideSigned, "divide"},
    {Kind::Minimum, "minimum"},       {Kind::Maximum, "maximum"}};

StringRef nameOf(Kind kind) {
  for (auto &[candidate, name] : kindNames)
    if (candidate == kind)
      return name;
  llvm_unreachable("all kinds are listed");
}

Attribute leaf(Builder &b, Kind kind, int64_t value) {
  return b.getArrayAttr({b.getStringAttr(nameOf(kind)), b.getI64IntegerAttr(value)});
}

Attribute expressionAttr(Builder &b, Value value) {
  APInt number;
  if (matchPattern(value, m_ConstantInt(&number)))
    return leaf(b, Kind::Constant, number.getSExtValue());
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    if (!isa<func::FuncOp>(argument.getOwner()->getParentOp()) || !argument.getType().isInteger())
      return {};
    return leaf(b, Kind::Argument, argument.getArgNumber());
  }
  Operation *op = value.getDefiningOp();
  if (isa<arith::ExtSIOp, arith::TruncIOp, core::HintOp>(op))
    return expressionAttr(b, op->getOperand(0));
  std::optional<Kind> kind;
  if (isa<arith::AddIOp>(op))
    kind = Kind::Add;
  else if (isa<arith::SubIOp>(op))
    kind = Kind::Subtract;
  else if (isa<arith::MulIOp>(op))
    kind = Kind::Multiply;
  else if (isa<arith::DivSIOp>(op))
    kind = Kind::DivideSigned;
  else if (isa<arith::MinSIOp>(op))
    kind = Kind::Minimum;
  else if (isa<arith::MaxSIOp>(op))
    kind = Kind::Maximum;
  if (!kind)
    return {};
  Attribute lhs = expressionAttr(b, op->getOperand(0)), rhs = expressionAttr(b, op->getOperand(1));
  if (!lhs || !rhs)
    return {};
  return b.getArrayAttr({b.getStringAttr(nameOf(*kind)), lhs, rhs});
}

Attribute strideAttr(Builder &b, const AffineTerm &stride) {
  Attribute product = leaf(b, Kind::Constant, stride.factor);
  for (Value scalar : stride.scalars)
    product = b.getArrayAttr(
        {b.getStringAttr(nameOf(Kind::Multiply)), product, expressionAttr(b, scalar)});
  return product;
}

HostExpression expressionOf(Attribute attr) {
  auto list = cast<ArrayAttr>(attr);
  HostExpression expression;
  StringRef name = cast<StringAttr>(list[0]).getValue();
  for (auto &[kind, candidate] : kindNames)
    if (candidate == name)
      expression.kind = kind;
  if (auto number = dyn_cast<IntegerAttr>(list[1])) {
    expression.value = number.getInt();
    return expression;
  }
  expression.lhs = std::make_shared<HostExpression>(expressionOf(list[1]));
  expression.rhs = std::make_shared<HostExpression>(expressionOf(list[2]));
  return expression;
}

std::string elementName(Type element) {
  if (element.isBF16())
    return "bf16";
  if (isa<Float8E4M3FNType>(element))
    return "fp8e4nv";
  if (isa<Float8E5M2Type>(element))
    return "fp8e5";
  std::string bits = std::to_string(element.getIntOrFloatBitWidth());
  return (isa<FloatType>(element) ? "fp" : "i") + bits;
}

} // namespace

Attribute tensorMapAttr(const AffineAccess &access, simt::BufferType buffer) {
  Builder b(buffer.getContext());
  SmallVector<Attribute> extents, strides;
  SmallVector<int32_t> box;
  for (auto [position, dim] : llvm::enumerate(access.dims)) {
    Attribute extent = dim.extent ? expressionAttr(b, dim.extent)
                                  : leaf(b, Kind::Constant, Unbounded);
    if (!extent)
      return {};
    extents.push_back(extent);
    if (position)
      strides.push_back(strideAttr(b, dim.stride));
    box.push_back(int32_t(position ? dim.box : buffer.panelBytes() / buffer.elementBytes()));
  }
  return b.getDictionaryAttr(
      {b.getNamedAttr("pointer", b.getI32IntegerAttr(
                                     int32_t(cast<BlockArgument>(access.base).getArgNumber()))),
       b.getNamedAttr("element", b.getStringAttr(elementName(access.element))),
       b.getNamedAttr("extents", b.getArrayAttr(extents)),
       b.getNamedAttr("strides", b.getArrayAttr(strides)),
       b.getNamedAttr("box", b.getDenseI32ArrayAttr(box)),
       b.getNamedAttr("swizzle", b.getI32IntegerAttr(int32_t(buffer.panelBytes())))});
}

TensorMapRecipe recipeOf(Attribute attr) {
  auto dictionary = cast<DictionaryAttr>(attr);
  TensorMapRecipe recipe;
  recipe.pointer = int32_t(dictionary.getAs<IntegerAttr>("pointer").getInt());
  recipe.element = dictionary.getAs<StringAttr>("element").str();
  for (Attribute extent : dictionary.getAs<ArrayAttr>("extents"))
    recipe.extents.push_back(expressionOf(extent));
  for (Attribute stride : dictionary.getAs<ArrayAttr>("strides"))
    recipe.strides.push_back(expressionOf(stride));
  ArrayRef<int32_t> box = dictionary.getAs<DenseI32ArrayAttr>("box").asArrayRef();
  recipe.box.assign(box.begin(), box.end());
  recipe.swizzleBytes = int32_t(dictionary.getAs<IntegerAttr>("swizzle").getInt());
  return recipe;
}

} // namespace tilery::nvidia
