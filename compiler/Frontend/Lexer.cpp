// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// The lexer follows the Python reference, "Lexical analysis", for the subset we accept.
#include "compiler/Frontend/Lexer.h"

#include <array>
#include <cctype>

namespace tilery::frontend {
namespace {

class Lexer {
public:
  explicit Lexer(const SourceText &source) : source(source), text(source.text) {}

  std::vector<Token> run() {
    line = source.firstLine;
    while (position < text.size())
      lexLine();
    if (!tokens.empty() && tokens.back().kind != Token::Kind::Newline)
      add(Token::Kind::Newline, "", here());
    while (indents.size() > 1) {
      indents.pop_back();
      add(Token::Kind::Dedent, "", here());
    }
    add(Token::Kind::End, "", here());
    return std::move(tokens);
  }

private:
  const SourceText &source;
  const std::string &text;
  size_t position = 0, lineStart = 0;
  int line = 1;
  int nesting = 0;
  SourceRange opened;
  std::vector<int> indents;
  std::vector<Token> tokens;

  int column() const { return int(position - lineStart) + 1; }
  char peek(size_t ahead = 0) const {
    return position + ahead < text.size() ? text[position + ahead] : '\0';
  }
  SourceRange here() const { return {&source, line, column(), line, column() + 1}; }
  SourceRange since(const SourceRange &start) const {
    return {&source, start.line, start.column, line, column()};
  }
  void add(Token::Kind kind, std::string spelled, SourceRange range) {
    tokens.push_back({kind, std::move(spelled), range});
  }
  void nextLine() {
    ++position;
    ++line;
    lineStart = position;
  }

  void skipComment() {
    while (position < text.size() && peek() != '\n')
      ++position;
  }

  // One logical line: indentation, then tokens to the line break outside brackets.
  void lexLine() {
    int indent = measureIndent();
    if (peek() == '#')
      skipComment();
    if (position >= text.size())
      return;
    if (peek() == '\n') // blank lines carry no indentation
      return nextLine();
    applyIndent(indent);
    while (position < text.size()) {
      if (peek() == '\n' && nesting == 0) {
        add(Token::Kind::Newline, "", here());
        return nextLine();
      }
      lexToken();
    }
    if (nesting > 0)
      throw CompileError(opened, "this bracket is never closed");
  }

  int measureIndent() {
    int indent = 0;
    for (;; ++position) {
      if (peek() == ' ')
        ++indent;
      else if (peek() == '\t')
        indent = (indent / 8 + 1) * 8;
      else if (peek() == '\r' || peek() == '\f')
        continue;
      else
        return indent;
    }
  }

  void applyIndent(int indent) {
    if (indents.empty()) // the first line sets the base
      indents.push_back(indent);
    if (indent > indents.back()) {
      indents.push_back(indent);
      return add(Token::Kind::Indent, "", here());
    }
    while (indents.size() > 1 && indent < indents.back()) {
      indents.pop_back();
      add(Token::Kind::Dedent, "", here());
    }
    if (indent != indents.back())
      throw CompileError(here(), "this line's indentation matches no enclosing block");
  }

  void lexToken() {
    char c = peek();
    if (c == '\n')
      return nextLine();
    if (c == ' ' || c == '\t' || c == '\r' || c == '\f') {
      ++position;
      return;
    }
    if (c == '#')
      return skipComment();
    if (c == '\\' && (peek(1) == '\n' || (peek(1) == '\r' && peek(2) == '\n'))) {
      position += peek(1) == '\r' ? 2 : 1;
      return nextLine();
    }
    if (std::isdigit(static_cast<unsigned char>(c)) ||
        (c == '.' && std::isdigit(static_cast<unsigned char>(peek(1)))))
      return lexNumber();
    if (size_t prefix = stringPrefix(); prefix != std::string::npos)
      return lexString(prefix);
    if (isNameStart(c))
      return lexName();
    lexOperator();
  }

  // Bytes above 127 are parts of UTF-8 letters.
  static bool isNameStart(char c) {
    return std::isalpha(static_cast<unsigned char>(c)) || c == '_' || (c & 0x80);
  }
  static bool isNamePart(char c) {
    return isNameStart(c) || std::isdigit(static_cast<unsigned char>(c));
  }

  void lexName() {
    SourceRange start = here();
    size_t begin = position;
    while (isNamePart(peek()))
      ++position;
    add(Token::Kind::Name, text.substr(begin, position - begin), since(start));
  }

