// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// How the tiles of a matrix product are spread over warps and matrix instructions.
#pragma once

#include "compiler/Target/Simt/Machine.h"

namespace tilery::simt {

/// The instruction that a product uses; none when it is computed by multiply-adds.
std::optional<MatrixInstruction> instructionFor(core::DotOp dot, const Machine &machine);

/// The accumulator's layout.
LinearLayout dotLayout(core::DotOp dot, const Machine &machine, unsigned warpBits);

struct DotOperandLayouts {
  LinearLayout lhs, rhs;
};
/// Operands as the instruction takes them when the accumulator has layout `acc`; without an
/// instruction, as they are best written to shared memory.
DotOperandLayouts dotOperandLayouts(core::DotOp dot, const Machine &machine,
                                    const LinearLayout &acc);

} // namespace tilery::simt
