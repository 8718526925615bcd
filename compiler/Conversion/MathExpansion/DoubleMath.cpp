// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Functions of fp64, after Cephes and fdlibm: within a few units in the last place; and the list of
// what is expanded on scalars.
#include "compiler/Conversion/MathExpansion/MathExpansion.h"
#include "compiler/Conversion/MathExpansion/Scalar.h"

using namespace mlir;

namespace tilery {
namespace {

// e^r for |r| <= ln(2)/2: Taylor's series, whose next term is below 2^-57.
Value expReduced(Arithmetic &f, Value r) {
  SmallVector<double> coefficients;
  double factorial = 1;
  for (int k = 0; k <= 13; ++k) {
    coefficients.insert(coefficients.begin(), 1 / factorial);
    factorial *= k + 1;
  }
  return f.polynomial(r, coefficients);
}

Value exp2(Arithmetic &f, Value x) {
  x = f.clamp(x, -1080.0, 1025.0); // beyond, the result is 0 or infinite
  auto [whole, n] = f.round(x);
  Value r = f.mul(f.sub(x, whole), f.number(0.693147180559945309417));
  return f.scale(expReduced(f, r), n);
}

/// x = 2^exponent * (1 + fraction), 1 + fraction in [sqrt(1/2), sqrt(2)).
struct Decomposed {
  Value exponent, fraction;
};

Decomposed decompose(Arithmetic &f, Value x) {
  OpBuilder &b = f.b;
  Value tiny = f.compare(arith::CmpFPredicate::OLT, x, 2.2250738585072014e-308);
  Value bits = f.asBits(f.select(tiny, f.mul(x, f.number(18014398509481984.0)), x)); // 2^54
  Value offset = arith::SubIOp::create(b, f.loc, bits, f.integer(0x3fe6a09e667f3bcd)); // sqrt(1/2)
  Value e = arith::ShRSIOp::create(b, f.loc, offset, f.integer(52));
  Value shifted = arith::ShLIOp::create(b, f.loc, e, f.integer(52));
  Value fraction = f.sub(f.asFloat(arith::SubIOp::create(b, f.loc, bits, shifted)), f.number(1.0));
  e = arith::SubIOp::create(b, f.loc, e, f.select(tiny, f.integer(54), f.integer(0)));
  return {arith::SIToFPOp::create(b, f.loc, f.type, e), fraction};
}

Value logSpecial(Arithmetic &f, Value x, Value result) {
  Value negative = f.compare(arith::CmpFPredicate::OLT, x, 0.0);
  Value zero = f.compare(arith::CmpFPredicate::OEQ, x, 0.0);
  Value large = f.compare(arith::CmpFPredicate::UGT, x, std::numeric_limits<double>::max());
  result = f.select(large, x, result); // infinite or NaN
  result = f.select(zero, f.number(-INFINITY), result);
  return f.select(negative, f.number(NAN), result);
}

// log(1 + t) = t - correction, from s = t / (2 + t) and the series of 2 atanh(s) (fdlibm).
Value logCorrection(Arithmetic &f, Value t, Value low) {
  Value s = f.div(t, f.add(t, f.number(2.0))), z = f.mul(s, s);
  Value rest = f.mul(z, f.polynomial(z, {1.479819860510658591e-01, 1.531383769920937332e-01,
                                         1.818357216161805012e-01, 2.222219843214978396e-01,
                                         2.857142874366239149e-01, 3.999999999940941908e-01,
                                         6.666666666666735130e-01}));
  Value half = f.mul(f.number(0.5), f.mul(t, t));
  return f.sub(half, f.mulAdd(s, f.add(half, rest), low));
}

Value log(Arithmetic &f, Value x) {
  auto [e, t] = decompose(f, x);
  Value low = f.mul(e, f.number(1.90821492927058770002e-10));
  Value sum = f.mulAdd(e, f.number(6.93147180369123816490e-01), f.sub(t, logCorrection(f, t, low)));
  return logSpecial(f, x, sum);
}

Value log2(Arithmetic &f, Value x) {
  auto [e, t] = decompose(f, x);
  Value natural = f.sub(t, logCorrection(f, t, f.number(0.0)));
  return logSpecial(f, x, f.mulAdd(natural, f.number(1.44269504088896340736), e));
}

Value tanh(Arithmetic &f, Value x) {
  Value magnitude = f.abs(x), square = f.mul(x, x);
  Value p = f.polynomial(square, {-9.64399179425052238628e-1, -9.92877231001918586564e1,
                                  -1.61468768441708447952e3});
  Value q = f.polynomial(square, {1.0, 1.12811678491632931402e2, 2.23548839060100448583e3,
                                  4.84406305325125486048e3});
  Value small = f.mulAdd(f.mul(x, square), f.div(p, q), x);
  Value power = expandDoubleExp(f, f.add(magnitude, magnitude));
  Value large = f.sub(f.number(1.0), f.div(f.number(2.0), f.add(power, f.number(1.0))));
  return f.select(f.compare(arith::CmpFPredicate::OLT, magnitude, 0.625), small,
                  f.copySign(large, x));
}

// 1 - erf(x) for x of 1 .. 6 (Cephes, ndtr.c).
Value erfComplement(Arithmetic &f, Value x) {
  Value p = f.polynomial(x, {2.46196981473530512524e-10, 5.64189564831068821977e-1,
                             7.46321056442269912687e0, 4.86371970985681366614e1,
                             1.96520832956077098242e2, 5.26445194995477358631e2,
                             9.34528527171957607540e2, 1.02755188689515710272e3,
                             5.57535335369399327526e2});
  Value q = f.polynomial(x, {1.0, 1.32281951154744992508e1, 8.67072140885989742329e1,
                             3.54937778887819891062e2, 9.75708501743205489753e2,
                             1.82390916687909736289e3, 2.24633760818710981792e3,
                             1.65666309194161350182e3, 5.57535340817727675546e2});
  Value power = expandDoubleExp(f, arith::NegFOp::create(f.b, f.loc, f.mul(x, x)));
  return f.mul(power, f.div(p, q));
}

Value erf(Arithmetic &f, Value x) {
  Value magnitude = f.abs(x), square = f.mul(x, x);
  Value p = f.polynomial(square, {9.60497373987051638749e0, 9.00260197203842689217e1,
                                  2.23200534594684319226e3, 7.00332514112805075473e3,
                                  5.55923013010394962768e4});
  Value q = f.polynomial(square, {1.0, 3.35617141647503099647e1, 5.21357949780152679795e2,
                                  4.59432382970980127987e3, 2.26290000613890934246e4,
                                  4.92673942608635921086e4});
  Value small = f.mul(x, f.div(p, q));
  Value limited = f.clamp(magnitude, 0.0, 6.0); // beyond, the result is 1
  Value large = f.copySign(f.sub(f.number(1.0), erfComplement(f, limited)), x);
  return f.select(f.compare(arith::CmpFPredicate::OLT, magnitude, 1.0), small, large);
}

Value doubleMath(Arithmetic &f, Operation *op, Value x) {
  if (isa<math::ExpOp>(op))
    return expandDoubleExp(f, x);
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
  return {};
}

} // namespace

Value expandDoubleExp(Arithmetic &f, Value x) {
  x = f.clamp(x, -746.0, 710.0);
  auto [whole, n] = f.round(f.mul(x, f.number(1.44269504088896340736)));
  Value r = f.mulAdd(whole, f.number(-6.93145751953125e-1), x);
  r = f.mulAdd(whole, f.number(-1.42860682030941723212e-6), r);
  return f.scale(expReduced(f, r), n);
}

Value expandScalarMath(OpBuilder &b, Operation *op, ValueRange operands) {
  bool known = isa<math::MathDialect>(op->getDialect()) || isa<arith::RemFOp>(op);
  if (!known || operands.empty())
    return {};
  Type type = operands[0].getType();
  if (!type.isF32() && !type.isF64())
    return {};
  Arithmetic f(b, op->getLoc(), b.getF64Type());
  auto wide = [&](Value value) -> Value {
    return type.isF64() ? value : arith::ExtFOp::create(b, f.loc, f.type, value).getResult();
  };
  auto narrow = [&](Value value) -> Value {
    return type.isF64() ? value : arith::TruncFOp::create(b, f.loc, type, value).getResult();
  };
  if (isa<arith::RemFOp>(op))
    return narrow(expandRemainder(f, wide(operands[0]), wide(operands[1]), type.isF32()));
  if (isa<math::SinOp, math::CosOp>(op))
    return narrow(expandTrigonometry(f, wide(operands[0]), isa<math::CosOp>(op), type.isF32()));
  return type.isF64() ? doubleMath(f, op, operands[0]) : Value();
}

} // namespace tilery
