// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Works around wrong code of LLVM 22 for masked stores of one lane.
#pragma once

#include "llvm/IR/Module.h"

namespace tilery::cpu {

/// Makes each llvm.masked.store whose constant mask has exactly one lane a scalar store.
/// With AVX-512, LLVM 22 turns such a store of a truncated vector into a scalar store of the
/// wide element: `trunc <16 x i16> to <16 x i8>` stored under <1, 0, ...> writes two bytes.
void scalariseOneLaneStores(llvm::Module &module);

} // namespace tilery::cpu
