// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Runs statements in order; each emits IR and changes what names mean.
#include "compiler/Frontend/Generator.h"

#include "llvm/Support/Casting.h"

using namespace mlir;

namespace tilery::frontend {

static void collectNames(const Expr &target, std::vector<std::string> &names) {
  if (auto *name = llvm::dyn_cast<NameExpr>(&target)) {
    if (!llvm::is_contained(names, name->name))
      names.push_back(name->name);
  } else if (auto *tuple = llvm::dyn_cast<TupleExpr>(&target)) {
    for (const ExprPtr &element : tuple->elements)
      collectNames(*element, names);
  } else if (auto *list = llvm::dyn_cast<ListExpr>(&target)) {
    for (const ExprPtr &element : list->elements)
      collectNames(*element, names);
  }
}

static void collectAssigned(const Block &block, std::vector<std::string> &names) {
  for (const StmtPtr &stmt : block) {
    if (auto *assign = llvm::dyn_cast<AssignStmt>(stmt.get())) {
      for (const ExprPtr &target : assign->targets)
        collectNames(*target, names);
    } else if (auto *augmented = llvm::dyn_cast<AugAssignStmt>(stmt.get())) {
      collectNames(*augmented->target, names);
    } else if (auto *annotated = llvm::dyn_cast<AnnAssignStmt>(stmt.get())) {
      collectNames(*annotated->target, names);
    } else if (auto *branch = llvm::dyn_cast<IfStmt>(stmt.get())) {
      collectAssigned(branch->thenBody, names);
      collectAssigned(branch->elseBody, names);
    } else if (auto *loop = llvm::dyn_cast<ForStmt>(stmt.get())) {
      collectNames(*loop->target, names);
      collectAssigned(loop->body, names);
    } else if (auto *loop = llvm::dyn_cast<WhileStmt>(stmt.get())) {
      collectAssigned(loop->body, names);
    }
  }
}

std::vector<std::string> assignedNames(const Block &block) {
  std::vector<std::string> names;
  collectAssigned(block, names);
  return names;
}

bool containsReturn(const Block &block) {
  return llvm::any_of(block, [](const StmtPtr &stmt) {
    if (auto *branch = llvm::dyn_cast<IfStmt>(stmt.get()))
      return containsReturn(branch->thenBody) || containsReturn(branch->elseBody);
    if (auto *loop = llvm::dyn_cast<ForStmt>(stmt.get()))
      return containsReturn(loop->body);
    if (auto *loop = llvm::dyn_cast<WhileStmt>(stmt.get()))
      return containsReturn(loop->body);
    return llvm::isa<ReturnStmt>(stmt.get());
  });
}

// Runs the block from `index`, then what follows it on the way to the end of the function.
Generator::Flow Generator::runBlock(const Block &block, size_t index, const Continuation *rest) {
  for (; index < block.size(); ++index) {
    const Stmt &stmt = *block[index];
    RangeScope scope(*this, stmt.range);
    if (auto *branch = llvm::dyn_cast<IfStmt>(&stmt)) {
      Continuation following{&block, index + 1, rest};
      bool restDone = false;
      Flow flow = runIf(*branch, following, restDone);
      if (flow == Flow::Returned || restDone)
        return flow;
      continue;
    }
    if (runStatement(stmt) == Flow::Returned)
      return Flow::Returned;
  }
  return rest ? runBlock(*rest->block, rest->index, rest->next) : Flow::Next;
}

Generator::Flow Generator::runStatement(const Stmt &stmt) {
  switch (stmt.kind) {
  case Stmt::Kind::Assign: {
    auto &node = llvm::cast<AssignStmt>(stmt);
    Value value = evaluate(*node.value);
    for (const ExprPtr &target : node.targets)
      assign(*target, value);
    return Flow::Next;
  }
  case Stmt::Kind::AugAssign: {
    auto &node = llvm::cast<AugAssignStmt>(stmt);
    Value before = evaluate(*node.target), operand = evaluate(*node.value);
    assign(*node.target, binary(node.op, before, operand));
    return Flow::Next;
  }
  case Stmt::Kind::AnnAssign: {
    auto &node = llvm::cast<AnnAssignStmt>(stmt);
    if (!node.value)
      return Flow::Next;
    Value value = evaluate(*node.value);
    auto *annotation = llvm::dyn_cast<AttributeExpr>(node.annotation.get());
    if (annotation && annotation->name == "constexpr" && value.tile())
      fail("a tl.constexpr must be a constant, not " + value.describe());
    assign(*node.target, value);
    return Flow::Next;
  }
  case Stmt::Kind::Expression: {
    auto &node = llvm::cast<ExprStmt>(stmt);
    if (!llvm::isa<StringExpr>(node.value.get())) // docstring
      evaluate(*node.value);
    return Flow::Next;
  }
  case Stmt::Kind::For: return runFor(llvm::cast<ForStmt>(stmt));
  case Stmt::Kind::While: runWhile(llvm::cast<WhileStmt>(stmt)); return Flow::Next;
  case Stmt::Kind::Return: {
    auto &node = llvm::cast<ReturnStmt>(stmt);
    if (frame->loops > 0)
      fail("return cannot leave a loop that runs on the device",
           "set a flag, or compute the loop's bounds so that it ends");
    frame->returned = node.value ? evaluate(*node.value) : Value(None{});
    frame->returned.assigned = stmt.range;
    return Flow::Returned;
  }
  case Stmt::Kind::Assert: runAssert(llvm::cast<AssertStmt>(stmt)); return Flow::Next;
  case Stmt::Kind::Pass: return Flow::Next;
  case Stmt::Kind::If: break; // runBlock handles it, since it may take what follows along
  }
  return Flow::Next;
}

void Generator::assign(const Expr &target, Value value) {
  if (auto *name = llvm::dyn_cast<NameExpr>(&target)) {
    value.assigned = range();
    frame->lost.erase(name->name);
    names()[name->name] = std::move(value);
    return;
  }
  auto *tuple = llvm::dyn_cast<TupleExpr>(&target);
  auto *list = llvm::dyn_cast<ListExpr>(&target);
  const auto &targets = tuple ? tuple->elements : list->elements;
  if (!value.tuple())
    fail("cannot unpack " + value.describe() + " into " + std::to_string(targets.size()) +
         " names");
  std::vector<Value> elements = value.tuple()->elements;
  if (elements.size() != targets.size())
    fail("cannot unpack " + std::to_string(elements.size()) + " values into " +
         std::to_string(targets.size()) + " names");
  for (auto [part, element] : llvm::zip(targets, elements))
    assign(*part, element);
}

void Generator::runAssert(const AssertStmt &stmt) {
  Value condition = evaluate(*stmt.condition);
  std::string message = stmt.message ? constantString(evaluate(*stmt.message), "the message")
                                     : stmt.condition->range.text();
  if (condition.tile()) {
    if (checks.assertions)
      core::AssertOp::create(builder, loc(), truth(condition).value, message);
    return;
  }
  if (*unary(UnaryOp::Not, condition).get<bool>())
    fail("assertion failed: " + message);
}

} // namespace tilery::frontend
