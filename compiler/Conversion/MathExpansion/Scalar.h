// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Pieces of expandScalarMath: on fp64 scalars.
#pragma once

#include "compiler/Conversion/MathExpansion/Arithmetic.h"

namespace tilery {

/// `single`: x and y have values of fp32.
mlir::Value expandRemainder(Arithmetic &f, mlir::Value x, mlir::Value y, bool single);

/// sin or cos; `single`: only the accuracy of fp32 is wanted.
mlir::Value expandTrigonometry(Arithmetic &f, mlir::Value x, bool isCos, bool single);

} // namespace tilery
