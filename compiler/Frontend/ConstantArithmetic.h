// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Python's operators on constants.
#pragma once

#include "compiler/Frontend/Value.h"

namespace tilery::frontend {

class Generator;

/// Each gives nullopt when an operand is not a constant, so that the operator is a tile's.
std::optional<Value> foldBinary(Generator &gen, BinaryOp op, const Value &a, const Value &b);
std::optional<Value> foldCompare(Generator &gen, CompareOp op, const Value &a, const Value &b);
std::optional<Value> foldUnary(Generator &gen, UnaryOp op, const Value &a);

} // namespace tilery::frontend
