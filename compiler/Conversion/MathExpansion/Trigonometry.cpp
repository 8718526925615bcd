// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// sin and cos: x = k * pi/2 + r with |r| <= pi/4, then a polynomial of r (fdlibm; Cephes for fp32).
//
// Small arguments are reduced by three parts of pi/2 (Cody and Waite), large ones, in a branch, by the
// bits of 2/pi that matter for their exponent (Payne and Hanek), so that no argument is too large.
#include "compiler/Conversion/MathExpansion/Scalar.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace tilery {
namespace {

struct Reduced {
  Value rest, quadrant; ///< f64; i64, of which the low two bits count
};

// k * part is exact to 83 bits, and so is the first difference.
Reduced reduceSmall(Arithmetic &f, Value x) {
  auto [k, n] = f.round(f.mul(x, f.number(0x1.45f306dc9c883p-1)));
  Value minus = arith::NegFOp::create(f.b, f.loc, k);
  Value r = f.mulAdd(minus, f.number(0x1.921fb54442d18p+0), x);
  r = f.mulAdd(minus, f.number(0x1.1a62633145c07p-54), r);
  return {f.mulAdd(minus, f.number(-0x1.f1976b7ed8fbcp-110), r), n};
}

// 64 zeros, then the bits of 2/pi behind the point.
constexpr uint64_t twoOverPi[] = {
    0,                  0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041,
    0xfe5163abdebbc561, 0xb7246e3a424dd2e0, 0x06492eea09d1921c, 0xfe1deb1cb129a73e,
    0xe88235f52ebb4484, 0xe99c7026b45f7e41, 0x3991d639835339f4, 0x9c845f8bbdf9283b,
    0x1ff897ffde05980f, 0xef2f118b5a0a6d1f, 0x6d367ecf27cb09b7, 0x4f463f669e5fea2d,
    0x7527bac7ebe5f17b, 0x3d0739f78a5292ea, 0x6bfb5fb11f8d5d08, 0x56033046fc7b6bab,
    0xf0cfbc209af4361d};

class Integers {
public:
  explicit Integers(Arithmetic &f) : f(f) {}
  Value shl(Value x, Value n) { return arith::ShLIOp::create(f.b, f.loc, x, n); }
  Value shr(Value x, Value n) { return arith::ShRUIOp::create(f.b, f.loc, x, n); }
  Value add(Value x, Value y) { return arith::AddIOp::create(f.b, f.loc, x, y); }
  Value sub(Value x, Value y) { return arith::SubIOp::create(f.b, f.loc, x, y); }
  Value bitAnd(Value x, int64_t mask) {
    return arith::AndIOp::create(f.b, f.loc, x, f.integer(mask));
  }
  Value bitOr(Value x, Value y) { return arith::OrIOp::create(f.b, f.loc, x, y); }
  Value isNot0(Value x) {
    return arith::CmpIOp::create(f.b, f.loc, arith::CmpIPredicate::ne, x, f.integer(0));
  }
  /// Bits of high:low from `n` (0 .. 63) on.
  Value funnel(Value high, Value low, Value n) {
    Value rest = shr(shr(low, f.integer(1)), sub(f.integer(63), n));
    return bitOr(shl(high, n), rest);
  }

private:
  Arithmetic &f;
};

// The 192 bits of the table from bit `start` on: words are picked by the bits of their number.
SmallVector<Value> windowAt(Arithmetic &f, Value start) {
  Integers i(f);
  Value word = i.shr(start, f.integer(6)), shift = i.bitAnd(start, 63);
  SmallVector<Value> words;
  for (uint64_t bits : twoOverPi)
    words.push_back(f.integer(int64_t(bits)));
  for (unsigned step = 16; step; step /= 2) {
    Value skips = i.isNot0(i.bitAnd(word, step));
    size_t count = std::min<size_t>(step + 3, words.size());
    for (size_t j = 0; j < count; ++j)
      words[j] = j + step < words.size() ? f.select(skips, words[j + step], words[j]) : words[j];
    words.resize(count);
  }
  return {i.funnel(words[0], words[1], shift), i.funnel(words[1], words[2], shift),
          i.funnel(words[2], words[3], shift)};
}

// |x| = m * 2^e, so |x| * 2/pi mod 4 = m * window * 2^-190 where the window of 2/pi starts at the bit of
// weight 2^(1-e): what lies before contributes multiples of 4.
Reduced reduceLarge(Arithmetic &f, Value x) {
  OpBuilder &b = f.b;
  Integers i(f);
  Value bits = f.asBits(x);
  Value biased = i.bitAnd(i.shr(bits, f.integer(52)), 0x7ff);
  Value m = i.bitOr(i.bitAnd(bits, 0xfffffffffffff), f.integer(int64_t(1) << 52));
  SmallVector<Value> window = windowAt(f, i.add(biased, f.integer(62 - 1075)));
  auto product = [&](Value part) { return arith::MulUIExtendedOp::create(b, f.loc, m, part); };
  auto high = product(window[0]), middle = product(window[1]), low = product(window[2]);
  Value p1 = i.add(middle.getLow(), low.getHigh());
  Value carries = arith::CmpIOp::create(b, f.loc, arith::CmpIPredicate::ult, p1, middle.getLow());
  Value p2 = i.add(i.add(high.getLow(), middle.getHigh()),
                   arith::ExtUIOp::create(b, f.loc, f.bits, carries));
  // Two bits of quadrant, then a fraction; as a signed number it is the distance to the nearest.
  Value two = f.integer(2);
  Value fraction = i.funnel(p2, p1, two), tail = i.funnel(p1, low.getLow(), two);
  Value quadrant = i.add(i.shr(p2, f.integer(62)), i.shr(fraction, f.integer(63)));
  Value turns = f.mul(arith::SIToFPOp::create(b, f.loc, f.type, fraction), f.number(0x1p-64));
  turns = f.mulAdd(arith::UIToFPOp::create(b, f.loc, f.type, tail), f.number(0x1p-128), turns);
  Value rest = f.mul(turns, f.number(0x1.921fb54442d18p+0));
  Value negative = f.compare(arith::CmpFPredicate::OLT, x, 0.0);
  return {f.select(negative, arith::NegFOp::create(b, f.loc, rest), rest),
          f.select(negative, i.sub(f.integer(0), quadrant), quadrant)};
}

Reduced reduce(Arithmetic &f, Value x) {
  OpBuilder &b = f.b;
  Value large = f.compare(arith::CmpFPredicate::OGE, f.abs(x), 0x1p30);
  auto branch = scf::IfOp::create(b, f.loc, TypeRange{f.type, f.bits}, large, true);
  OpBuilder::InsertionGuard guard(b);
  for (bool isLarge : {true, false}) {
    b.setInsertionPointToStart(isLarge ? branch.thenBlock() : branch.elseBlock());
    auto [rest, quadrant] = isLarge ? reduceLarge(f, x) : reduceSmall(f, x);
    scf::YieldOp::create(b, f.loc, ValueRange{rest, quadrant});
  }
  return {branch.getResult(0), branch.getResult(1)};
}

struct Functions {
  Value sin, cos;
};

Functions doubleFunctions(Arithmetic &f, Value r) {
  Value z = f.mul(r, r);
  Value s = f.polynomial(z, {1.58969099521155010221e-10, -2.50507602534068634195e-08,
                             2.75573137070700676789e-06, -1.98412698298579493134e-04,
                             8.33333333332248946124e-03, -1.66666666666666324348e-01});
  Value c = f.polynomial(z, {-1.13596475577881948265e-11, 2.08757232129817482790e-09,
                             -2.75573143513906633035e-07, 2.48015872894767294178e-05,
                             -1.38888888888741095749e-03, 4.16666666666666019037e-02});
  Value half = f.mul(z, f.number(0.5)), one = f.number(1.0), rough = f.sub(one, half);
  Value lost = f.sub(f.sub(one, rough), half); // what the subtraction rounded away
  return {f.mulAdd(f.mul(z, r), s, r), f.add(rough, f.mulAdd(f.mul(z, z), c, lost))};
}

Functions singleFunctions(Arithmetic &f, Value r) {
  Value z = f.mul(r, r);
  Value s = f.polynomial(z, {-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1});
  Value c = f.polynomial(z, {2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2});
  Value rough = f.mulAdd(z, f.number(-0.5), f.number(1.0));
  return {f.mulAdd(f.mul(z, r), s, r), f.mulAdd(f.mul(z, z), c, rough)};
}

} // namespace

Value expandTrigonometry(Arithmetic &f, Value x, bool isCos, bool single) {
  OpBuilder &b = f.b;
  Integers i(f);
  auto [rest, quadrant] = reduce(f, x);
  Functions both;
  if (single) {
    Arithmetic g(b, f.loc, b.getF32Type());
    both = singleFunctions(g, arith::TruncFOp::create(b, f.loc, g.type, rest));
    both.sin = arith::ExtFOp::create(b, f.loc, f.type, both.sin);
    both.cos = arith::ExtFOp::create(b, f.loc, f.type, both.cos);
  } else {
    both = doubleFunctions(f, rest);
  }
  if (isCos)
    quadrant = i.add(quadrant, f.integer(1));
  Value result = f.select(i.isNot0(i.bitAnd(quadrant, 1)), both.cos, both.sin);
  Value sign = i.shl(i.bitAnd(quadrant, 2), f.integer(62));
  result = f.asFloat(arith::XOrIOp::create(b, f.loc, f.asBits(result), sign));
  Value infinite = f.compare(arith::CmpFPredicate::UGT, f.abs(x), std::numeric_limits<double>::max());
  return f.select(infinite, f.sub(x, x), result);
}

} // namespace tilery
