// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Expressions, by precedence climbing (Python reference, "Operator precedence").
#include "compiler/Frontend/ParserDetail.h"

#include "llvm/ADT/StringExtras.h"

#include <cstdlib>
#include <map>
#include <set>

namespace tilery::frontend {

const char *spelling(UnaryOp op) {
  static const char *const names[] = {"+", "-", "not", "~"};
  return names[int(op)];
}
const char *spelling(BinaryOp op) {
  static const char *const names[] = {"+", "-", "*", "/", "//", "%", "**",
                                      "&", "|", "^", "<<", ">>", "@"};
  return names[int(op)];
}
const char *spelling(CompareOp op) {
  static const char *const names[] = {"==", "!=", "<", "<=", ">", ">=", "is", "is not", "in",
                                      "not in"};
  return names[int(op)];
}

bool isKeyword(std::string_view name) {
  static const std::set<std::string_view> keywords = {
      "False", "None",   "True",  "and",    "as",       "assert", "async", "await",  "break",
      "class", "continue", "def", "del",    "elif",     "else",   "except", "finally", "for",
      "from",  "global", "if",    "import", "in",       "is",     "lambda", "nonlocal", "not",
      "or",    "pass",   "raise", "return", "try",      "while",  "with",  "yield"};
  return keywords.contains(name);
}

bool Parser::startsExpression() const {
  switch (next->kind) {
  case Token::Kind::Name:
    return !isKeyword(next->text) || next->isName("not") || next->isName("lambda") ||
           next->isName("True") || next->isName("False") || next->isName("None");
  case Token::Kind::Operator:
    return llvm::StringRef("( [ - + ~ * ... {").contains(next->text);
  case Token::Kind::Number:
  case Token::Kind::String:
  case Token::Kind::FString:
    return true;
  default:
    return false;
  }
}

ExprPtr Parser::parseStarredOrExpression() {
  if (!next->isOperator("*"))
    return parseExpression();
  auto starred = std::make_unique<StarredExpr>(take().range);
  starred->value = parseExpression();
  starred->range = starred->range.through(starred->value->range);
  return starred;
}

ExprPtr Parser::parseExpressionList() {
  ExprPtr first = parseStarredOrExpression();
  if (!next->isOperator(","))
    return first;
  auto tuple = std::make_unique<TupleExpr>(first->range);
  tuple->elements.push_back(std::move(first));
  while (acceptOperator(",") && startsExpression())
    tuple->elements.push_back(parseStarredOrExpression());
  tuple->range = tuple->range.through((next - 1)->range);
  return tuple;
}

// Loop targets: names only, so that `in` is not taken for a comparison.
ExprPtr Parser::parseTargetList() {
  ExprPtr first = parsePostfix();
  if (!next->isOperator(","))
    return first;
  auto tuple = std::make_unique<TupleExpr>(first->range);
  tuple->elements.push_back(std::move(first));
  while (acceptOperator(",") && startsExpression())
    tuple->elements.push_back(parsePostfix());
  tuple->range = tuple->range.through((next - 1)->range);
  return tuple;
}

ExprPtr Parser::parseExpression() {
  DepthGuard guard(*this);
  if (next->isName("lambda"))
    return parseLambda();
  ExprPtr value = parseLogical(/*isAnd=*/false);
  if (next->isOperator(":=") )
    refuse(next->range, "':=' is not part of the kernel language", "assign on a line of its own");
  if (!next->isName("if"))
    return value;
  ++next;
  auto conditional = std::make_unique<ConditionalExpr>(value->range);
  conditional->whenTrue = std::move(value);
  conditional->condition = parseLogical(false);
  if (!acceptName("else"))
    refuse(next->range, "expected 'else' in a conditional expression");
  conditional->whenFalse = parseExpression();
  conditional->range = conditional->range.through(conditional->whenFalse->range);
  return conditional;
}

ExprPtr Parser::parseLambda() {
  auto lambda = std::make_unique<LambdaExpr>(take().range);
  while (!acceptOperator(":")) {
    lambda->parameters.push_back(expectIdentifier("a parameter's name"));
    if (!next->isOperator(":"))
      expectOperator(",", "a parameter");
  }
  lambda->body = parseExpression();
  lambda->range = lambda->range.through(lambda->body->range);
  return lambda;
}

ExprPtr Parser::parseLogical(bool isAnd) {
  ExprPtr first = isAnd ? parseNot() : parseLogical(true);
  std::string_view word = isAnd ? "and" : "or";
  if (!next->isName(word))
    return first;
  auto logical = std::make_unique<LogicalExpr>(first->range);
  logical->isAnd = isAnd;
  logical->operands.push_back(std::move(first));
  while (acceptName(word))
    logical->operands.push_back(isAnd ? parseNot() : parseLogical(true));
  logical->range = logical->range.through(logical->operands.back()->range);
  return logical;
}

ExprPtr Parser::parseNot() {
  if (!next->isName("not"))
    return parseComparison();
  DepthGuard guard(*this);
  auto unary = std::make_unique<UnaryExpr>(take().range);
  unary->op = UnaryOp::Not;
  unary->operand = parseNot();
  unary->range = unary->range.through(unary->operand->range);
  return unary;
}

ExprPtr Parser::parseComparison() {
  static const std::map<std::string_view, CompareOp> symbols = {
      {"==", CompareOp::EQ}, {"!=", CompareOp::NE}, {"<", CompareOp::LT},
      {"<=", CompareOp::LE}, {">", CompareOp::GT},  {">=", CompareOp::GE}};
  ExprPtr first = parseBinary(0);
  auto compare = std::make_unique<CompareExpr>(first->range);
  for (;;) {
    CompareOp op;
    if (auto found = symbols.find(next->text);
        next->kind == Token::Kind::Operator && found != symbols.end()) {
      ++next;
      op = found->second;
    } else if (acceptName("is")) {
      op = acceptName("not") ? CompareOp::IsNot : CompareOp::Is;
    } else if (acceptName("in")) {
      op = CompareOp::In;
    } else if (next->isName("not") && (next + 1)->isName("in")) {
      next += 2;
      op = CompareOp::NotIn;
    } else {
      break;
    }
    if (compare->operands.empty())
      compare->operands.push_back(std::move(first));
    compare->ops.push_back(op);
    compare->operands.push_back(parseBinary(0));
  }
  if (compare->ops.empty())
    return first;
  compare->range = compare->range.through(compare->operands.back()->range);
  return compare;
}

static const std::pair<int, BinaryOp> *binaryOperator(const Token &token) {
  static const std::map<std::string_view, std::pair<int, BinaryOp>> ops = {
      {"|", {0, BinaryOp::Or}},   {"^", {1, BinaryOp::Xor}},  {"&", {2, BinaryOp::And}},
      {"<<", {3, BinaryOp::Shl}}, {">>", {3, BinaryOp::Shr}}, {"+", {4, BinaryOp::Add}},
      {"-", {4, BinaryOp::Sub}},  {"*", {5, BinaryOp::Mul}},  {"/", {5, BinaryOp::Div}},
      {"//", {5, BinaryOp::FloorDiv}}, {"%", {5, BinaryOp::Mod}}, {"@", {5, BinaryOp::MatMul}}};
  auto found = token.kind == Token::Kind::Operator ? ops.find(token.text) : ops.end();
  return found == ops.end() ? nullptr : &found->second;
}

ExprPtr Parser::parseBinary(int minPrecedence) {
  ExprPtr lhs = parseUnary();
  while (auto *op = binaryOperator(*next)) {
    auto [precedence, kind] = *op;
    if (precedence < minPrecedence)
      break;
    ++next;
    auto binary = std::make_unique<BinaryExpr>(lhs->range);
    binary->op = kind;
    binary->lhs = std::move(lhs);
    binary->rhs = parseBinary(precedence + 1);
    binary->range = binary->range.through(binary->rhs->range);
    lhs = std::move(binary);
  }
  return lhs;
}

ExprPtr Parser::parseUnary() {
  static const std::map<std::string_view, UnaryOp> ops = {
      {"+", UnaryOp::Plus}, {"-", UnaryOp::Minus}, {"~", UnaryOp::Invert}};
  auto found = next->kind == Token::Kind::Operator ? ops.find(next->text) : ops.end();
  if (found == ops.end())
    return parsePower();
  DepthGuard guard(*this);
  auto unary = std::make_unique<UnaryExpr>(take().range);
  unary->op = found->second;
  unary->operand = parseUnary();
  unary->range = unary->range.through(unary->operand->range);
  return unary;
}

ExprPtr Parser::parsePower() {
  ExprPtr base = parsePostfix();
  if (!acceptOperator("**"))
    return base;
  auto binary = std::make_unique<BinaryExpr>(base->range);
  binary->op = BinaryOp::Pow;
  binary->lhs = std::move(base);
  binary->rhs = parseUnary();
  binary->range = binary->range.through(binary->rhs->range);
  return binary;
}

ExprPtr Parser::parsePostfix() {
  ExprPtr value = parseAtom();
  for (;;) {
    if (acceptOperator("(")) {
      value = parseCall(std::move(value));
    } else if (acceptOperator("[")) {
      value = parseSubscript(std::move(value));
    } else if (acceptOperator(".")) {
      auto attribute = std::make_unique<AttributeExpr>(value->range);
      attribute->value = std::move(value);
      attribute->name = expectIdentifier("an attribute's name after '.'");
      attribute->range = attribute->range.through((next - 1)->range);
      value = std::move(attribute);
    } else {
      return value;
    }
  }
}

ExprPtr Parser::parseCall(ExprPtr callee) {
  auto call = std::make_unique<CallExpr>(callee->range);
  call->callee = std::move(callee);
  while (!acceptOperator(")")) {
    if (acceptOperator("**")) {
      SourceRange range = (next - 1)->range;
      call->keywords.push_back({"", range, parseExpression()});
    } else if (next->kind == Token::Kind::Name && (next + 1)->isOperator("=")) {
      Keyword keyword{next->text, next->range, nullptr};
      next += 2;
      keyword.value = parseExpression();
      call->keywords.push_back(std::move(keyword));
    } else {
      ExprPtr argument = parseStarredOrExpression();
      if (next->isName("for"))
        refuse(next->range, "comprehensions are not part of the kernel language",
               "write a loop, or a tuple of constants");
      call->arguments.push_back(std::move(argument));
    }
    if (!next->isOperator(")"))
      expectOperator(",", "an argument");
  }
  call->range = call->range.through((next - 1)->range);
  return call;
}

ExprPtr Parser::parseSubscript(ExprPtr value) {
  auto subscript = std::make_unique<SubscriptExpr>(value->range);
  subscript->value = std::move(value);
  while (!acceptOperator("]")) {
    subscript->indices.push_back(parseSubscriptItem());
    if (!next->isOperator("]"))
      expectOperator(",", "an index");
  }
  subscript->range = subscript->range.through((next - 1)->range);
  return subscript;
}

ExprPtr Parser::parseSubscriptItem() {
  SourceRange start = next->range;
  ExprPtr lower = next->isOperator(":") ? nullptr : parseExpression();
  if (!next->isOperator(":"))
    return lower;
  auto slice = std::make_unique<SliceExpr>(start);
  slice->lower = std::move(lower);
  auto part = [&]() -> ExprPtr {
    return next->isOperator(":") || next->isOperator(",") || next->isOperator("]")
               ? nullptr
               : parseExpression();
  };
  ++next;
  slice->upper = part();
  if (acceptOperator(":"))
    slice->step = part();
  slice->range = start.through((next - 1)->range);
  return slice;
}

ExprPtr Parser::parseAtom() {
  const Token &token = *next;
  switch (token.kind) {
  case Token::Kind::Number:
    return parseNumber(take());
  case Token::Kind::String: {
    auto string = std::make_unique<StringExpr>(token.range);
    string->value = take().text;
    return string;
  }
  case Token::Kind::FString:
    return parseFString(take());
  case Token::Kind::Name: {
    if (token.text == "True" || token.text == "False") {
      auto boolean = std::make_unique<BoolExpr>(token.range);
      boolean->value = take().text == "True";
      return boolean;
    }
    if (token.text == "None")
      return std::make_unique<NoneExpr>(take().range);
    if (isKeyword(token.text))
      refuse(token.range, "expected an expression, not '" + token.text + "'");
    auto name = std::make_unique<NameExpr>(token.range);
    name->name = take().text;
    return name;
  }
  case Token::Kind::Operator:
    if (acceptOperator("("))
      return parseParenthesised();
    if (acceptOperator("["))
      return parseList();
    if (token.text == "...")
      return std::make_unique<EllipsisExpr>(take().range);
    if (token.text == "{")
      refuse(token.range, "dictionaries and sets are not part of the kernel language",
             "use a tuple, or pass the values as parameters");
    break;
  default:
    break;
  }
  refuse(token.range, token.text.empty() ? "expected an expression"
                                         : "expected an expression, not '" + token.text + "'");
}

ExprPtr Parser::parseNumber(const Token &token) {
  llvm::StringRef text = token.text;
  bool hex = text.starts_with_insensitive("0x");
  if (!hex && text.find_first_of(".eE") != llvm::StringRef::npos) {
    auto number = std::make_unique<FloatExpr>(token.range);
    char *end = nullptr;
    number->value = std::strtod(token.text.c_str(), &end);
    if (end != token.text.c_str() + token.text.size())
      refuse(token.range, "'" + token.text + "' is not a number");
    return number;
  }
  auto number = std::make_unique<IntExpr>(token.range);
  unsigned radix = 10;
  if (text.size() > 2 && text[0] == '0' && llvm::StringRef("xXoObB").contains(text[1])) {
    radix = hex ? 16 : (text[1] | 32) == 'o' ? 8 : 2;
    text = text.drop_front(2);
  }
  for (char c : text) {
    unsigned digit = llvm::hexDigitValue(c);
    if (digit >= radix)
      refuse(token.range, "'" + token.text + "' is not a number");
    if (number->value > (__int128(1) << 100))
      refuse(token.range, "this integer does not fit 64 bits");
    number->value = number->value * radix + digit;
  }
  return number;
}

ExprPtr Parser::parseParenthesised() {
  SourceRange start = (next - 1)->range;
  if (acceptOperator(")"))
    return std::make_unique<TupleExpr>(start.through((next - 1)->range));
  ExprPtr value = parseExpressionList();
  if (next->isName("for"))
    refuse(next->range, "comprehensions are not part of the kernel language",
           "write a loop, or a tuple of constants");
  expectOperator(")", "the expression");
  value->range = start.through((next - 1)->range);
  return value;
}

ExprPtr Parser::parseList() {
  auto list = std::make_unique<ListExpr>((next - 1)->range);
  while (!acceptOperator("]")) {
    list->elements.push_back(parseStarredOrExpression());
    if (next->isName("for"))
      refuse(next->range, "comprehensions are not part of the kernel language",
             "write the list out");
    if (!next->isOperator("]"))
      expectOperator(",", "an element");
  }
  list->range = list->range.through((next - 1)->range);
  return list;
}

// f-strings stand only in static_print and static_assert; format specifications are ignored.
ExprPtr Parser::parseFString(const Token &token) {
  auto string = std::make_unique<FStringExpr>(token.range);
  std::string piece;
  const std::string &raw = token.text;
  for (size_t i = 0; i < raw.size(); ++i) {
    if ((raw[i] == '{' || raw[i] == '}') && i + 1 < raw.size() && raw[i + 1] == raw[i]) {
      piece += raw[i++];
      continue;
    }
    if (raw[i] != '{') {
      piece += raw[i];
      continue;
    }
    size_t end = raw.find('}', i);
    if (end == std::string::npos)
      refuse(token.range, "'{' without '}' in an f-string");
    SourceText inner{token.range.source->file, token.range.line,
                     raw.substr(i + 1, std::min(raw.find_first_of("!:=", i), end) - i - 1)};
    std::vector<Token> tokens = tokenize(inner);
    for (Token &part : tokens) // errors point at the whole f-string
      part.range = token.range;
    Parser parser(tokens);
    parser.depth = depth;
    string->values.push_back(parser.parseExpressionList());
    string->pieces.push_back(std::move(piece));
    piece.clear();
    i = end;
  }
  string->pieces.push_back(std::move(piece));
  return string;
}

} // namespace tilery::frontend
