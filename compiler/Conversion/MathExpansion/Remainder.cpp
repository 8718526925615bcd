// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Remainders of division as C's fmod: exact, with the sign of the dividend.
#include "compiler/Conversion/MathExpansion/Arithmetic.h"
#include "compiler/Conversion/MathExpansion/Scalar.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace tilery {

// r mod y for r >= 0, y > 0. While r >= y, subtracts q * y for q = r / y rounded to a double: what is
// left has no more bits than y, so a fused multiply-add gives it exactly. It is negative where q was
// rounded up; then its absolute value goes on, and the result counts down from y. Each round takes
// 52 bits of the quotient.
static Value reduced(Arithmetic &f, Value r, Value y) {
  OpBuilder &b = f.b;
  Type flag = b.getI1Type();
  Value up = arith::ConstantIntOp::create(b, f.loc, 0, 1);
  auto loop = scf::WhileOp::create(b, f.loc, TypeRange{f.type, flag}, ValueRange{r, up});
  Block *before = b.createBlock(&loop.getBefore(), {}, {f.type, flag}, {f.loc, f.loc});
  Value more = arith::CmpFOp::create(b, f.loc, arith::CmpFPredicate::OGE, before->getArgument(0), y);
  scf::ConditionOp::create(b, f.loc, more, before->getArguments());
  Block *after = b.createBlock(&loop.getAfter(), {}, {f.type, flag}, {f.loc, f.loc});
  Value now = after->getArgument(0);
  Value minus = arith::NegFOp::create(b, f.loc, math::TruncOp::create(b, f.loc, f.div(now, y)));
  Value next = f.mulAdd(minus, y, now);
  Value below = f.compare(arith::CmpFPredicate::OLT, next, 0.0);
  Value down = arith::XOrIOp::create(b, f.loc, after->getArgument(1), below);
  scf::YieldOp::create(b, f.loc, ValueRange{f.abs(next), down});
  b.setInsertionPointAfter(loop);
  Value rest = loop.getResult(0);
  Value counted = arith::AndIOp::create(b, f.loc, loop.getResult(1),
                                        f.compare(arith::CmpFPredicate::ONE, rest, 0.0));
  return f.select(counted, f.sub(y, rest), rest);
}

Value expandRemainder(Arithmetic &f, Value x, Value y, bool single) {
  OpBuilder &b = f.b;
  constexpr double largest = std::numeric_limits<double>::max();
  Value dividend = f.abs(x), divisor = f.abs(y);
  // Not a number when x is infinite or y is 0, or when either is not a number already.
  Value badX = f.compare(arith::CmpFPredicate::UGT, dividend, largest);
  Value badY = f.compare(arith::CmpFPredicate::UEQ, divisor, 0.0);
  Value bad = arith::OrIOp::create(b, f.loc, badX, badY);
  Value start = f.select(bad, f.number(0.0), dividend);
  Value by = f.select(bad, f.number(1.0), divisor);
  Value rest = start;
  if (!single) {
    // A quotient that overflows is taken in steps of at most 2^1000. (A multiple that overflows is
    // larger than the dividend, and no step.)
    Value overflows = f.compare(arith::CmpFPredicate::OGT, f.div(start, by), largest);
    Value step = f.select(overflows, f.number(std::ldexp(1.0, 1000)), f.number(1.0));
    Value multiple = f.mul(by, step);
    rest = reduced(f, reduced(f, rest, f.mul(multiple, step)), multiple);
  }
  rest = reduced(f, rest, by);
  return f.select(bad, f.number(NAN), f.copySign(rest, x));
}

} // namespace tilery
