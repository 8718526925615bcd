// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Operators on numbers (Python's rules) and on tiles (Triton's rules).
#include "compiler/Frontend/ConstantArithmetic.h"
#include "compiler/Frontend/Generator.h"

#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;

namespace tilery::frontend {

static std::string quoted(const std::string &op) { return "'" + op + "'"; }

// A literal takes the tile's type, which must hold it.
static void checkFits(Generator &gen, const Value &value, DType type) {
  std::optional<__int128> integer = value.asInt();
  if (!integer || isFloat(type) || type == DType::Int1)
    return;
  unsigned bits = bitWidth(type);
  __int128 low = isUnsignedInt(type) ? 0 : -(__int128(1) << (bits - 1));
  __int128 high = __int128(1) << (isUnsignedInt(type) ? bits : bits - 1);
  if (*integer < low || *integer >= high)
    gen.fail("the number " + toString(*integer) + " does not fit " + nameOf(type),
             "convert the tile to a wider or signed type first");
}

void Generator::promoteTogether(const Value &lhs, const Value &rhs, bool division,
                                const std::string &op, Tile &a, Tile &b) {
  a = toTile(lhs);
  b = toTile(rhs);
  if (!a.element.isScalar() || !b.element.isScalar())
    fail("operator " + quoted(op) + " does not go with " + lhs.describe() + " and " +
         rhs.describe());
  DType type;
  if (lhs.isNumber() != rhs.isNumber()) {
    const Value &weak = lhs.isNumber() ? lhs : rhs;
    Tile &weakTile = lhs.isNumber() ? a : b;
    const Tile &strong = lhs.isNumber() ? b : a;
    type = promoteNumber(weakTile.element.dtype, strong.element.dtype, division);
    checkFits(*this, weak, type);
    weakTile = number(weak, type);
  } else {
    std::optional<DType> common = promote(a.element.dtype, b.element.dtype, division);
    if (!common)
      fail("operator " + quoted(op) + " does not mix " + a.element.str() + " and " +
               b.element.str(),
           "convert one with .to(...)");
    type = *common;
  }
  a = cast(a, type);
  b = cast(b, type);
  broadcastTogether(a, b);
}

Tile Generator::addPointer(Tile pointer, Tile offset) {
  if (!isInt(offset.element.dtype) || !offset.element.isScalar())
    fail("a pointer advances by integers, not by " + offset.typeName());
  if (isUnsignedInt(offset.element.dtype) && bitWidth(offset.element.dtype) < 64)
    offset = cast(offset, DType::Int64);
  if (bitWidth(offset.element.dtype) < 32)
    offset = cast(offset, DType::Int32);
  broadcastTogether(pointer, offset);
  if (pointer.element.kind == ElementType::Kind::Signal && !pointer.isScalar())
    fail("signals are addressed one at a time: add a single integer, not a tile");
  return {core::AddPtrOp::create(builder, loc(), pointer.value, offset.value), pointer.element};
}

// Pointer +- integer; nullopt when no operand is a pointer.
static std::optional<Value> pointerArithmetic(Generator &gen, BinaryOp op, const Value &lhs,
                                              const Value &rhs) {
  auto isAddress = [](const Value &value) {
    return value.tile() && !value.tile()->element.isScalar();
  };
  if (!isAddress(lhs) && !isAddress(rhs))
    return std::nullopt;
  if (op == BinaryOp::Add && isAddress(lhs) != isAddress(rhs)) {
    const Value &pointer = isAddress(lhs) ? lhs : rhs;
    const Value &offset = isAddress(lhs) ? rhs : lhs;
    return Value(gen.addPointer(*pointer.tile(), gen.toTile(offset)));
  }
  if (op == BinaryOp::Sub && !isAddress(rhs)) {
    Value negated = gen.unary(UnaryOp::Minus, Value(gen.cast(gen.toTile(rhs), DType::Int64)));
    return Value(gen.addPointer(*lhs.tile(), *negated.tile()));
  }
  gen.fail("operator " + quoted(spelling(op)) + " does not go with " + lhs.describe() + " and " +
               rhs.describe(),
           "pointers can be advanced by integers: ptr + offset");
}

static bool isBitwise(BinaryOp op) {
  return op == BinaryOp::And || op == BinaryOp::Or || op == BinaryOp::Xor ||
         op == BinaryOp::Shl || op == BinaryOp::Shr;
}

// Debug mode: the exact result must fit the type, as Triton checks it.
static void checkOverflow(Generator &gen, BinaryOp op, const Tile &a, const Tile &b) {
  DType type = a.element.dtype;
  const char *name = op == BinaryOp::Add ? "add" : op == BinaryOp::Sub ? "sub" : "mul";
  bool checked = op == BinaryOp::Add || op == BinaryOp::Sub || op == BinaryOp::Mul;
  if (!checked || isFloat(type) || type == DType::Int1 || bitWidth(type) >= 64)
    return;
  unsigned bits = bitWidth(type);
  bool isSigned = isSignedInt(type);
  int64_t low = isSigned ? -(int64_t(1) << (bits - 1)) : 0;
  int64_t high = (int64_t(1) << (isSigned ? bits - 1 : bits)) - 1;
  Tile exact = gen.arithmetic(op, gen.cast(a, DType::Int64), gen.cast(b, DType::Int64));
  auto limit = [&](int64_t value) {
    return gen.splat(gen.integer(value, DType::Int64), exact.shape());
  };
  Tile fits = gen.arithmetic(BinaryOp::And, gen.comparison(CompareOp::GE, exact, limit(low)),
                             gen.comparison(CompareOp::LE, exact, limit(high)));
  core::AssertOp::create(gen.builder, gen.loc(), fits.value,
                         "int" + std::to_string(bits) + " overflow detected for operation " + name);
}

Value Generator::binary(BinaryOp op, const Value &lhs, const Value &rhs) {
  if (std::optional<Value> constant = foldBinary(*this, op, lhs, rhs))
    return *constant;
  if (std::optional<Value> pointer = pointerArithmetic(*this, op, lhs, rhs))
    return *pointer;
  if (op == BinaryOp::Pow || op == BinaryOp::MatMul)
    fail("operator " + quoted(spelling(op)) + " does not go with tiles",
         op == BinaryOp::MatMul ? "write tl.dot(a, b)" : "write x * x, or tl.exp2(y * tl.log2(x))");
  bool division = op == BinaryOp::Div || op == BinaryOp::FloorDiv || op == BinaryOp::Mod;
  Tile a, b;
  promoteTogether(lhs, rhs, division, spelling(op), a, b);
  if (isFloat(a.element.dtype) && (isBitwise(op) || op == BinaryOp::FloorDiv))
    fail("operator " + quoted(spelling(op)) + " needs integers, not " + a.element.str(),
         op == BinaryOp::FloorDiv ? "write tl.floor(a / b)" : "");
  if (op == BinaryOp::Div && isInt(a.element.dtype)) {
    a = cast(a, DType::FP32);
    b = cast(b, DType::FP32);
  }
  if (checks.debug)
    checkOverflow(*this, op, a, b);
  return arithmetic(op, a, b);
}

template <typename FloatOp, typename SignedOp, typename UnsignedOp>
static mlir::Value byType(OpBuilder &builder, Location loc, DType type, mlir::Value a,
                          mlir::Value b) {
  if (isFloat(type))
    return FloatOp::create(builder, loc, a, b);
  if (isUnsignedInt(type))
    return UnsignedOp::create(builder, loc, a, b);
  return SignedOp::create(builder, loc, a, b);
}

// int1 wraps like every integer: + and - are exclusive or, * is and. A shift by one leaves nothing, and
// the only divisor is 1, as x // 0 is 0 and x % 0 is x.
static std::optional<BinaryOp> onBooleans(BinaryOp op) {
  switch (op) {
  case BinaryOp::Add:
  case BinaryOp::Sub: return BinaryOp::Xor;
  case BinaryOp::Mul:
  case BinaryOp::FloorDiv: return BinaryOp::And;
  default: return std::nullopt;
  }
}

Tile Generator::arithmetic(BinaryOp op, Tile a, Tile b) {
  DType type = a.element.dtype;
  if (type == DType::Int1) {
    if (std::optional<BinaryOp> logical = onBooleans(op))
      return arithmetic(*logical, a, b);
    if (op == BinaryOp::Shl || op == BinaryOp::Shr || op == BinaryOp::Mod) {
      Tile ones = splat(number(true, DType::Int1), b.shape());
      return arithmetic(BinaryOp::And, a, arithmetic(BinaryOp::Xor, b, ones));
    }
  }
  Location here = loc();
  auto pair = [&](auto make) { return Tile{make(a.value, b.value), a.element}; };
  switch (op) {
  case BinaryOp::Add:
    return pair([&](auto x, auto y) { return byType<arith::AddFOp, arith::AddIOp, arith::AddIOp>(builder, here, type, x, y); });
  case BinaryOp::Sub:
    return pair([&](auto x, auto y) { return byType<arith::SubFOp, arith::SubIOp, arith::SubIOp>(builder, here, type, x, y); });
  case BinaryOp::Mul:
    return pair([&](auto x, auto y) { return byType<arith::MulFOp, arith::MulIOp, arith::MulIOp>(builder, here, type, x, y); });
  case BinaryOp::Div:
  case BinaryOp::FloorDiv: // integer tiles divide towards zero, as in Triton
    return pair([&](auto x, auto y) { return byType<arith::DivFOp, arith::DivSIOp, arith::DivUIOp>(builder, here, type, x, y); });
  case BinaryOp::Mod:
    return pair([&](auto x, auto y) { return byType<arith::RemFOp, arith::RemSIOp, arith::RemUIOp>(builder, here, type, x, y); });
  case BinaryOp::Shr:
    return pair([&](auto x, auto y) { return byType<arith::AddFOp, arith::ShRSIOp, arith::ShRUIOp>(builder, here, type, x, y); });
  case BinaryOp::And: return {arith::AndIOp::create(builder, here, a.value, b.value), a.element};
  case BinaryOp::Or: return {arith::OrIOp::create(builder, here, a.value, b.value), a.element};
  case BinaryOp::Xor: return {arith::XOrIOp::create(builder, here, a.value, b.value), a.element};
  case BinaryOp::Shl: return {arith::ShLIOp::create(builder, here, a.value, b.value), a.element};
  case BinaryOp::Pow:
  case BinaryOp::MatMul: break;
  }
  fail("operator " + quoted(spelling(op)) + " does not go with tiles");
}

static arith::CmpFPredicate floatPredicate(CompareOp op) {
  switch (op) {
  case CompareOp::EQ: return arith::CmpFPredicate::OEQ;
  case CompareOp::NE: return arith::CmpFPredicate::UNE; // NaN differs from everything
  case CompareOp::LT: return arith::CmpFPredicate::OLT;
  case CompareOp::LE: return arith::CmpFPredicate::OLE;
  case CompareOp::GT: return arith::CmpFPredicate::OGT;
  default: return arith::CmpFPredicate::OGE;
  }
}

static arith::CmpIPredicate intPredicate(CompareOp op, bool isUnsigned) {
  using P = arith::CmpIPredicate;
  switch (op) {
  case CompareOp::EQ: return P::eq;
  case CompareOp::NE: return P::ne;
  case CompareOp::LT: return isUnsigned ? P::ult : P::slt;
  case CompareOp::LE: return isUnsigned ? P::ule : P::sle;
  case CompareOp::GT: return isUnsigned ? P::ugt : P::sgt;
  default: return isUnsigned ? P::uge : P::sge;
  }
}

Tile Generator::comparison(CompareOp op, Tile a, Tile b) {
  ElementType boolean{ElementType::Kind::Scalar, DType::Int1};
  DType type = a.element.dtype;
  if (isFloat(type))
    return {arith::CmpFOp::create(builder, loc(), floatPredicate(op), a.value, b.value), boolean};
  return {arith::CmpIOp::create(builder, loc(), intPredicate(op, isUnsignedInt(type)), a.value,
                                b.value),
          boolean};
}

Value Generator::compare(CompareOp op, const Value &lhs, const Value &rhs) {
  if (std::optional<Value> constant = foldCompare(*this, op, lhs, rhs))
    return *constant;
  if (op >= CompareOp::Is)
    fail("'" + std::string(spelling(op)) + "' compares constants only, not " + lhs.describe() +
         " and " + rhs.describe());
  auto address = [](const Value &value) {
    return value.tile() && !value.tile()->element.isScalar();
  };
  Value a = lhs, b = rhs;
  if (address(lhs) && address(rhs)) {
    a = cast(*lhs.tile(), DType::UInt64);
    b = cast(*rhs.tile(), DType::UInt64);
  }
  Tile x, y;
  promoteTogether(a, b, false, spelling(op), x, y);
  return comparison(op, x, y);
}

Value Generator::unary(UnaryOp op, const Value &operand) {
  if (std::optional<Value> constant = foldUnary(*this, op, operand))
    return *constant;
  Tile tile = toTile(operand);
  if (op == UnaryOp::Not) {
    Tile boolean = truth(operand);
    return arithmetic(BinaryOp::Xor, boolean, splat(number(true, DType::Int1), boolean.shape()));
  }
  if (!tile.element.isScalar())
    fail("operator " + quoted(spelling(op)) + " does not go with " + tile.typeName());
  DType type = tile.element.dtype;
  if (op == UnaryOp::Plus)
    return tile;
  if (op == UnaryOp::Invert) {
    if (isFloat(type))
      fail("operator '~' needs integers, not " + tile.element.str());
    return arithmetic(BinaryOp::Xor, tile, splat(number(Int{-1}, type), tile.shape()));
  }
  if (isFloat(type))
    return Tile{arith::NegFOp::create(builder, loc(), tile.value), tile.element};
  return arithmetic(BinaryOp::Sub, splat(number(Int{0}, type), tile.shape()), tile);
}

Value Generator::select(Tile condition, const Value &whenTrue, const Value &whenFalse) {
  condition = cast(condition, DType::Int1);
  Tile a = toTile(whenTrue), b = toTile(whenFalse);
  if (a.element.isScalar() && b.element.isScalar())
    promoteTogether(whenTrue, whenFalse, false, "tl.where", a, b);
  else if (a.element != b.element)
    fail("tl.where needs two values of one type, not " + a.typeName() + " and " + b.typeName());
  broadcastTogether(a, b);
  Tile mask = condition;
  broadcastTogether(mask, a);
  b = broadcastTo(b, a.shape());
  mask = broadcastTo(mask, a.shape());
  return Tile{arith::SelectOp::create(builder, loc(), mask.value, a.value, b.value), a.element};
}

Tile Generator::maximum(Tile a, Tile b, bool propagateNaN) {
  DType type = a.element.dtype;
  Location here = loc();
  if (isFloat(type) && propagateNaN)
    return {arith::MaximumFOp::create(builder, here, a.value, b.value), a.element};
  return {byType<arith::MaxNumFOp, arith::MaxSIOp, arith::MaxUIOp>(builder, here, type, a.value,
                                                                  b.value),
          a.element};
}

Tile Generator::minimum(Tile a, Tile b, bool propagateNaN) {
  DType type = a.element.dtype;
  Location here = loc();
  if (isFloat(type) && propagateNaN)
    return {arith::MinimumFOp::create(builder, here, a.value, b.value), a.element};
  return {byType<arith::MinNumFOp, arith::MinSIOp, arith::MinUIOp>(builder, here, type, a.value,
                                                                  b.value),
          a.element};
}

} // namespace tilery::frontend