  void lexNumber() {
    SourceRange start = here();
    size_t begin = position;
    bool hex = peek() == '0' && (peek(1) == 'x' || peek(1) == 'X');
    while (isNamePart(peek()) || peek() == '.' || isExponentSign(hex)) {
      if (peek() & 0x80)
        break;
      ++position;
    }
    std::string spelled;
    for (char c : text.substr(begin, position - begin))
      if (c != '_')
        spelled += c;
    add(Token::Kind::Number, spelled, since(start));
  }
  bool isExponentSign(bool hex) const {
    char before = text[position - 1];
    return !hex && (peek() == '+' || peek() == '-') && (before == 'e' || before == 'E');
  }

  // Length of a string prefix (r, b, f, u and pairs) when a quote follows; else npos.
  size_t stringPrefix() const {
    size_t length = 0;
    while (length < 2 && std::string_view("rRbBfFuU").find(peek(length)) != std::string_view::npos &&
           peek(length))
      ++length;
    return peek(length) == '"' || peek(length) == '\'' ? length : std::string::npos;
  }

  void lexString(size_t prefixLength) {
    SourceRange start = here();
    bool raw = false, formatted = false;
    for (size_t i = 0; i < prefixLength; ++i) {
      char c = char(std::tolower(static_cast<unsigned char>(peek(i))));
      raw |= c == 'r';
      formatted |= c == 'f';
    }
    position += prefixLength;
    char quote = peek();
    bool triple = peek(1) == quote && peek(2) == quote;
    position += triple ? 3 : 1;
    std::string value;
    while (!atQuote(quote, triple)) {
      if (position >= text.size() || (peek() == '\n' && !triple))
        throw CompileError(start, "this string is never closed");
      appendCharacter(value, raw || formatted);
    }
    position += triple ? 3 : 1;
    // Adjacent literals are one string.
    if (!formatted && !tokens.empty() && tokens.back().kind == Token::Kind::String) {
      tokens.back().text += value;
      tokens.back().range = tokens.back().range.through(since(start));
      return;
    }
    add(formatted ? Token::Kind::FString : Token::Kind::String, value, since(start));
  }
  bool atQuote(char quote, bool triple) const {
    return peek() == quote && (!triple || (peek(1) == quote && peek(2) == quote));
  }

  void appendCharacter(std::string &value, bool raw) {
    char c = peek();
    if (c == '\n') {
      value += c;
      return nextLine();
    }
    ++position;
    if (c != '\\' || position >= text.size()) {
      value += c;
      return;
    }
    char escaped = peek();
    if (raw)
      value += c;
    if (escaped == '\n') {
      if (raw)
        value += escaped;
      return nextLine();
    }
    ++position;
    value += raw ? escaped : resolveEscape(escaped);
  }
  static char resolveEscape(char c) {
    switch (c) {
    case 'n': return '\n';
    case 't': return '\t';
    case 'r': return '\r';
    case '0': return '\0';
    default: return c;
    }
  }

  void lexOperator() {
    static constexpr std::array<std::string_view, 26> multi = {
        "**=", "//=", "<<=", ">>=", "...", "**", "//", "<<", ">>", "<=", ">=", "==", "!=",
        "->",  "+=",  "-=",  "*=",  "/=",  "%=", "&=", "|=", "^=", "@=", ":=", "<>", "!!"};
    SourceRange start = here();
    std::string_view rest = std::string_view(text).substr(position);
    for (std::string_view candidate : multi)
      if (rest.starts_with(candidate)) {
        position += candidate.size();
        return add(Token::Kind::Operator, std::string(candidate), since(start));
      }
    char c = peek();
    if (std::string_view("+-*/%&|^~<>=()[]{},:.;@").find(c) == std::string_view::npos)
      throw CompileError(start, std::string("the character '") + c + "' has no meaning here");
    ++position;
    if (c == '(' || c == '[' || c == '{') {
      if (nesting++ == 0)
        opened = start;
    } else if ((c == ')' || c == ']' || c == '}') && nesting > 0) {
      --nesting;
    }
    add(Token::Kind::Operator, std::string(1, c), since(start));
  }
};

} // namespace

std::vector<Token> tokenize(const SourceText &source) { return Lexer(source).run(); }

} // namespace tilery::frontend
