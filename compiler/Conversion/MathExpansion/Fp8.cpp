// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// fp8 from and to fp32 by shifts: both formats are an fp32 with fewer bits and another bias.
#include "compiler/Conversion/MathExpansion/Arithmetic.h"
#include "compiler/Conversion/MathExpansion/MathExpansion.h"

using namespace mlir;

namespace tilery {

bool isFp8(Type element) { return isa<Float8E4M3FNType, Float8E5M2Type>(element); }

namespace {

struct Format {
  unsigned mantissa;
  int bias;
  double largest;
  int64_t nan, firstSpecial; ///< codes without the sign

  explicit Format(Type type) {
    bool e5m2 = isa<Float8E5M2Type>(type);
    mantissa = e5m2 ? 2 : 3;
    bias = e5m2 ? 15 : 7;
    largest = e5m2 ? 57344.0 : 448.0;
    nan = e5m2 ? 0x7e : 0x7f;
    firstSpecial = e5m2 ? 0x7c : 0x7f; // e4m3fn has no infinity
  }
  int64_t shift() const { return 23 - mantissa; }
  double smallestNormal() const { return std::ldexp(1.0, 1 - bias); }
};

} // namespace

Value decodeFp8(OpBuilder &b, Location loc, Type fp8, Value bits) {
  Format format(fp8);
  Arithmetic f(b, loc, b.getF32Type());
  Value wide = arith::ExtUIOp::create(b, loc, f.bits, bits);
  Value magnitude = arith::AndIOp::create(b, loc, wide, f.integer(0x7f));
  Value sign = arith::ShLIOp::create(
      b, loc, arith::AndIOp::create(b, loc, wide, f.integer(0x80)), f.integer(24));
  Value fields = arith::ShLIOp::create(b, loc, magnitude, f.integer(format.shift()));
  // A subnormal becomes a subnormal fp32, which the product makes normal.
  Value finite = f.asBits(f.mul(f.asFloat(fields), f.number(std::ldexp(1.0, 127 - format.bias))));
  Value special = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::uge, magnitude,
                                        f.integer(format.firstSpecial));
  Value infinite = arith::OrIOp::create(b, loc, fields, f.integer(0x7f800000));
  Value chosen = f.select(special, infinite, finite);
  return f.asFloat(arith::OrIOp::create(b, loc, chosen, sign));
}

Value encodeFp8(OpBuilder &b, Location loc, Type fp8, Value value) {
  Format format(fp8);
  Arithmetic f(b, loc, b.getF32Type());
  Value bits = f.asBits(value), magnitude = f.abs(value);
  Value isNan = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::UNO, value, value);
  Value large = f.compare(arith::CmpFPredicate::OGT, magnitude, format.largest);
  Value limited = f.select(large, f.number(format.largest), magnitude);
  // Normal numbers: to nearest even at the last bit that stays, then another bias.
  Value fields = f.asBits(limited);
  Value odd = arith::AndIOp::create(
      b, loc, arith::ShRUIOp::create(b, loc, fields, f.integer(format.shift())), f.integer(1));
  Value half = arith::AddIOp::create(b, loc, odd, f.integer((1 << (format.shift() - 1)) - 1));
  Value rounded = arith::ShRUIOp::create(b, loc, arith::AddIOp::create(b, loc, fields, half),
                                         f.integer(format.shift()));
  Value normal = arith::SubIOp::create(b, loc, rounded,
                                       f.integer(int64_t(127 - format.bias) << format.mantissa));
  // Subnormal ones are multiples of the last bit of this number, so that its sum rounds them.
  double anchor = std::ldexp(1.0, 1 - format.bias - int(format.mantissa) + 23);
  Value sum = f.asBits(f.add(limited, f.number(anchor)));
  Value subnormal = arith::SubIOp::create(b, loc, sum, f.asBits(f.number(anchor)));
  Value small = f.compare(arith::CmpFPredicate::OLT, limited, format.smallestNormal());
  Value code = f.select(isNan, f.integer(format.nan), f.select(small, subnormal, normal));
  Value sign = arith::AndIOp::create(
      b, loc, arith::ShRUIOp::create(b, loc, bits, f.integer(24)), f.integer(0x80));
  return arith::TruncIOp::create(b, loc, b.getI8Type(), arith::OrIOp::create(b, loc, code, sign));
}

} // namespace tilery
