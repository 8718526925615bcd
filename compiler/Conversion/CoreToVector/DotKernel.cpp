// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// The register-blocked kernel of a product: a block of rows x vectors of the accumulator
// stays in registers while k runs; each step loads the vectors of one row of b and
// broadcasts one element of a for each row.
#include "compiler/Conversion/CoreToVector/Dot.h"

namespace tilery::vec {
namespace {

class Kernel {
public:
  Kernel(Lowering &lowering, const DotPlan &plan, const Buffer &a, const Buffer &b,
         const Buffer &c, bool overwrite)
      : lowering(lowering), builder(lowering.builder), loc(lowering.loc), plan(plan), a(a), b(b),
        c(c), overwrite(overwrite), vector(vectorOr(plan.accumulator, plan.lanes)) {}

  void emit() {
    Nest nest(builder, loc, plan.lanes);
    batch = nest.open(plan.batch);
    // Columns outside: their panel of b stays in the first-level cache while rows pass.
    column = nest.open(plan.n, plan.vectors * std::max<int64_t>(plan.lanes, 1));
    row = nest.open(plan.m, plan.rows);
    emitBlock(nest);
    for (int loop = 0; loop < 3; ++loop)
      nest.close();
  }

private:
  int64_t stride(const Buffer &buffer, int64_t fromBack) const {
    return buffer.strides[buffer.strides.size() - size_t(fromBack)];
  }
  int64_t bytes(const Buffer &buffer) const { return byteSize(storedType(buffer.element)); }

  Value advance(Value address, const Coord &coord, int64_t strideBytes) {
    if (!coord.base)
      return address;
    return lowering.ptrAt(address, lowering.mulI(coord.base, lowering.i64(strideBytes)));
  }
  Value batchBase(const Buffer &buffer) {
    return buffer.strides.size() == 3 ? advance(buffer.base, batch,
                                                buffer.strides[0] * bytes(buffer))
                                      : buffer.base;
  }
  Value load(Type type, Value address, int64_t size) {
    return LLVM::LoadOp::create(builder, loc, type, address, unsigned(size));
  }

  void emitBlock(Nest &nest) {
    Value cBase = advance(advance(batchBase(c), row, stride(c, 2) * bytes(c)), column,
                          stride(c, 1) * bytes(c));
    Value aBase = advance(batchBase(a), row, stride(a, 2) * bytes(a));
    Value bBase = advance(batchBase(b), column, stride(b, 1) * bytes(b));
    SmallVector<Value> sums, targets;
    for (int64_t r = 0; r < plan.rows; ++r)
      for (int64_t v = 0; v < plan.vectors; ++v) {
        int64_t offset = r * stride(c, 2) + v * std::max<int64_t>(plan.lanes, 1);
        targets.push_back(lowering.ptrAt(cBase, offset * bytes(c)));
        sums.push_back(overwrite ? constantLike(builder, loc, vector, 0)
                                 : load(vector, targets.back(), bytes(c)));
      }
    int64_t steps = plan.bf16Pairs ? plan.k / 2 : plan.k;
    Coord k = nest.open(0, steps, 1, sums);
    sums = llvm::to_vector(nest.carried());
    sums = nest.close(step(k, aBase, bBase, sums));
    for (auto [sum, target] : llvm::zip(sums, targets))
      LLVM::StoreOp::create(builder, loc, sum, target, unsigned(bytes(c)));
  }

  // One element (for bf16 one pair) of each row of a, one row of b.
  SmallVector<Value> step(const Coord &k, Value aBase, Value bBase, SmallVector<Value> sums) {
    int64_t pair = plan.bf16Pairs ? 2 : 1;
    Value aColumn = advance(aBase, k, pair * stride(a, 1) * bytes(a));
    Value bRow = advance(bBase, k, stride(b, 2) * bytes(b));
    SmallVector<Value> columns;
    for (int64_t v = 0; v < plan.vectors; ++v) {
      Value address = lowering.ptrAt(bRow, v * std::max<int64_t>(plan.lanes, 1) * bytes(b));
      columns.push_back(load(vectorOr(b.element, plan.lanes), address, bytes(b)));
    }
    Type aType = plan.bf16Pairs ? Type(builder.getI32Type()) : a.element;
    for (int64_t r = 0; r < plan.rows; ++r) {
      Value address = lowering.ptrAt(aColumn, r * stride(a, 2) * bytes(a));
      Value element = lowering.splat(builder, loc, load(aType, address, bytes(a)), plan.lanes);
      for (int64_t v = 0; v < plan.vectors; ++v) {
        Value &sum = sums[size_t(r * plan.vectors + v)];
        sum = multiplyAdd(element, columns[size_t(v)], sum);
      }
    }
    return sums;
  }

  Value multiplyAdd(Value x, Value y, Value sum) {
    if (plan.bf16Pairs) {
      auto pairs = VectorType::get({2 * plan.lanes}, builder.getBF16Type());
      Value wideX = LLVM::BitcastOp::create(builder, loc, pairs, x);
      Value wideY = LLVM::BitcastOp::create(builder, loc, pairs, y);
      return LLVM::CallIntrinsicOp::create(
                 builder, loc, vector,
                 builder.getStringAttr("llvm.x86.avx512bf16.dpbf16ps.512"),
                 ValueRange{sum, wideX, wideY})
          .getResult(0);
    }
    if (isa<FloatType>(plan.accumulator))
      return math::FmaOp::create(builder, loc, x, y, sum);
    Value product = arith::MulIOp::create(builder, loc, x, y);
    return arith::AddIOp::create(builder, loc, product, sum);
  }

  Lowering &lowering;
  OpBuilder &builder;
  Location loc;
  const DotPlan &plan;
  const Buffer &a, &b, &c;
  bool overwrite;
  Type vector;
  Coord batch, column, row;
};

} // namespace

void emitDotKernel(Lowering &lowering, const DotPlan &plan, const Buffer &a, const Buffer &b,
                   const Buffer &c, bool overwrite) {
  Kernel(lowering, plan, a, b, c, overwrite).emit();
}

} // namespace tilery::vec
