// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Constants compute as in Python: // and % round down, / is float, integers must fit 64 bits.
#include "compiler/Frontend/ConstantArithmetic.h"

#include "compiler/Frontend/Generator.h"

#include <cmath>

namespace tilery::frontend {

static Value checkedInt(Generator &gen, __int128 value) {
  if (value < -(__int128(1) << 63) || value >= (__int128(1) << 64))
    gen.fail("the constant " + toString(value) + " does not fit 64 bits");
  return Int{value};
}

static __int128 floorDiv(__int128 a, __int128 b) {
  __int128 quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

static __int128 power(Generator &gen, __int128 base, __int128 exponent) {
  if (base >= -1 && base <= 1) // any exponent, without a loop
    return exponent == 0 || (base == -1 && exponent % 2 == 0) ? 1 : base;
  __int128 result = 1;
  for (; exponent > 0; --exponent) {
    result *= base;
    checkedInt(gen, result);
  }
  return result;
}

static Value shiftLeft(Generator &gen, __int128 a, __int128 b) {
  if (b > 64 && a != 0)
    gen.fail("a constant shifted by " + toString(b) + " does not fit 64 bits");
  return checkedInt(gen, a == 0 ? 0 : a * (__int128(1) << int(b)));
}

static Value foldInts(Generator &gen, BinaryOp op, __int128 a, __int128 b) {
  bool divides = op == BinaryOp::Div || op == BinaryOp::FloorDiv || op == BinaryOp::Mod;
  if (divides && b == 0)
    gen.fail("division by zero in a constant");
  if ((op == BinaryOp::Shl || op == BinaryOp::Shr) && b < 0)
    gen.fail("a negative shift count in a constant");
  switch (op) {
  case BinaryOp::Add: return checkedInt(gen, a + b);
  case BinaryOp::Sub: return checkedInt(gen, a - b);
  case BinaryOp::Mul: {
    __int128 product;
    if (__builtin_mul_overflow(a, b, &product))
      gen.fail("the constant product does not fit 64 bits");
    return checkedInt(gen, product);
  }
  case BinaryOp::Div: return double(a) / double(b);
  case BinaryOp::FloorDiv: return checkedInt(gen, floorDiv(a, b));
  case BinaryOp::Mod: return checkedInt(gen, a - floorDiv(a, b) * b);
  case BinaryOp::Pow:
    if (b < 0)
      return std::pow(double(a), double(b));
    return checkedInt(gen, power(gen, a, b));
  case BinaryOp::And: return checkedInt(gen, a & b);
  case BinaryOp::Or: return checkedInt(gen, a | b);
  case BinaryOp::Xor: return checkedInt(gen, a ^ b);
  case BinaryOp::Shl: return shiftLeft(gen, a, b);
  case BinaryOp::Shr: return checkedInt(gen, b > 100 ? (a < 0 ? -1 : 0) : a >> int(b));
  case BinaryOp::MatMul: break;
  }
  gen.fail("operator '@' does not go with numbers");
}

static Value foldFloats(Generator &gen, BinaryOp op, double a, double b) {
  bool divides = op == BinaryOp::Div || op == BinaryOp::FloorDiv || op == BinaryOp::Mod;
  if (divides && b == 0)
    gen.fail("division by zero in a constant");
  switch (op) {
  case BinaryOp::Add: return a + b;
  case BinaryOp::Sub: return a - b;
  case BinaryOp::Mul: return a * b;
  case BinaryOp::Div: return a / b;
  case BinaryOp::FloorDiv: return std::floor(a / b);
  case BinaryOp::Mod: return a - std::floor(a / b) * b;
  case BinaryOp::Pow: return std::pow(a, b);
  default: break;
  }
  gen.fail("operator '" + std::string(spelling(op)) + "' needs integers, not floats");
}

static double asDouble(const Value &value) {
  return value.get<double>() ? *value.get<double>() : double(*value.asInt());
}

static Value foldSequences(const Tuple &a, const Tuple &b) {
  std::vector<Value> elements = a.elements;
  elements.insert(elements.end(), b.elements.begin(), b.elements.end());
  return makeTuple(std::move(elements));
}

std::optional<Value> foldBinary(Generator &gen, BinaryOp op, const Value &a, const Value &b) {
  if (a.get<bool>() && b.get<bool>() &&
      (op == BinaryOp::And || op == BinaryOp::Or || op == BinaryOp::Xor)) {
    bool x = *a.get<bool>(), y = *b.get<bool>();
    return Value(op == BinaryOp::And ? x && y : op == BinaryOp::Or ? x || y : x != y);
  }
  if (a.asInt() && b.asInt())
    return foldInts(gen, op, *a.asInt(), *b.asInt());
  if (a.isNumber() && b.isNumber())
    return foldFloats(gen, op, asDouble(a), asDouble(b));
  if (op == BinaryOp::Add && a.tuple() && b.tuple())
    return foldSequences(*a.tuple(), *b.tuple());
  if (op == BinaryOp::Add && a.get<std::string>() && b.get<std::string>())
    return Value(*a.get<std::string>() + *b.get<std::string>());
  return std::nullopt;
}

static std::optional<Value> foldMembership(CompareOp op, const Value &a, const Value &b) {
  if (!b.tuple())
    return std::nullopt;
  bool found = false;
  for (const Value &element : b.tuple()->elements)
    found |= sameConstant(a, element);
  return Value(found == (op == CompareOp::In));
}

template <typename T> static bool ordered(CompareOp op, T a, T b) {
  switch (op) {
  case CompareOp::EQ: return a == b;
  case CompareOp::NE: return a != b;
  case CompareOp::LT: return a < b;
  case CompareOp::LE: return a <= b;
  case CompareOp::GT: return a > b;
  default: return a >= b;
  }
}

std::optional<Value> foldCompare(Generator &gen, CompareOp op, const Value &a, const Value &b) {
  if (op == CompareOp::In || op == CompareOp::NotIn)
    return foldMembership(op, a, b);
  bool identity = op == CompareOp::Is || op == CompareOp::IsNot;
  bool positive = op == CompareOp::Is || op == CompareOp::EQ;
  if (a.isNone() || b.isNone())
    if (identity || op == CompareOp::EQ || op == CompareOp::NE)
      return Value((a.isNone() && b.isNone()) == positive);
  if (a.tile() || b.tile() || a.block() || b.block())
    return std::nullopt;
  if (identity)
    return Value(sameConstant(a, b) == positive);
  if (a.asInt() && b.asInt())
    return Value(ordered(op, *a.asInt(), *b.asInt()));
  if (a.isNumber() && b.isNumber())
    return Value(ordered(op, asDouble(a), asDouble(b)));
  if (op == CompareOp::EQ || op == CompareOp::NE)
    return Value(sameConstant(a, b) == positive);
  if (a.get<std::string>() && b.get<std::string>())
    return Value(ordered(op, *a.get<std::string>(), *b.get<std::string>()));
  gen.fail("operator '" + std::string(spelling(op)) + "' does not go with " + a.describe() +
           " and " + b.describe());
}

std::optional<Value> foldUnary(Generator &gen, UnaryOp op, const Value &a) {
  if (op == UnaryOp::Not) {
    if (a.tile())
      return std::nullopt;
    if (a.isNone())
      return Value(true);
    if (a.isNumber())
      return Value(asDouble(a) == 0);
    if (auto *string = a.get<std::string>())
      return Value(string->empty());
    if (a.tuple())
      return Value(a.tuple()->elements.empty());
    return Value(false);
  }
  if (auto integer = a.asInt()) {
    __int128 value = *integer;
    return checkedInt(gen, op == UnaryOp::Minus ? -value : op == UnaryOp::Invert ? ~value : value);
  }
  if (auto *real = a.get<double>(); real && op != UnaryOp::Invert)
    return Value(op == UnaryOp::Minus ? -*real : *real);
  return std::nullopt;
}

} // namespace tilery::frontend
