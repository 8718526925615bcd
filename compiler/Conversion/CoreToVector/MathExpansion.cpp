// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Vector code for transcendental functions of fp32, after the Cephes library: within a few
// units in the last place over the whole range, with infinities, NaN and subnormals.
// Other functions and fp64 are left to LLVM and libm.
#include "compiler/Conversion/CoreToVector/Elementwise.h"

namespace tilery::vec {
namespace {

// fp32 arithmetic on vectors or scalars, written as in the formulas.
struct Float {
  OpBuilder &b;
  Location loc;
  Type type, bits;

  Float(OpBuilder &b, Location loc, Value like)
      : b(b), loc(loc), type(like.getType()),
        bits(vectorOr(b.getI32Type(), lanesOf(like))) {}

  Value number(double value) { return constantLike(b, loc, type, value); }
  Value integer(int64_t value) { return constantLike(b, loc, bits, double(value)); }
  Value add(Value x, Value y) { return arith::AddFOp::create(b, loc, x, y); }
  Value sub(Value x, Value y) { return arith::SubFOp::create(b, loc, x, y); }
  Value mul(Value x, Value y) { return arith::MulFOp::create(b, loc, x, y); }
  Value div(Value x, Value y) { return arith::DivFOp::create(b, loc, x, y); }
  Value abs(Value x) { return math::AbsFOp::create(b, loc, x); }
  Value asBits(Value x) { return arith::BitcastOp::create(b, loc, bits, x); }
  Value asFloat(Value x) { return arith::BitcastOp::create(b, loc, type, x); }
  Value select(Value c, Value x, Value y) { return arith::SelectOp::create(b, loc, c, x, y); }
  Value compare(arith::CmpFPredicate predicate, Value x, double y) {
    return arith::CmpFOp::create(b, loc, predicate, x, number(y));
  }
  Value mulAdd(Value x, Value y, Value z) {
    return math::FmaOp::create(b, loc, x, y, z);
  }
  // Horner's scheme, highest power first.
  Value polynomial(Value x, ArrayRef<double> coefficients) {
    Value sum = number(coefficients[0]);
    for (double coefficient : coefficients.drop_front())
      sum = mulAdd(sum, x, number(coefficient));
    return sum;
  }
  // Outside of [low, high] the value at the end; NaN stays.
  Value clamp(Value x, double low, double high) {
    Value below = compare(arith::CmpFPredicate::OLT, x, low);
    Value above = compare(arith::CmpFPredicate::OGT, x, high);
    return select(above, number(high), select(below, number(low), x));
  }
  // 2^n for integers n of -126 .. 127.
  Value power(Value n) {
    Value biased = arith::AddIOp::create(b, loc, n, integer(127));
    return asFloat(arith::ShLIOp::create(b, loc, biased, integer(23)));
  }
  // x * 2^n in two steps, since 2^n may not be representable while the product is.
  Value scale(Value x, Value n) {
    Value half = arith::ShRSIOp::create(b, loc, n, integer(1));
    Value rest = arith::SubIOp::create(b, loc, n, half);
    return mul(mul(x, power(half)), power(rest));
  }
  // x rounded to an integer, as a float and (in the low bits of the sum) an integer.
  std::pair<Value, Value> round(Value x) {
    const double magic = 12582912.0; // 1.5 * 2^23
    Value sum = add(x, number(magic));
    Value n = arith::SubIOp::create(b, loc, asBits(sum), integer(0x4b400000));
    return {sub(sum, number(magic)), n};
  }
};

// e^r for |r| <= ln(2)/2.
Value expReduced(Float &f, Value r) {
  Value p = f.polynomial(r, {1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3,
                             4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1});
  return f.add(f.mulAdd(f.mul(r, r), p, r), f.number(1.0));
}

Value exp(Float &f, Value x) {
  x = f.clamp(x, -104.0, 89.0); // beyond, the result is 0 or infinite
  auto [whole, n] = f.round(f.mul(x, f.number(1.44269504088896341)));
  Value r = f.mulAdd(whole, f.number(-0.693359375), x);
  r = f.mulAdd(whole, f.number(2.12194440e-4), r);
  return f.scale(expReduced(f, r), n);
}

Value exp2(Float &f, Value x) {
  x = f.clamp(x, -151.0, 129.0);
  auto [whole, n] = f.round(x);
  Value r = f.mul(f.sub(x, whole), f.number(0.693147180559945309));
  return f.scale(expReduced(f, r), n);
}

// x = 2^e * (1 + fraction) with 1 + fraction in [sqrt(1/2), sqrt(2)), and the terms of
// log(1 + fraction) beyond the first.
struct Logarithm {
  Value exponent, fraction, rest;
};

Logarithm decompose(Float &f, Value x) {
  Value tiny = f.compare(arith::CmpFPredicate::OLT, x, 1.17549435e-38);
  Value normal = f.select(tiny, f.mul(x, f.number(8388608.0)), x); // 2^23
  Value bits = f.asBits(normal);
  Value offset = arith::SubIOp::create(f.b, f.loc, bits, f.integer(0x3f3504f3)); // sqrt(1/2)
  Value e = arith::ShRSIOp::create(f.b, f.loc, offset, f.integer(23));
  Value shifted = arith::ShLIOp::create(f.b, f.loc, e, f.integer(23));
  Value fraction = f.sub(f.asFloat(arith::SubIOp::create(f.b, f.loc, bits, shifted)),
                         f.number(1.0));
  e = arith::SubIOp::create(f.b, f.loc, e, f.select(tiny, f.integer(23), f.integer(0)));
  Value square = f.mul(fraction, fraction);
  Value rest = f.polynomial(fraction, {7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1,
                                       -1.2420140846e-1, 1.4249322787e-1, -1.6668057665e-1,
                                       2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1});
  rest = f.mul(f.mul(rest, fraction), square);
  return {arith::SIToFPOp::create(f.b, f.loc, f.type, e), fraction,
          f.mulAdd(f.number(-0.5), square, rest)};
}

Value logSpecial(Float &f, Value x, Value result) {
  Value negative = f.compare(arith::CmpFPredicate::OLT, x, 0.0);
  Value zero = f.compare(arith::CmpFPredicate::OEQ, x, 0.0);
  Value large = f.compare(arith::CmpFPredicate::UGT, x, 3.4028234e38); // infinite or NaN
  result = f.select(large, x, result);
  result = f.select(zero, f.number(-INFINITY), result);
  return f.select(negative, f.number(NAN), result);
}

Value log(Float &f, Value x) {
  Logarithm parts = decompose(f, x);
  Value rest = f.mulAdd(parts.exponent, f.number(-2.12194440e-4), parts.rest);
  Value sum = f.add(parts.fraction, rest);
  return logSpecial(f, x, f.mulAdd(parts.exponent, f.number(0.693359375), sum));
}

Value log2(Float &f, Value x) {
  const double log2eMinus1 = 0.44269504088896340736;
  Logarithm parts = decompose(f, x);
  Value sum = f.mul(parts.rest, f.number(log2eMinus1));
  sum = f.mulAdd(parts.fraction, f.number(log2eMinus1), sum);
  sum = f.add(f.add(sum, parts.rest), parts.fraction);
  return logSpecial(f, x, f.add(sum, parts.exponent));
}

Value tanh(Float &f, Value x) {
  Value magnitude = f.abs(x), square = f.mul(x, x);
  Value p = f.polynomial(square, {-5.70498872745e-3, 2.06390887954e-2, -5.37397155531e-2,
                                  1.33314422036e-1, -3.33332819422e-1});
  Value small = f.mulAdd(f.mul(p, square), x, x);
  Value power = exp(f, f.add(magnitude, magnitude));
  Value large = f.sub(f.number(1.0), f.div(f.number(2.0), f.add(power, f.number(1.0))));
  large = math::CopySignOp::create(f.b, f.loc, large, x);
  return f.select(f.compare(arith::CmpFPredicate::OLT, magnitude, 0.625), small, large);
}

Value erf(Float &f, Value x) {
  Value magnitude = f.abs(x), square = f.mul(x, x);
  Value small = f.mul(x, f.polynomial(square, {7.853861353153693e-5, -8.010193625184903e-4,
                                               5.188327685732524e-3, -2.685381193529856e-2,
                                               1.128358514861418e-1, -3.761262582423300e-1,
                                               1.128379165726710e+0}));
  Value q = f.div(f.number(1.0), magnitude), y = f.mul(q, q);
  Value middle = f.polynomial(y, {2.326819970068386e-2, -1.387039388740657e-1,
                                  3.687424674597105e-1, -5.824733027278666e-1,
                                  6.210004621745983e-1, -4.944515323274145e-1,
                                  3.404879937665872e-1, -2.741127028184656e-1,
                                  5.638259427386472e-1});
  Value far = f.polynomial(y, {-1.047766399936249e+1, 1.297719955372516e+1,
                               -7.495518717768503e+0, 2.921019019210786e+0,
                               -1.015265279202700e+0, 4.218463358204948e-1,
                               -2.820767439740514e-1, 5.641895067754075e-1});
  Value p = f.select(f.compare(arith::CmpFPredicate::OLT, magnitude, 2.0), middle, far);
  Value tail = f.mul(f.mul(exp(f, f.sub(f.number(0.0), square)), q), p);
  Value large = math::CopySignOp::create(f.b, f.loc, f.sub(f.number(1.0), tail), x);
  large = f.select(f.compare(arith::CmpFPredicate::OGT, magnitude, 4.0),
                   math::CopySignOp::create(f.b, f.loc, f.number(1.0), x), large);
  return f.select(f.compare(arith::CmpFPredicate::OLT, magnitude, 1.0), small, large);
}

} // namespace

Value emitMath(OpBuilder &b, Operation *op, ArrayRef<Value> operands) {
  if (!isa<math::MathDialect>(op->getDialect()) ||
      !getElementTypeOrSelf(operands[0].getType()).isF32())
    return {};
  Float f(b, op->getLoc(), operands[0]);
  Value x = operands[0];
  if (isa<math::ExpOp>(op))
    return exp(f, x);
  if (isa<math::Exp2Op>(op))
    return exp2(f, x);
  if (isa<math::LogOp>(op))
    return log(f, x);
  if (isa<math::Log2Op>(op))
    return log2(f, x);
  if (isa<math::TanhOp>(op))
    return tanh(f, x);
  if (isa<math::ErfOp>(op))
    return erf(f, x);
  if (isa<math::RsqrtOp>(op))
    return f.div(f.number(1.0), math::SqrtOp::create(b, f.loc, x));
  return {};
}

} // namespace tilery::vec
