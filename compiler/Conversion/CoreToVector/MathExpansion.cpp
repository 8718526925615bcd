// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Vector code for transcendental functions of fp32.
#include "compiler/Conversion/CoreToVector/Elementwise.h"

namespace tilery::vec {

Value emitMath(OpBuilder &b, Operation *op, ArrayRef<Value> operands) { return {}; }

} // namespace tilery::vec
