// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Transcendental functions of fp32, after the Cephes library: within a few units in the last place
// over the whole range, with infinities, NaN and subnormals.
#include "compiler/Conversion/MathExpansion/Arithmetic.h"
#include "compiler/Conversion/MathExpansion/MathExpansion.h"

using namespace mlir;

namespace tilery {

//===-- Arithmetic ------------------------------------------------------------------------------===//

static Type likeOf(Type element, Type like) {
  auto vector = dyn_cast<VectorType>(like);
  return vector ? Type(vector.clone(element)) : element;
}

Arithmetic::Arithmetic(OpBuilder &b, Location loc, Type type)
    : b(b), loc(loc), type(type),
      bits(likeOf(b.getIntegerType(getElementTypeOrSelf(type).getIntOrFloatBitWidth()), type)) {}

static Value constantOf(OpBuilder &b, Location loc, Type type, TypedAttr attr) {
  if (auto vector = dyn_cast<VectorType>(type))
    attr = DenseElementsAttr::get(vector, Attribute(attr));
  return arith::ConstantOp::create(b, loc, attr);
}

Value Arithmetic::number(double value) {
  return constantOf(b, loc, type, b.getFloatAttr(getElementTypeOrSelf(type), value));
}

Value Arithmetic::integer(int64_t value) {
  return constantOf(b, loc, bits, b.getIntegerAttr(getElementTypeOrSelf(bits), value));
}

Value Arithmetic::polynomial(Value x, ArrayRef<double> coefficients) {
  Value sum = number(coefficients[0]);
  for (double coefficient : coefficients.drop_front())
    sum = mulAdd(sum, x, number(coefficient));
  return sum;
}

Value Arithmetic::clamp(Value x, double low, double high) {
  Value below = compare(arith::CmpFPredicate::OLT, x, low);
  Value above = compare(arith::CmpFPredicate::OGT, x, high);
  return select(above, number(high), select(below, number(low), x));
}

// 2^n for integers n that are exponents of normal numbers.
Value Arithmetic::power(Value n) {
  Value biased = arith::AddIOp::create(b, loc, n, integer(isDouble() ? 1023 : 127));
  return asFloat(arith::ShLIOp::create(b, loc, biased, integer(isDouble() ? 52 : 23)));
}

// In two steps, since 2^n may not be representable while the product is.
Value Arithmetic::scale(Value x, Value n) {
  Value half = arith::ShRSIOp::create(b, loc, n, integer(1));
  Value rest = arith::SubIOp::create(b, loc, n, half);
  return mul(mul(x, power(half)), power(rest));
}

// 1.5 * 2^23 (2^52) pushes the fraction out of the mantissa; the integer is in the low bits.
std::pair<Value, Value> Arithmetic::round(Value x) {
  const double magic = isDouble() ? 6755399441055744.0 : 12582912.0;
  const int64_t magicBits = isDouble() ? 0x4338000000000000 : 0x4b400000;
  Value sum = add(x, number(magic));
  Value n = arith::SubIOp::create(b, loc, asBits(sum), integer(magicBits));
  return {sub(sum, number(magic)), n};
}

//===-- Functions -------------------------------------------------------------------------------===//

namespace {

// e^r for |r| <= ln(2)/2.
Value expReduced(Arithmetic &f, Value r) {
  Value p = f.polynomial(r, {1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3,
                             4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1});
  return f.add(f.mulAdd(f.mul(r, r), p, r), f.number(1.0));
}

} // namespace

Value expandExp(Arithmetic &f, Value x) {
  x = f.clamp(x, -104.0, 89.0); // beyond, the result is 0 or infinite
  auto [whole, n] = f.round(f.mul(x, f.number(1.44269504088896341)));
  Value r = f.mulAdd(whole, f.number(-0.693359375), x);
  r = f.mulAdd(whole, f.number(2.12194440e-4), r);
  return f.scale(expReduced(f, r), n);
}

namespace {

Value exp2(Arithmetic &f, Value x) {
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

Logarithm decompose(Arithmetic &f, Value x) {
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

Value logSpecial(Arithmetic &f, Value x, Value result) {
  Value negative = f.compare(arith::CmpFPredicate::OLT, x, 0.0);
  Value zero = f.compare(arith::CmpFPredicate::OEQ, x, 0.0);
  Value large = f.compare(arith::CmpFPredicate::UGT, x, 3.4028234e38); // infinite or NaN
  result = f.select(large, x, result);
  result = f.select(zero, f.number(-INFINITY), result);
  return f.select(negative, f.number(NAN), result);
}

Value log(Arithmetic &f, Value x) {
  Logarithm parts = decompose(f, x);
  Value rest = f.mulAdd(parts.exponent, f.number(-2.12194440e-4), parts.rest);
  Value sum = f.add(parts.fraction, rest);
  return logSpecial(f, x, f.mulAdd(parts.exponent, f.number(0.693359375), sum));
}

Value log2(Arithmetic &f, Value x) {
  const double log2eMinus1 = 0.44269504088896340736;
  Logarithm parts = decompose(f, x);
  Value sum = f.mul(parts.rest, f.number(log2eMinus1));
  sum = f.mulAdd(parts.fraction, f.number(log2eMinus1), sum);
  sum = f.add(f.add(sum, parts.rest), parts.fraction);
  return logSpecial(f, x, f.add(sum, parts.exponent));
}

Value tanh(Arithmetic &f, Value x) {
  Value magnitude = f.abs(x), square = f.mul(x, x);
  Value p = f.polynomial(square, {-5.70498872745e-3, 2.06390887954e-2, -5.37397155531e-2,
                                  1.33314422036e-1, -3.33332819422e-1});
  Value small = f.mulAdd(f.mul(p, square), x, x);
  Value power = expandExp(f, f.add(magnitude, magnitude));
  Value large = f.sub(f.number(1.0), f.div(f.number(2.0), f.add(power, f.number(1.0))));
  large = f.copySign(large, x);
  return f.select(f.compare(arith::CmpFPredicate::OLT, magnitude, 0.625), small, large);
}

Value erf(Arithmetic &f, Value x) {
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
  Value tail = f.mul(f.mul(expandExp(f, f.sub(f.number(0.0), square)), q), p);
  Value large = f.copySign(f.sub(f.number(1.0), tail), x);
  large = f.select(f.compare(arith::CmpFPredicate::OGT, magnitude, 4.0),
                   f.copySign(f.number(1.0), x), large);
  return f.select(f.compare(arith::CmpFPredicate::OLT, magnitude, 1.0), small, large);
}

} // namespace

Value expandFloatMath(OpBuilder &b, Operation *op, ValueRange operands) {
  if (!isa<math::MathDialect>(op->getDialect()) ||
      !getElementTypeOrSelf(operands[0].getType()).isF32())
    return {};
  Arithmetic f(b, op->getLoc(), operands[0].getType());
  Value x = operands[0];
  if (isa<math::ExpOp>(op))
    return expandExp(f, x);
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

} // namespace tilery
