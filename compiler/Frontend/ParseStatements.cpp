// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Statements and function definitions.
#include "compiler/Frontend/ParserDetail.h"

#include "llvm/Support/Casting.h"

#include <map>
#include <optional>

namespace tilery::frontend {

bool Parser::acceptOperator(std::string_view spelled) {
  if (!next->isOperator(spelled))
    return false;
  ++next;
  return true;
}

bool Parser::acceptName(std::string_view spelled) {
  if (!next->isName(spelled))
    return false;
  ++next;
  return true;
}

const Token &Parser::expectOperator(std::string_view spelled, std::string_view after) {
  if (!next->isOperator(spelled))
    refuse(next->range, "expected '" + std::string(spelled) + "' after " + std::string(after));
  return take();
}

std::string Parser::expectIdentifier(std::string_view what) {
  if (next->kind != Token::Kind::Name || isKeyword(next->text))
    refuse(next->range, "expected " + std::string(what));
  return take().text;
}

void Parser::refuse(const SourceRange &range, std::string message, std::string hint) {
  CompileError error(range, std::move(message));
  if (hint.empty())
    throw error;
  throw std::move(error).hint(std::move(hint));
}

std::unique_ptr<FunctionDef> Parser::parseFunction() {
  auto function = std::make_unique<FunctionDef>();
  while (acceptOperator("@")) {
    function->decorators.push_back(parseExpression());
    if (next->kind == Token::Kind::Newline)
      ++next;
  }
  if (next->isName("async"))
    refuse(next->range, "a kernel cannot be a coroutine", "write `def` instead of `async def`");
  SourceRange start = next->range;
  if (!acceptName("def"))
    refuse(start, "expected a function definition", "a kernel is a `def` under @ty.jit");
  function->name = expectIdentifier("the function's name");
  expectOperator("(", "the function's name");
  parseParameters(*function);
  if (acceptOperator("->"))
    parseExpression();
  function->range = start.through((next - 1)->range);
  function->body = parseBlock("the function's head");
  return function;
}

void Parser::parseParameters(FunctionDef &function) {
  auto form = Parameter::Form::Plain;
  while (!acceptOperator(")")) {
    Parameter parameter;
    parameter.range = next->range;
    if (acceptOperator("/")) {
      acceptOperator(",");
      continue;
    }
    if (next->isOperator("**"))
      refuse(next->range, "a kernel cannot take **keywords", "name each parameter");
    if (acceptOperator("*")) {
      form = Parameter::Form::KeywordOnly;
      if (acceptOperator(","))
        continue;
      parameter.form = Parameter::Form::VarArgs;
    } else {
      parameter.form = form;
    }
    parameter.range = next->range;
    parameter.name = expectIdentifier("a parameter's name");
    for (const Parameter &other : function.parameters)
      if (other.name == parameter.name)
        refuse(parameter.range, "parameter '" + parameter.name + "' is named twice");
    if (acceptOperator(":"))
      parameter.annotation = parseExpression();
    if (acceptOperator("="))
      parameter.defaultValue = parseExpression();
    function.parameters.push_back(std::move(parameter));
    if (!next->isOperator(")"))
      expectOperator(",", "a parameter");
  }
}

Block Parser::parseBlock(std::string_view owner) {
  DepthGuard guard(*this);
  expectOperator(":", owner);
  Block block;
  if (next->kind != Token::Kind::Newline) { // `if x: y = 1`
    parseSimpleLine(block);
    return block;
  }
  ++next;
  if (next->kind != Token::Kind::Indent)
    refuse(next->range, "expected an indented block after " + std::string(owner));
  ++next;
  while (next->kind != Token::Kind::Dedent && !atEnd())
    parseStatement(block);
  if (!atEnd())
    ++next;
  return block;
}

void Parser::parseStatement(Block &block) {
  refuseUnsupported();
  if (!parseCompound(block))
    parseSimpleLine(block);
}

// Statements of Python that a kernel cannot have, each with what to write instead.
void Parser::refuseUnsupported() {
  static const std::map<std::string_view, std::string_view> instead = {
      {"break", "let the loop's condition end it: `while` with a flag, or a mask"},
      {"continue", "put the rest of the body under an `if`"},
      {"def", "move the function to module level and decorate it with @ty.jit"},
      {"class", "define classes outside the kernel"},
      {"import", "import at module level"},
      {"from", "import at module level"},
      {"try", "a kernel cannot catch errors; use tl.device_assert to check"},
      {"raise", "use tl.device_assert, or tl.static_assert for constants"},
      {"with", "do this on the host"},
      {"global", "pass the value as a tl.constexpr parameter"},
      {"nonlocal", "pass the value as a tl.constexpr parameter"},
      {"del", "names end with the function"},
      {"yield", "a kernel cannot be a generator"},
      {"async", "a kernel cannot be a coroutine"},
      {"await", "a kernel cannot be a coroutine"},
  };
  if (next->kind != Token::Kind::Name)
    return;
  auto found = instead.find(next->text);
  if (found != instead.end())
    refuse(next->range, "'" + next->text + "' is not part of the kernel language",
           std::string(found->second));
  if (next->text == "match" && (next + 1)->kind == Token::Kind::Name)
    refuse(next->range, "'match' is not part of the kernel language", "use if and elif");
}

bool Parser::parseCompound(Block &block) {
  if (next->isName("if"))
    block.push_back(parseIf());
  else if (next->isName("for"))
    block.push_back(parseFor());
  else if (next->isName("while"))
    block.push_back(parseWhile());
  else
    return false;
  return true;
}

void Parser::parseSimpleLine(Block &block) {
  do {
    refuseUnsupported();
    parseSimple(block);
  } while (acceptOperator(";") && next->kind != Token::Kind::Newline && !atEnd());
  if (next->kind == Token::Kind::Newline)
    ++next;
  else if (!atEnd())
    refuse(next->range, "unexpected '" + next->text + "' after a statement");
}

void Parser::parseSimple(Block &block) {
  if (next->isName("return"))
    block.push_back(parseReturn());
  else if (next->isName("assert"))
    block.push_back(parseAssert());
  else if (next->isName("pass"))
    block.push_back(std::make_unique<PassStmt>(take().range));
  else
    block.push_back(parseAssignment());
}

StmtPtr Parser::parseIf() {
  DepthGuard guard(*this);
  auto stmt = std::make_unique<IfStmt>(take().range);
  stmt->condition = parseExpression();
  stmt->range = stmt->range.through(stmt->condition->range);
  stmt->thenBody = parseBlock("the condition");
  if (next->isName("elif"))
    stmt->elseBody.push_back(parseIf());
  else if (acceptName("else"))
    stmt->elseBody = parseBlock("else");
  return stmt;
}

static void checkTarget(const Expr &target) {
  if (llvm::isa<NameExpr>(&target))
    return;
  const std::vector<ExprPtr> *elements = nullptr;
  if (auto *tuple = llvm::dyn_cast<TupleExpr>(&target))
    elements = &tuple->elements;
  else if (auto *list = llvm::dyn_cast<ListExpr>(&target))
    elements = &list->elements;
  if (!elements)
    throw CompileError(target.range, "only names and tuples of names can be assigned to")
        .hint("tiles are values: make a new one with tl.where, or write memory with tl.store");
  for (const ExprPtr &element : *elements)
    checkTarget(*element);
}

StmtPtr Parser::parseFor() {
  auto stmt = std::make_unique<ForStmt>(take().range);
  stmt->target = parseTargetList();
  checkTarget(*stmt->target);
  if (!acceptName("in"))
    refuse(next->range, "expected 'in' after the loop variable");
  stmt->iterable = parseExpressionList();
  stmt->range = stmt->range.through(stmt->iterable->range);
  stmt->body = parseBlock("the loop's head");
  if (next->isName("else"))
    refuse(next->range, "a loop in a kernel has no else");
  return stmt;
}

StmtPtr Parser::parseWhile() {
  auto stmt = std::make_unique<WhileStmt>(take().range);
  stmt->condition = parseExpression();
  stmt->range = stmt->range.through(stmt->condition->range);
  stmt->body = parseBlock("the loop's condition");
  if (next->isName("else"))
    refuse(next->range, "a loop in a kernel has no else");
  return stmt;
}

StmtPtr Parser::parseReturn() {
  auto stmt = std::make_unique<ReturnStmt>(take().range);
  if (startsExpression()) {
    stmt->value = parseExpressionList();
    stmt->range = stmt->range.through(stmt->value->range);
  }
  return stmt;
}

StmtPtr Parser::parseAssert() {
  auto stmt = std::make_unique<AssertStmt>(take().range);
  stmt->condition = parseExpression();
  if (acceptOperator(","))
    stmt->message = parseExpression();
  stmt->range = stmt->range.through((next - 1)->range);
  return stmt;
}

static std::optional<BinaryOp> augmentedOperator(const Token &token) {
  static const std::map<std::string_view, BinaryOp> ops = {
      {"+=", BinaryOp::Add},      {"-=", BinaryOp::Sub}, {"*=", BinaryOp::Mul},
      {"/=", BinaryOp::Div},      {"//=", BinaryOp::FloorDiv}, {"%=", BinaryOp::Mod},
      {"**=", BinaryOp::Pow},     {"&=", BinaryOp::And}, {"|=", BinaryOp::Or},
      {"^=", BinaryOp::Xor},      {"<<=", BinaryOp::Shl}, {">>=", BinaryOp::Shr},
      {"@=", BinaryOp::MatMul}};
  auto found = token.kind == Token::Kind::Operator ? ops.find(token.text) : ops.end();
  return found == ops.end() ? std::nullopt : std::optional(found->second);
}

StmtPtr Parser::parseAssignment() {
  ExprPtr first = parseExpressionList();
  SourceRange start = first->range;
  if (acceptOperator(":")) {
    auto stmt = std::make_unique<AnnAssignStmt>(start);
    checkTarget(*first);
    stmt->target = std::move(first);
    stmt->annotation = parseExpression();
    if (acceptOperator("="))
      stmt->value = parseExpressionList();
    stmt->range = start.through((next - 1)->range);
    return stmt;
  }
  if (std::optional<BinaryOp> op = augmentedOperator(*next)) {
    ++next;
    auto stmt = std::make_unique<AugAssignStmt>(start);
    if (!llvm::isa<NameExpr>(first.get()))
      refuse(start, "only a name can stand before an augmented assignment");
    stmt->target = std::move(first);
    stmt->op = *op;
    stmt->value = parseExpressionList();
    stmt->range = start.through(stmt->value->range);
    return stmt;
  }
  if (!next->isOperator("=")) {
    auto stmt = std::make_unique<ExprStmt>(start);
    stmt->value = std::move(first);
    return stmt;
  }
  auto stmt = std::make_unique<AssignStmt>(start);
  while (acceptOperator("=")) {
    checkTarget(*first);
    stmt->targets.push_back(std::move(first));
    first = parseExpressionList();
  }
  stmt->value = std::move(first);
  stmt->range = start.through(stmt->value->range);
  return stmt;
}

} // namespace tilery::frontend
