// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// What the parser's two source files share.
#pragma once

#include "compiler/Frontend/Parser.h"

namespace tilery::frontend {

bool isKeyword(std::string_view name);

/// Counts nesting, so that hostile input is an error and not a stack overflow.
struct Parser::DepthGuard {
  explicit DepthGuard(Parser &parser) : parser(parser) {
    if (++parser.depth > 200)
      parser.refuse(parser.next->range, "this is nested more than 200 levels deep");
  }
  ~DepthGuard() { --parser.depth; }
  Parser &parser;
};

} // namespace tilery::frontend
