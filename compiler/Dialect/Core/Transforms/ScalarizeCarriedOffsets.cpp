// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Tiles that a loop only advances by uniform steps become an initial tile plus a carried
// scalar; Passes.td shows it.
//
// Algorithm, for each carried tile of a loop:
// 1) the yielded value must be a chain of core.addptr / arith.addi on the carried tile;
// 2) each step must be uniform: a splat, or a constant with one value;
// 3) inside the loop the tile is init + splat(offset); after it, init + splat(result).
#include "compiler/Dialect/Core/IR/Core.h"
#include "compiler/Dialect/Core/Transforms/Passes.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace tilery::core {
#define GEN_PASS_DEF_SCALARIZECARRIEDOFFSETS
#include "compiler/Dialect/Core/Transforms/Passes.h.inc"

namespace {

struct CarriedTile {
  unsigned index;
  SmallVector<Value> steps; // uniform tiles added in each iteration
};

// The step of one advance of a tile, null when `op` is none.
Value stepOf(Operation *op, Value &base) {
  if (auto advance = dyn_cast_or_null<AddPtrOp>(op)) {
    base = advance.getPointer();
    return advance.getOffset();
  }
  if (auto add = dyn_cast_or_null<arith::AddIOp>(op)) {
    base = add.getLhs();
    return add.getRhs();
  }
  return {};
}

bool isUniform(Value tile) {
  DenseElementsAttr constant;
  return tile.getDefiningOp<SplatOp>() || (matchPattern(tile, m_Constant(&constant)) && constant.isSplat());
}

// A step inside an inner loop would run a different number of times.
bool collectSteps(scf::ForOp loop, unsigned index, CarriedTile &carried) {
  BlockArgument argument = loop.getRegionIterArg(index);
  Type element = getElementTypeOrSelf(argument.getType());
  if (!isa<RankedTensorType>(argument.getType()) ||
      !(isPointerLike(element) || element.isInteger()) || element.isInteger(1))
    return false;
  Value current = loop.getYieldedValues()[index];
  while (current != argument) {
    Operation *op = current.getDefiningOp();
    Value base, step = op && op->getBlock() == loop.getBody() ? stepOf(op, base) : Value();
    if (step && !isUniform(step) && isa<arith::AddIOp>(op)) // addition commutes
      std::swap(base, step);
    if (!step || !isUniform(step))
      return false;
    carried.steps.push_back(step);
    current = base;
  }
  carried.index = index;
  return true;
}

struct Rewriter {
  scf::ForOp loop;
  OpBuilder builder;

  Type offsetType(Type tile) {
    Type element = getElementTypeOrSelf(tile);
    return isPointerLike(element) ? builder.getI64Type() : element;
  }

  Value scalarOf(Value step, Type type) {
    Value scalar;
    DenseElementsAttr constant;
    if (matchPattern(step, m_Constant(&constant)))
      scalar = arith::ConstantOp::create(
          builder, loop.getLoc(), cast<TypedAttr>(constant.getSplatValue<Attribute>()));
    else
      scalar = step.getDefiningOp<SplatOp>().getSource();
    unsigned have = scalar.getType().getIntOrFloatBitWidth(), want = type.getIntOrFloatBitWidth();
    return have < want ? arith::ExtSIOp::create(builder, loop.getLoc(), type, scalar).getResult()
                       : scalar;
  }

  Value advance(Value init, Value offset) {
    Type tile = init.getType();
    Value splat =
        SplatOp::create(builder, loop.getLoc(), withElement(tile, offset.getType()), offset);
    if (isPointerLike(getElementTypeOrSelf(tile)))
      return AddPtrOp::create(builder, loop.getLoc(), tile, init, splat);
    return arith::AddIOp::create(builder, loop.getLoc(), init, splat);
  }

  void rewrite(ArrayRef<CarriedTile> tiles) {
    Location loc = loop.getLoc();
    SmallVector<Value> inits(loop.getInitArgs()), yields(loop.getYieldedValues());
    SmallVector<Value> tileInits(inits);
    builder.setInsertionPoint(loop);
    for (const CarriedTile &tile : tiles) {
      Type type = offsetType(inits[tile.index].getType());
      inits[tile.index] =
          arith::ConstantOp::create(builder, loc, builder.getIntegerAttr(type, 0));
    }
    auto fresh = scf::ForOp::create(builder, loc, loop.getLowerBound(), loop.getUpperBound(),
                                    loop.getStep(), inits);
    fresh->setDiscardableAttrs(loop->getDiscardableAttrDictionary());
    Block *body = fresh.getBody();
    if (!body->empty())
      body->getTerminator()->erase();
    SmallVector<Value> arguments(body->getArguments());
    builder.setInsertionPointToStart(body);
    for (const CarriedTile &tile : tiles) {
      Value offset = fresh.getRegionIterArg(tile.index);
      arguments[tile.index + 1] = advance(tileInits[tile.index], offset);
    }
    body->getOperations().splice(body->end(), loop.getBody()->getOperations());
    for (auto [old, now] : llvm::zip(loop.getBody()->getArguments(), arguments))
      old.replaceAllUsesWith(now);
    Operation *yield = body->getTerminator();
    builder.setInsertionPoint(yield);
    for (const CarriedTile &tile : tiles) {
      Value offset = fresh.getRegionIterArg(tile.index);
      for (Value step : tile.steps)
        offset = arith::AddIOp::create(builder, loc, offset, scalarOf(step, offset.getType()));
      yield->setOperand(tile.index, offset);
    }
    builder.setInsertionPointAfter(fresh);
    SmallVector<Value> results(fresh.getResults());
    for (const CarriedTile &tile : tiles)
      if (!loop.getResult(tile.index).use_empty())
        results[tile.index] = advance(tileInits[tile.index], results[tile.index]);
    loop.replaceAllUsesWith(results);
    loop.erase();
  }
};

struct ScalarizeCarriedOffsets
    : impl::ScalarizeCarriedOffsetsBase<ScalarizeCarriedOffsets> {
  void runOnOperation() override {
    SmallVector<scf::ForOp> loops;
    getOperation()->walk([&](scf::ForOp loop) { loops.push_back(loop); });
    for (scf::ForOp loop : loops) {
      SmallVector<CarriedTile> tiles;
      for (unsigned index = 0; index < loop.getInitArgs().size(); ++index) {
        CarriedTile tile;
        if (collectSteps(loop, index, tile))
          tiles.push_back(std::move(tile));
      }
      if (!tiles.empty())
        Rewriter{loop, OpBuilder(loop)}.rewrite(tiles);
    }
  }
};

} // namespace
} // namespace tilery::core
