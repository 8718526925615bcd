// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Pieces of elementwise code that several files emit.
#pragma once

#include "compiler/Conversion/CoreToVector/Lowering.h"

namespace tilery::vec {

/// A constant of a scalar or vector type.
Value constantLike(OpBuilder &b, Location loc, Type type, double value);
bool isHalf(Type type); ///< fp16, bf16 or narrower, or a vector of them
Value toF32(OpBuilder &b, Location loc, Value value);
/// fp32 rounded to nearest even to `element`.
Value fromF32(OpBuilder &b, Location loc, Value value, Type element);

} // namespace tilery::vec
