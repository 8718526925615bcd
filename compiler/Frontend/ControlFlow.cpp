// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// if, for and while on run-time values become scf ops; names that a branch or a loop assigns
// become results and loop-carried values.
//
// An `if` with a run-time condition that contains `return` takes the statements after it into
// both of its branches, so that every path ends in one place.
#include "compiler/Frontend/Generator.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

#include <set>

using namespace mlir;

namespace tilery::frontend {

struct Generator::Branch {
  mlir::Block *block = nullptr;
  std::map<std::string, Value> names;
  Value returned;
};

// ---- if ------------------------------------------------------------------------------------------

Generator::Flow Generator::runIf(const IfStmt &stmt, const Continuation &rest, bool &restDone) {
  Value condition = evaluate(*stmt.condition);
  if (!condition.tile()) {
    bool isTrue = !*unary(UnaryOp::Not, condition).get<bool>();
    return runBlock(isTrue ? stmt.thenBody : stmt.elseBody, 0, nullptr);
  }
  RangeScope scope(*this, stmt.condition->range);
  Tile scalar = truth(condition);
  if (!scalar.isScalar())
    fail("the condition of an if must be a scalar, not " + condition.describe(),
         "use tl.where to choose element by element, or reduce the tile first");
  restDone = containsReturn(stmt.thenBody) || containsReturn(stmt.elseBody);
  if (restDone && frame->loops > 0)
    fail("return cannot leave a loop that runs on the device",
         "set a flag, or compute the loop's bounds so that it ends");
  return runDynamicIf(stmt, scalar, restDone ? &rest : nullptr);
}

Generator::Flow Generator::runDynamicIf(const IfStmt &stmt, Tile condition,
                                        const Continuation *rest) {
  auto shell = scf::IfOp::create(builder, loc(), TypeRange(), condition.value, true);
  std::map<std::string, Value> before = names();
  auto lostBefore = frame->lost;
  Branch branches[2];
  for (int i : {0, 1}) {
    Region &region = i == 0 ? shell.getThenRegion() : shell.getElseRegion();
    names() = before;
    frame->lost = lostBefore;
    frame->returned = None{};
    if (region.front().mightHaveTerminator())
      region.front().getTerminator()->erase();
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToEnd(&region.front());
    runBlock(i == 0 ? stmt.thenBody : stmt.elseBody, 0, rest);
    branches[i] = {builder.getInsertionBlock(), names(), frame->returned};
  }
  std::vector<std::string> assigned = assignedNames(stmt.thenBody);
  for (const std::string &name : assignedNames(stmt.elseBody))
    if (!llvm::is_contained(assigned, name))
      assigned.push_back(name);
  names() = before;
  frame->lost = lostBefore;
  if (rest)
    assigned.clear(); // nothing runs after both paths have ended
  RangeScope scope(*this, stmt.range);
  mergeBranches(condition.value, branches[0], branches[1], assigned, rest != nullptr);
  shell->erase();
  return rest ? Flow::Returned : Flow::Next;
}

Value Generator::branch(Tile condition, llvm::function_ref<Value()> whenTrue,
                        llvm::function_ref<Value()> whenFalse) {
  auto shell = scf::IfOp::create(builder, loc(), TypeRange(), condition.value, true);
  Value outer = frame->returned;
  Branch branches[2];
  for (int i : {0, 1}) {
    Region &region = i == 0 ? shell.getThenRegion() : shell.getElseRegion();
    if (region.front().mightHaveTerminator())
      region.front().getTerminator()->erase();
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToEnd(&region.front());
    Value value = i == 0 ? whenTrue() : whenFalse();
    branches[i] = {builder.getInsertionBlock(), {}, value};
  }
  mergeBranches(condition.value, branches[0], branches[1], {}, /*returns=*/true);
  shell->erase();
  Value result = frame->returned;
  frame->returned = outer;
  return result;
}

void Generator::mergeBranches(mlir::Value condition, Branch &whenTrue, Branch &whenFalse,
                              const std::vector<std::string> &assigned, bool returns) {
  std::vector<std::pair<std::string, Value>> merged; // "" is the return value
  std::vector<Tile> results, others;
  auto merge = [&](const std::string &name, Value a, Value b) {
    unify(a, b, whenTrue, whenFalse, name);
    flatten(a, results);
    flatten(b, others);
    merged.emplace_back(name, a);
  };
  for (const std::string &name : assigned) {
    auto a = whenTrue.names.find(name), b = whenFalse.names.find(name);
    if (a != whenTrue.names.end() && b != whenFalse.names.end()) {
      merge(name, a->second, b->second);
      continue;
    }
    names().erase(name);
    if (a != whenTrue.names.end() || b != whenFalse.names.end())
      frame->lost[name] = (a != whenTrue.names.end() ? a : b)->second.assigned;
  }
  if (returns)
    merge("", whenTrue.returned, whenFalse.returned);
  std::vector<mlir::Value> yields[2];
  std::vector<Type> types;
  for (auto [a, b] : llvm::zip(results, others)) {
    yields[0].push_back(a.value);
    yields[1].push_back(b.value);
    types.push_back(a.value.getType());
  }
  auto op = scf::IfOp::create(builder, loc(), types, condition, true);
  Branch *branches[] = {&whenTrue, &whenFalse};
  for (int i : {0, 1}) {
    Region &region = i == 0 ? op.getThenRegion() : op.getElseRegion();
    region.takeBody(*branches[i]->block->getParent());
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToEnd(&region.front());
    scf::YieldOp::create(builder, loc(), yields[i]);
  }
  for (auto [tile, result] : llvm::zip(results, op.getResults()))
    tile.value = result;
  size_t next = 0;
  for (auto &[name, value] : merged)
    (name.empty() ? frame->returned : names()[name]) = unflatten(value, results, next);
}

// Makes two values of one variable agree: equal constants stay constants, numbers become tiles.
void Generator::unify(Value &a, Value &b, Branch &inA, Branch &inB, const std::string &name) {
  if (!a.tile() && !b.tile() && sameConstant(a, b) && !a.tuple())
    return;
  const Tuple *left = a.tuple(), *right = b.tuple();
  if (left && right && left->elements.size() == right->elements.size()) {
    std::vector<Value> x = left->elements, y = right->elements;
    for (auto [p, q] : llvm::zip(x, y))
      unify(p, q, inA, inB, name);
    a.data = makeTuple(x, left->fields).data;
    b.data = makeTuple(y, right->fields).data;
    return;
  }
  if (a.block() && b.block() && a.block()->block == b.block()->block &&
      a.block()->base.element == b.block()->base.element)
    return;
  std::string described[] = {a.describe(), b.describe()};
  auto toTileIn = [&](Value &value, const Value &other, Branch &branch) {
    if (!value.isNumber())
      return;
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToEnd(branch.block);
    Tile tile = toTile(value);
    if (const Tile *strong = other.tile(); strong && strong->element.isScalar()) {
      DType type = promoteNumber(tile.element.dtype, strong->element.dtype, false);
      tile = splat(number(value, type), strong->shape());
    }
    value.data = tile;
  };
  if ((a.isNumber() || a.tile()) && (b.isNumber() || b.tile())) {
    Value original = a;
    toTileIn(a, b, inA);
    toTileIn(b, original.tile() ? original : a, inB);
    if (a.tile()->element == b.tile()->element && a.tile()->shape() == b.tile()->shape())
      return;
  }
  std::string what = name.empty() ? "the value" : "'" + name + "'";
  CompileError error(a.assigned.valid() ? a.assigned : range(),
                     what + " is " + described[0] + " when the condition holds and " +
                         described[1] + " otherwise; a variable keeps one type");
  if (b.assigned.valid())
    throw std::move(error).note(b.assigned, "the other assignment").hint("convert one with .to(...)");
  throw error;
}

// ---- loop-carried names ----------------------------------------------------------------------------

static bool isRunTime(const Value &value) {
  std::vector<Tile> tiles;
  flatten(value, tiles);
  return value.isNumber() || !tiles.empty();
}

std::vector<std::string> Generator::carriedNames(const std::vector<std::string> &assigned) {
  std::vector<std::string> carried;
  for (const std::string &name : assigned)
    if (auto found = names().find(name); found != names().end() && isRunTime(found->second))
      carried.push_back(name);
  return carried;
}

// Numbers inside tuples become tiles too.
static Value numbersToTiles(Generator &gen, const Value &value) {
  Value result = value;
  if (value.isNumber())
    result.data = gen.toTile(value);
  if (const Tuple *tuple = value.tuple()) {
    std::vector<Value> elements;
    for (const Value &element : tuple->elements)
      elements.push_back(numbersToTiles(gen, element));
    result.data = makeTuple(elements, tuple->fields).data;
  }
  return result;
}

std::vector<Tile> Generator::carriedTiles(const std::vector<std::string> &carried) {
  std::vector<Tile> tiles;
  for (const std::string &name : carried) {
    Value &value = names()[name];
    value = numbersToTiles(*this, value);
    flatten(value, tiles);
  }
  return tiles;
}

void Generator::bindCarried(const std::vector<std::string> &carried, ValueRange values,
                            const std::vector<Tile> &types) {
  std::vector<Tile> tiles(types);
  for (auto [tile, value] : llvm::zip(tiles, values))
    tile.value = value;
  size_t next = 0;
  for (const std::string &name : carried)
    names()[name] = unflatten(names()[name], tiles, next);
}

// A number takes the carried type; anything else must have it already.
static Value matchCarried(Generator &gen, const Value &value, const Value &before,
                          const std::string &name) {
  auto mismatch = [&]() {
    CompileError error(value.assigned.valid() ? value.assigned : gen.range(),
                       "'" + name + "' is " + before.describe() + " before the loop and " +
                           value.describe() + " after one turn; a variable keeps one type");
    if (before.assigned.valid())
      return std::move(error)
          .note(before.assigned, "its value before the loop")
          .hint("give it that type before the loop, or convert with .to(...)");
    return error;
  };
  if (const Tile *tile = before.tile()) {
    Value result = value;
    if (value.isNumber() && tile->element.isScalar()) {
      DType natural = gen.toTile(value).element.dtype;
      if (promoteNumber(natural, tile->element.dtype, false) != tile->element.dtype)
        throw mismatch();
      result.data = gen.splat(gen.number(value, tile->element.dtype), tile->shape());
    }
    const Tile *now = result.tile();
    if (!now || now->element != tile->element || now->shape() != tile->shape())
      throw mismatch();
    return result;
  }
  if (const Tuple *tuple = before.tuple()) {
    const Tuple *now = value.tuple();
    if (!now || now->elements.size() != tuple->elements.size())
      throw mismatch();
    std::vector<Value> elements;
    for (auto [x, y] : llvm::zip(now->elements, tuple->elements))
      elements.push_back(matchCarried(gen, x, y, name));
    return makeTuple(elements, tuple->fields);
  }
  const BlockPointer *a = before.block(), *b = value.block();
  bool same = a && b ? a->block == b->block && a->base.element == b->base.element
                     : sameConstant(before, value);
  if (!same)
    throw mismatch();
  return value;
}

std::vector<mlir::Value> Generator::yieldedValues(const std::vector<std::string> &carried,
                                                  const std::map<std::string, Value> &before) {
  std::vector<Tile> tiles;
  for (const std::string &name : carried) {
    auto found = names().find(name);
    if (found == names().end())
      throw CompileError(range(), "'" + name + "' may have no value at the end of the loop's body");
    flatten(matchCarried(*this, found->second, before.at(name), name), tiles);
  }
  std::vector<mlir::Value> values;
  for (const Tile &tile : tiles)
    values.push_back(tile.value);
  return values;
}

// After a loop only what had a value before it still has one: the loop may run zero times.
void Generator::forget(const std::map<std::string, Value> &before,
                       const std::vector<std::string> &assigned) {
  std::map<std::string, Value> inside = names();
  names() = before;
  for (const std::string &name : assigned)
    if (!before.contains(name))
      if (auto found = inside.find(name); found != inside.end())
        frame->lost[name] = found->second.assigned;
}

// ---- for ---------------------------------------------------------------------------------------------

Generator::Flow Generator::runFor(const ForStmt &stmt) {
  Value iterable = evaluate(*stmt.iterable);
  if (auto *bounds = iterable.get<std::shared_ptr<RangeValue>>()) {
    if ((*bounds)->isStatic)
      return runStaticFor(stmt, **bounds);
    runDynamicFor(stmt, **bounds);
    return Flow::Next;
  }
  if (const Tuple *tuple = iterable.tuple()) {
    std::vector<Value> elements = tuple->elements;
    for (const Value &element : elements) {
      assign(*stmt.target, element);
      if (runBlock(stmt.body, 0, nullptr) == Flow::Returned)
        return Flow::Returned;
    }
    return Flow::Next;
  }
  throw CompileError(stmt.iterable->range, "a loop runs over range, tl.range, tl.static_range or a "
                                           "tuple, not over " + iterable.describe());
}

Generator::Flow Generator::runStaticFor(const ForStmt &stmt, const RangeValue &range) {
  int64_t start = constantInt(range.bounds[0], "the start of tl.static_range");
  int64_t end = constantInt(range.bounds[1], "the end of tl.static_range");
  int64_t step = constantInt(range.bounds[2], "the step of tl.static_range");
  if (step == 0)
    fail("the step of a range must not be 0");
  if ((end - start) / step > 4096)
    fail("tl.static_range unrolls more than 4096 turns", "use tl.range");
  for (int64_t i = start; step > 0 ? i < end : i > end; i += step) {
    assign(*stmt.target, Int{i});
    if (runBlock(stmt.body, 0, nullptr) == Flow::Returned)
      return Flow::Returned;
  }
  return Flow::Next;
}

// How a loop runs: the bounds of its scf.for, in 64 bits so that the index never wraps, and for
// steps that are not positive constants the first value and the step of what the user sees.
struct Generator::LoopBounds {
  Tile begin, end, step;
  std::optional<std::pair<Tile, Tile>> counted; // origin and step: index = origin + turn * step
};

// Turns of range(start, end, step) for a step of either sign: ceil((end - start) / step), or 0.
static Tile turnCount(Generator &gen, Tile start, Tile end, Tile step) {
  auto number = [&](int64_t value) { return gen.integer(value, DType::Int64); };
  Tile down = gen.comparison(CompareOp::LT, step, number(0));
  auto either = [&](Tile a, Tile b) { return *gen.select(down, a, b).tile(); };
  Tile distance = either(gen.arithmetic(BinaryOp::Sub, start, end),
                         gen.arithmetic(BinaryOp::Sub, end, start));
  Tile size = either(gen.arithmetic(BinaryOp::Sub, number(0), step), step);
  Tile rounded = gen.arithmetic(BinaryOp::Add, distance,
                                gen.arithmetic(BinaryOp::Sub, size, number(1)));
  return gen.maximum(gen.arithmetic(BinaryOp::FloorDiv, rounded, size), number(0), false);
}

Generator::LoopBounds Generator::loopBounds(const RangeValue &range) {
  Tile start = cast(scalarInt(range.bounds[0], "a bound of range"), DType::Int64);
  Tile end = cast(scalarInt(range.bounds[1], "a bound of range"), DType::Int64);
  Tile step = cast(scalarInt(range.bounds[2], "the step of range"), DType::Int64);
  std::optional<__int128> constant = range.bounds[2].asInt();
  if (constant && *constant == 0)
    fail("the step of a range must not be 0");
  if (constant && *constant > 0)
    return {start, end, step, std::nullopt};
  if (!constant) {
    Tile valid = comparison(CompareOp::NE, step, integer(0, DType::Int64));
    core::AssertOp::create(builder, loc(), valid.value, "the step of a range is 0");
  }
  return {integer(0, DType::Int64), turnCount(*this, start, end, step), integer(1, DType::Int64),
          std::pair(start, step)};
}

// The type of the loop variable: int32 unless a bound is wider.
static DType indexType(Generator &gen, const RangeValue &range) {
  DType type = DType::Int32;
  for (const Value &bound : range.bounds)
    if (auto common = promote(type, gen.scalarInt(bound, "a bound of range").element.dtype, false))
      type = *common;
  return type;
}

void Generator::runDynamicFor(const ForStmt &stmt, const RangeValue &range) {
  DType type = indexType(*this, range);
  LoopBounds bounds = loopBounds(range);
  std::vector<std::string> assigned = assignedNames(stmt.body);
  std::vector<std::string> carried = carriedNames(assigned);
  std::vector<Tile> initial = carriedTiles(carried);
  std::map<std::string, Value> before = names();
  std::vector<mlir::Value> operands;
  for (const Tile &tile : initial)
    operands.push_back(tile.value);
  auto loop = scf::ForOp::create(builder, loc(), bounds.begin.value, bounds.end.value,
                                 bounds.step.value, operands);
  for (const auto &[hint, value] : range.hints)
    loop->setAttr("core." + hint, builder.getI32IntegerAttr(int32_t(value)));
  {
    OpBuilder::InsertionGuard guard(builder);
    if (loop.getBody()->mightHaveTerminator())
      loop.getBody()->getTerminator()->erase();
    builder.setInsertionPointToEnd(loop.getBody());
    bindCarried(carried, loop.getRegionIterArgs(), initial);
    Tile index{loop.getInductionVar(), {ElementType::Kind::Scalar, DType::Int64}};
    if (bounds.counted)
      index = arithmetic(BinaryOp::Add, bounds.counted->first,
                         arithmetic(BinaryOp::Mul, index, bounds.counted->second));
    index = cast(index, type);
    assign(*stmt.target, index);
    ++frame->loops;
    runBlock(stmt.body, 0, nullptr);
    --frame->loops;
    scf::YieldOp::create(builder, loc(), yieldedValues(carried, before));
  }
  forget(before, assigned);
  bindCarried(carried, loop.getResults(), initial);
  if (auto *name = llvm::dyn_cast<NameExpr>(stmt.target.get())) {
    // Python leaves the last value, or the one before when the loop runs zero times.
    names().erase(name->name);
    frame->lost[name->name] = stmt.target->range;
  }
}

// ---- while ---------------------------------------------------------------------------------------------

void Generator::runWhile(const WhileStmt &stmt) {
  std::vector<std::string> assigned = assignedNames(stmt.body);
  std::vector<std::string> carried = carriedNames(assigned);
  std::vector<Tile> initial = carriedTiles(carried);
  std::map<std::string, Value> before = names();
  std::vector<mlir::Value> operands;
  std::vector<Type> types;
  std::vector<Location> locations;
  for (const Tile &tile : initial) {
    operands.push_back(tile.value);
    types.push_back(tile.value.getType());
    locations.push_back(loc());
  }
  auto loop = scf::WhileOp::create(builder, loc(), types, operands);
  OpBuilder::InsertionGuard guard(builder);
  mlir::Block *head = builder.createBlock(&loop.getBefore(), {}, types, locations);
  bindCarried(carried, head->getArguments(), initial);
  {
    RangeScope scope(*this, stmt.condition->range);
    Value condition = evaluate(*stmt.condition);
    Tile scalar = truth(condition);
    if (!scalar.isScalar())
      fail("the condition of a while must be a scalar, not " + condition.describe(),
           "reduce the tile first, for example with tl.max");
    std::vector<mlir::Value> current(head->getArguments().begin(), head->getArguments().end());
    scf::ConditionOp::create(builder, loc(), scalar.value, current);
  }
  mlir::Block *body = builder.createBlock(&loop.getAfter(), {}, types, locations);
  bindCarried(carried, body->getArguments(), initial);
  ++frame->loops;
  runBlock(stmt.body, 0, nullptr);
  --frame->loops;
  scf::YieldOp::create(builder, loc(), yieldedValues(carried, before));
  forget(before, assigned);
  bindCarried(carried, loop.getResults(), initial);
}

} // namespace tilery::frontend
