// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Builds the loops of a nest.
#include "compiler/Conversion/CoreToVector/Nest.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace tilery::vec {

Coord Nest::open(int64_t extent, int64_t step) { return open(0, extent, step, {}); }

Coord Nest::open(int64_t lower, int64_t extent, int64_t step, ValueRange inits) {
  auto constant = [&](int64_t value) -> Value {
    return arith::ConstantIntOp::create(builder, loc, value, 64);
  };
  if (extent - lower <= step) {
    levels.push_back({nullptr, llvm::to_vector(inits)});
    if (extent <= lower) // runs never; callers do not ask for it
      llvm_unreachable("a loop without a step");
    return {lower ? constant(lower) : Value(), false, lower ? depth() : 0};
  }
  auto loop = scf::ForOp::create(builder, loc, constant(lower), constant(extent),
                                 constant(step), inits);
  Block *body = loop.getBody();
  if (!body->empty())
    body->getTerminator()->erase();
  builder.setInsertionPointToEnd(body);
  levels.push_back({loop, llvm::to_vector<4>(llvm::map_range(
                              loop.getRegionIterArgs(), [](BlockArgument a) -> Value { return a; }))});
  return {loop.getInductionVar(), false, depth()};
}

SmallVector<Value> Nest::close(ValueRange yields) {
  Level level = levels.pop_back_val();
  if (!level.loop)
    return llvm::to_vector(yields);
  builder.setInsertionPointToEnd(level.loop.getBody());
  scf::YieldOp::create(builder, loc, yields);
  builder.setInsertionPointAfter(level.loop);
  return llvm::to_vector_of<Value>(level.loop.getResults());
}

unsigned Nest::depth() const {
  return llvm::count_if(levels, [](const Level &level) { return bool(level.loop); });
}

void Nest::moveTo(unsigned depth) {
  unsigned seen = 0;
  for (const Level &level : levels)
    if (level.loop && seen++ == depth) { // the loop that opens the next depth
      builder.setInsertionPoint(level.loop);
      return;
    }
}

} // namespace tilery::vec
