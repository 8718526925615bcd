// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Recursive-descent parser of the kernel language.
#pragma once

#include "compiler/Frontend/Ast.h"
#include "compiler/Frontend/Lexer.h"

namespace tilery::frontend {

class Parser {
public:
  /// `tokens` must end with End and outlive the parser.
  explicit Parser(const std::vector<Token> &tokens) : next(tokens.data()) {}

  /// Decorators and a `def`. Throws CompileError.
  std::unique_ptr<FunctionDef> parseFunction();
  /// One expression (tuples without parentheses included).
  ExprPtr parseExpressionList();
  /// One logical line of simple statements, for module level.
  void parseSimpleLine(Block &block);
  bool atEnd() const { return next->kind == Token::Kind::End; }

private:
  const Token *next;
  int depth = 0; // of nested expressions and blocks: refuse instead of overflowing the stack

  struct DepthGuard;
  const Token &take() { return next->kind == Token::Kind::End ? *next : *next++; }
  bool acceptOperator(std::string_view spelled);
  bool acceptName(std::string_view spelled);
  const Token &expectOperator(std::string_view spelled, std::string_view after);
  std::string expectIdentifier(std::string_view what);
  [[noreturn]] void refuse(const SourceRange &range, std::string message, std::string hint = "");

  void parseParameters(FunctionDef &function);
  Block parseBlock(std::string_view owner);
  void parseStatement(Block &block);
  bool parseCompound(Block &block);
  void parseSimple(Block &block);
  void refuseUnsupported();
  StmtPtr parseIf();
  StmtPtr parseFor();
  StmtPtr parseWhile();
  StmtPtr parseReturn();
  StmtPtr parseAssert();
  StmtPtr parseAssignment();
  ExprPtr parseTargetList();

  ExprPtr parseExpression();
  ExprPtr parseLambda();
  ExprPtr parseLogical(bool isAnd);
  ExprPtr parseNot();
  ExprPtr parseComparison();
  ExprPtr parseBinary(int minPrecedence);
  ExprPtr parseUnary();
  ExprPtr parsePower();
  ExprPtr parsePostfix();
  ExprPtr parseCall(ExprPtr callee);
  ExprPtr parseSubscript(ExprPtr value);
  ExprPtr parseSubscriptItem();
  ExprPtr parseAtom();
  ExprPtr parseNumber(const Token &token);
  ExprPtr parseParenthesised();
  ExprPtr parseList();
  ExprPtr parseFString(const Token &token);
  ExprPtr parseStarredOrExpression();
  bool startsExpression() const;
};

} // namespace tilery::frontend
