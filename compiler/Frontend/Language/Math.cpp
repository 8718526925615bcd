// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Elementwise mathematics.
#include "compiler/Frontend/Generator.h"

#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;

namespace tilery::frontend {

static constexpr const char *language = "tilery.language";

// Half precision computes in fp32 and rounds once. Python's ints count as floats, tiles of ints
// are refused as in Triton.
template <typename Op> static Value floatFunction(Generator &gen, Arguments &args) {
  Tile tile = args[0].asInt() ? gen.number(args[0], DType::FP32) : gen.toTile(args[0]);
  if (!tile.element.isScalar() || isInt(tile.element.dtype))
    gen.fail("this function needs floats, not " + tile.typeName(),
             "convert with .to(tl.float32)");
  DType original = tile.element.dtype;
  if (bitWidth(original) < 32)
    tile = gen.cast(tile, DType::FP32);
  Tile result{Op::create(gen.builder, gen.loc(), tile.value), tile.element};
  return gen.cast(result, original);
}

static Value absolute(Generator &gen, Arguments &args) {
  Tile tile = gen.toTile(args[0]);
  DType type = tile.element.dtype;
  if (!tile.element.isScalar())
    gen.fail("tl.abs needs numbers, not " + tile.typeName());
  if (isFloat(type))
    return Tile{math::AbsFOp::create(gen.builder, gen.loc(), tile.value), tile.element};
  if (isUnsignedInt(type))
    return tile;
  return Tile{math::AbsIOp::create(gen.builder, gen.loc(), tile.value), tile.element};
}

// Python's abs: of a number a number.
static Value absoluteNumber(Generator &gen, Arguments &args) {
  if (auto *real = args[0].get<double>())
    return std::abs(*real);
  if (std::optional<__int128> integer = args[0].asInt())
    return Int{*integer < 0 ? -*integer : *integer};
  return absolute(gen, args);
}

static bool propagates(Generator &gen, const Value &value) {
  if (auto *choice = value.get<EnumValue>(); choice && choice->kind == "PropagateNan")
    return choice->value == 1;
  if (auto *text = value.get<std::string>())
    if (*text == "none" || *text == "all")
      return *text == "all";
  gen.fail("propagate_nan takes tl.PropagateNan.NONE or ALL, not " + value.describe());
}

static Value extremum(Generator &gen, Arguments &args, bool wantMax) {
  Tile a, b;
  gen.promoteTogether(args[0], args[1], false, wantMax ? "tl.maximum" : "tl.minimum", a, b);
  bool nan = propagates(gen, args[2]);
  return wantMax ? gen.maximum(a, b, nan) : gen.minimum(a, b, nan);
}

static Value clamp(Generator &gen, Arguments &args) {
  Arguments low = {args[0], args[1], args[3]};
  Arguments high = {extremum(gen, low, true), args[2], args[3]};
  return extremum(gen, high, false);
}

static Value fma(Generator &gen, Arguments &args) {
  Tile a, b, c, d;
  gen.promoteTogether(args[0], args[1], false, "tl.fma", a, b);
  gen.promoteTogether(a, args[2], false, "tl.fma", c, d);
  b = gen.broadcastTo(gen.cast(b, c.element.dtype), c.shape());
  if (isInt(c.element.dtype))
    return gen.arithmetic(BinaryOp::Add, gen.arithmetic(BinaryOp::Mul, c, b), d);
  return Tile{math::FmaOp::create(gen.builder, gen.loc(), c.value, b.value, d.value), c.element};
}

static Value divide(Generator &gen, Arguments &args) {
  return gen.binary(BinaryOp::Div, args[0], args[1]);
}

// (x + (d - 1)) // d, as Triton writes it.
static Value cdiv(Generator &gen, Arguments &args) {
  Value less = gen.binary(BinaryOp::Sub, args[1], Int{1});
  return gen.binary(BinaryOp::FloorDiv, gen.binary(BinaryOp::Add, args[0], less), args[1]);
}

static Value umulhi(Generator &gen, Arguments &args) {
  Tile a, b;
  gen.promoteTogether(args[0], args[1], false, "tl.umulhi", a, b);
  if (isFloat(a.element.dtype) || bitWidth(a.element.dtype) < 32)
    gen.fail("tl.umulhi needs 32-bit or 64-bit integers, not " + a.typeName());
  auto op = arith::MulUIExtendedOp::create(gen.builder, gen.loc(), a.value, b.value);
  return Tile{op.getHigh(), a.element};
}

// 1 / (1 + exp(-x))
static Value sigmoid(Generator &gen, Arguments &args) {
  Arguments negated = {gen.unary(UnaryOp::Minus, gen.toTile(args[0]))};
  Value denominator = gen.binary(BinaryOp::Add, 1.0, floatFunction<math::ExpOp>(gen, negated));
  return gen.binary(BinaryOp::Div, 1.0, denominator);
}

void addMathBuiltins(BuiltinTable &table) {
  auto unary = [&](const char *name, Emit emit) { table.add(language, name, "x", emit, true); };
  unary("exp", floatFunction<math::ExpOp>);
  unary("exp2", floatFunction<math::Exp2Op>);
  unary("log", floatFunction<math::LogOp>);
  unary("log2", floatFunction<math::Log2Op>);
  unary("sin", floatFunction<math::SinOp>);
  unary("cos", floatFunction<math::CosOp>);
  unary("sqrt", floatFunction<math::SqrtOp>);
  unary("sqrt_rn", floatFunction<math::SqrtOp>);
  unary("rsqrt", floatFunction<math::RsqrtOp>);
  unary("floor", floatFunction<math::FloorOp>);
  unary("ceil", floatFunction<math::CeilOp>);
  unary("erf", floatFunction<math::ErfOp>);
  unary("tanh", floatFunction<math::TanhOp>);
  unary("abs", absolute);
  unary("sigmoid", sigmoid);
  table.add("builtins", "abs", "x", absoluteNumber);
  table.add(language, "maximum", "x, y, propagate_nan='none'",
            [](Generator &gen, Arguments &args) { return extremum(gen, args, true); });
  table.add(language, "minimum", "x, y, propagate_nan='none'",
            [](Generator &gen, Arguments &args) { return extremum(gen, args, false); });
  table.add(language, "clamp", "x, min, max, propagate_nan='none'", clamp);
  table.add(language, "fma", "x, y, z", fma);
  table.add(language, "fdiv", "x, y, ieee_rounding=False", divide);
  table.add(language, "div_rn", "x, y", divide);
  table.add(language, "cdiv", "x, div", cdiv, true);
  table.add(language, "umulhi", "x, y", umulhi);
  table.add("tilery", "cdiv", "x, div", cdiv);
  table.add(language, "next_power_of_2", "n", [](Generator &gen, Arguments &args) -> Value {
    int64_t n = gen.constantInt(args[0], "the argument of next_power_of_2"), power = 1;
    while (power < n)
      power *= 2;
    return Int{power};
  });
}

} // namespace tilery::frontend
