// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Pieces of the matrix product: operands in the layout the kernel reads, and the kernel.
#pragma once

#include "compiler/Conversion/CoreToVector/Elementwise.h"

namespace tilery::vec {

/// How a product is computed.
struct DotPlan {
  int64_t batch, m, n, k;
  Type operand;     ///< element of the packed operands
  Type accumulator; ///< in which products are summed: f32, f64 or an integer
  bool bf16Pairs;   ///< operands are bf16, two neighbours in k to a 32-bit lane
  int64_t lanes;    ///< of accumulator vectors; 0 for scalars
  int64_t rows, vectors; ///< register block: rows x (vectors * lanes)
};

/// The lhs with any strides [batch, m, k].
FailureOr<Buffer> packLhs(Lowering &lowering, core::DotOp op, const DotPlan &plan);
/// The rhs [batch, k, n] with neighbours in n side by side; for bf16 pairs [batch, k/2, n]
/// of i32.
FailureOr<Buffer> packRhs(Lowering &lowering, core::DotOp op, const DotPlan &plan);

/// c += a * b, or c = a * b when `overwrite`.
void emitDotKernel(Lowering &lowering, const DotPlan &plan, const Buffer &a, const Buffer &b,
                   const Buffer &c, bool overwrite);

/// Copies `from` [.., rows, columns], whose rows dimension has stride 1, to the row-major
/// `to` in square blocks that are transposed in registers.
void transposeBlocks(Lowering &lowering, const Buffer &from, const Buffer &to, int64_t lanes);

} // namespace tilery::vec
