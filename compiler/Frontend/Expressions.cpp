// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Evaluates expressions: constants as far as possible, tiles where not.
#include "compiler/Frontend/Generator.h"

#include "llvm/Support/Casting.h"

#include <algorithm>

using namespace mlir;

namespace tilery::frontend {

Location Generator::loc() {
  const SourceRange &here = range();
  if (constantsOnly) // every operation asks for its place
    fail("this value exists only while a kernel runs; a constant cannot depend on it");
  if (!here.source)
    return builder.getUnknownLoc();
  Location location = FileLineColRange::get(
      builder.getStringAttr(here.source->file), here.line, here.column + here.source->indent,
      std::max(here.endLine, here.line), std::max(here.endColumn, 1) + here.source->indent);
  // The place in the inlined function, then who called (whose location has its own callers).
  return callSites.empty() ? location : Location(CallSiteLoc::get(location, callSites.back()));
}

void Generator::fail(std::string message, std::string hint) {
  CompileError error(range(), std::move(message));
  if (hint.empty())
    throw error;
  throw std::move(error).hint(std::move(hint));
}

void Generator::warn(const std::string &message) {
  warnings.push_back(renderDiagnostic(range(), "warning", message));
}

Value Generator::evaluate(const Expr &expr) {
  RangeScope scope(*this, expr.range);
  switch (expr.kind) {
  case Expr::Kind::Name: return evaluateName(llvm::cast<NameExpr>(expr));
  case Expr::Kind::Int: {
    __int128 value = llvm::cast<IntExpr>(expr).value;
    if (value >= (__int128(1) << 64))
      fail("this integer does not fit 64 bits");
    return Int{value};
  }
  case Expr::Kind::Float: return llvm::cast<FloatExpr>(expr).value;
  case Expr::Kind::String: return llvm::cast<StringExpr>(expr).value;
  case Expr::Kind::Bool: return llvm::cast<BoolExpr>(expr).value;
  case Expr::Kind::None: return None{};
  case Expr::Kind::Ellipsis: return EllipsisValue{};
  case Expr::Kind::Unary: {
    auto &node = llvm::cast<UnaryExpr>(expr);
    return unary(node.op, evaluate(*node.operand));
  }
  case Expr::Kind::Binary: {
    auto &node = llvm::cast<BinaryExpr>(expr);
    Value lhs = evaluate(*node.lhs), rhs = evaluate(*node.rhs);
    return binary(node.op, lhs, rhs);
  }
  case Expr::Kind::Compare: return evaluateCompare(llvm::cast<CompareExpr>(expr));
  case Expr::Kind::Logical: return evaluateLogical(llvm::cast<LogicalExpr>(expr));
  case Expr::Kind::Conditional: return evaluateConditional(llvm::cast<ConditionalExpr>(expr));
  case Expr::Kind::Call: return evaluateCall(llvm::cast<CallExpr>(expr));
  case Expr::Kind::Attribute: {
    auto &node = llvm::cast<AttributeExpr>(expr);
    return attribute(evaluate(*node.value), node.name);
  }
  case Expr::Kind::Subscript: return evaluateSubscript(llvm::cast<SubscriptExpr>(expr));
  case Expr::Kind::Slice: {
    auto &node = llvm::cast<SliceExpr>(expr);
    if (node.lower || node.upper || node.step)
      fail("only the full slice ':' can index a tile", "load the part that you need");
    return SliceValue{true};
  }
  case Expr::Kind::Tuple:
  case Expr::Kind::List: {
    auto &elements = expr.kind == Expr::Kind::Tuple ? llvm::cast<TupleExpr>(expr).elements
                                                    : llvm::cast<ListExpr>(expr).elements;
    std::vector<Value> values;
    for (const ExprPtr &element : elements) {
      if (auto *starred = llvm::dyn_cast<StarredExpr>(element.get())) {
        for (Value &value : sequence(evaluate(*starred->value), "what follows '*'"))
          values.push_back(std::move(value));
        continue;
      }
      values.push_back(evaluate(*element));
    }
    return makeTuple(std::move(values));
  }
  case Expr::Kind::Lambda:
    return std::make_shared<LambdaValue>(
        LambdaValue{&llvm::cast<LambdaExpr>(expr), frame->scope});
  case Expr::Kind::FString: return evaluateFString(llvm::cast<FStringExpr>(expr));
  case Expr::Kind::Starred: fail("'*' can stand only before an argument or element");
  }
  fail("this expression is not part of the kernel language");
}

Value Generator::evaluateName(const NameExpr &name) {
  for (Scope *scope = frame->scope.get(); scope; scope = scope->parent.get())
    if (auto found = scope->names.find(name.name); found != scope->names.end())
      return found->second;
  if (auto lost = frame->lost.find(name.name); lost != frame->lost.end())
    throw CompileError(name.range, "'" + name.name + "' may have no value here")
        .note(lost->second, "it is assigned only on this path")
        .hint("give it a value before the `if` or the loop");
  if (frame->module)
    if (std::optional<Value> global = frame->module->lookup(name.name))
      return *global;
  if (const Builtin *builtin = findBuiltin("builtins", name.name))
    return BuiltinValue{builtin};
  std::vector<std::string> known = builtinNames("builtins");
  for (Scope *scope = frame->scope.get(); scope; scope = scope->parent.get())
    for (const auto &entry : scope->names)
      known.push_back(entry.first);
  if (frame->module)
    for (std::string &global : frame->module->names())
      known.push_back(std::move(global));
  std::string nearest = nearestName(name.name, known);
  fail("the name '" + name.name + "' is not defined",
       nearest.empty() ? "" : "did you mean '" + nearest + "'?");
}

// Calls may touch memory, which a false condition before them must prevent.
static bool containsCall(const Expr &expr) {
  auto any = [](const std::vector<ExprPtr> &parts) {
    return llvm::any_of(parts, [](const ExprPtr &part) { return containsCall(*part); });
  };
  if (llvm::isa<CallExpr>(&expr))
    return true;
  if (auto *node = llvm::dyn_cast<UnaryExpr>(&expr))
    return containsCall(*node->operand);
  if (auto *node = llvm::dyn_cast<BinaryExpr>(&expr))
    return containsCall(*node->lhs) || containsCall(*node->rhs);
  if (auto *node = llvm::dyn_cast<CompareExpr>(&expr))
    return any(node->operands);
  if (auto *node = llvm::dyn_cast<LogicalExpr>(&expr))
    return any(node->operands);
  if (auto *node = llvm::dyn_cast<SubscriptExpr>(&expr))
    return containsCall(*node->value);
  return llvm::isa<ConditionalExpr>(&expr);
}

static bool isTrue(Generator &gen, const Value &constant) {
  return !*gen.unary(UnaryOp::Not, constant).get<bool>();
}

// `a and b` with a tile `a`: elementwise, int1; a scalar `a` decides whether a `b` with calls runs at
// all. A constant `b` decides, or drops out, as in Triton.
Value Generator::logicalPair(const Value &lhs, const Expr &rhs, bool isAnd) {
  Tile a = truth(lhs);
  if (a.isScalar() && containsCall(rhs)) {
    auto right = [&]() -> Value { return truth(evaluate(rhs)); };
    auto shortcut = [&]() -> Value { return !isAnd; };
    return isAnd ? branch(a, right, shortcut) : branch(a, shortcut, right);
  }
  Value second = evaluate(rhs);
  if (!second.tile())
    return isTrue(*this, second) == isAnd ? lhs : second;
  Tile b = truth(second);
  broadcastTogether(a, b);
  return arithmetic(isAnd ? BinaryOp::And : BinaryOp::Or, a, b);
}

// A constant that decides is the result, another one has no effect, the last operand aside.
Value Generator::evaluateLogical(const LogicalExpr &logical) {
  Value result = evaluate(*logical.operands[0]);
  for (size_t i = 1; i < logical.operands.size(); ++i) {
    if (result.tile()) {
      result = logicalPair(result, *logical.operands[i], logical.isAnd);
      continue;
    }
    if (isTrue(*this, result) != logical.isAnd)
      return result;
    result = evaluate(*logical.operands[i]);
  }
  return result;
}

Value Generator::evaluateCompare(const CompareExpr &node) {
  Value result, lhs = evaluate(*node.operands[0]);
  for (size_t i = 0; i < node.ops.size(); ++i) {
    Value rhs = evaluate(*node.operands[i + 1]);
    Value link = compare(node.ops[i], lhs, rhs);
    if (i == 0) {
      result = link;
    } else if (result.tile() || link.tile()) {
      Tile a = truth(result), b = truth(link);
      broadcastTogether(a, b);
      result = arithmetic(BinaryOp::And, a, b);
    } else {
      result = *result.get<bool>() && *link.get<bool>();
    }
    lhs = rhs;
  }
  return result;
}

Value Generator::evaluateConditional(const ConditionalExpr &node) {
  Value condition = evaluate(*node.condition);
  if (!condition.tile()) {
    bool isTrue = !*unary(UnaryOp::Not, condition).get<bool>();
    return evaluate(isTrue ? *node.whenTrue : *node.whenFalse);
  }
  Tile scalar = truth(condition);
  if (!scalar.isScalar())
    fail("the condition of an if expression must be a scalar, not " + condition.describe(),
         "use tl.where to choose element by element");
  return branch(scalar, [&] { return evaluate(*node.whenTrue); },
                [&] { return evaluate(*node.whenFalse); });
}

Value Generator::evaluateCall(const CallExpr &node) {
  Value callee = evaluate(*node.callee);
  std::vector<Value> arguments;
  for (const ExprPtr &argument : node.arguments) {
    if (auto *starred = llvm::dyn_cast<StarredExpr>(argument.get())) {
      for (Value &value : sequence(evaluate(*starred->value), "what follows '*'"))
        arguments.push_back(std::move(value));
      continue;
    }
    arguments.push_back(evaluate(*argument));
  }
  std::vector<std::pair<std::string, Value>> keywords;
  for (const Keyword &keyword : node.keywords) {
    if (keyword.name.empty())
      throw CompileError(keyword.range, "'**' is not part of the kernel language")
          .hint("name each argument");
    keywords.emplace_back(keyword.name, evaluate(*keyword.value));
  }
  return call(callee, std::move(arguments), std::move(keywords));
}

Value Generator::evaluateSubscript(const SubscriptExpr &node) {
  Value value = evaluate(*node.value);
  std::vector<Value> indices;
  for (const ExprPtr &index : node.indices)
    indices.push_back(evaluate(*index));
  return subscript(value, indices);
}

static Value subscriptTuple(Generator &gen, const Tuple &tuple, const std::vector<Value> &indices) {
  if (indices.size() != 1)
    gen.fail("a tuple takes one index, not " + std::to_string(indices.size()));
  int64_t size = int64_t(tuple.elements.size());
  int64_t index = gen.constantInt(indices[0], "the index of a tuple");
  if (index < -size || index >= size)
    gen.fail("index " + std::to_string(index) + " is outside a tuple of " + std::to_string(size));
  return tuple.elements[index < 0 ? index + size : index];
}

// x[:, None]: each None adds a dimension, each ':' keeps one.
Value Generator::subscript(const Value &value, const std::vector<Value> &indices) {
  if (const Tuple *tuple = value.tuple())
    return subscriptTuple(*this, *tuple, indices);
  const Tile *tile = value.tile();
  if (!tile)
    fail("a " + value.describe() + " cannot be indexed");
  Tile result = *tile;
  int64_t axis = 0, rank = int64_t(tile->shape().size());
  int64_t slices = std::count_if(indices.begin(), indices.end(),
                                 [](const Value &index) { return index.get<SliceValue>(); });
  if (slices > rank)
    fail("too many indices: the tile has " + std::to_string(rank) + " dimensions");
  for (const Value &index : indices) {
    if (index.isNone()) {
      result = expandDims(result, axis++);
    } else if (index.get<SliceValue>()) {
      ++axis;
    } else if (index.get<EllipsisValue>()) {
      axis += rank - slices;
      slices = rank; // a second one stands for nothing
    } else {
      fail("a tile is indexed only with ':' and None, not with " + index.describe(),
           "tiles are values: load the part that you need, or use tl.gather");
    }
  }
  return result;
}

static std::string pythonText(const Value &value) {
  if (auto *string = value.get<std::string>())
    return *string;
  if (auto integer = value.asInt(); integer && !value.get<bool>())
    return toString(*integer);
  return value.describe();
}

Value Generator::evaluateFString(const FStringExpr &node) {
  std::string text = node.pieces[0];
  for (size_t i = 0; i < node.values.size(); ++i)
    text += pythonText(evaluate(*node.values[i])) + node.pieces[i + 1];
  return text;
}

} // namespace tilery::frontend
