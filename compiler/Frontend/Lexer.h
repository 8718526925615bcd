// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Python's tokens with indentation, from source text.
#pragma once

#include "compiler/Support/Diagnostic.h"

#include <string>
#include <vector>

namespace tilery::frontend {

struct Token {
  enum class Kind { Name, Number, String, FString, Operator, Newline, Indent, Dedent, End };
  Kind kind = Kind::End;
  /// Names, numbers, operators: as written. Strings: the value, escapes resolved (f-strings:
  /// the raw text between the quotes).
  std::string text;
  SourceRange range;

  bool is(Kind wanted, std::string_view spelled) const { return kind == wanted && text == spelled; }
  bool isOperator(std::string_view spelled) const { return is(Kind::Operator, spelled); }
  bool isName(std::string_view spelled) const { return is(Kind::Name, spelled); }
};

/// Tokens of `source`, ending with End. Indentation common to all lines is ignored, so that a
/// method or nested function can be lexed on its own. Throws CompileError.
std::vector<Token> tokenize(const SourceText &source);

} // namespace tilery::frontend
