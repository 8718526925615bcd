// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Machine code of a module in the LLVM dialect.
#pragma once

#include "compiler/Target/Cpu/CpuTarget.h"

namespace tilery::cpu {

llvm::Expected<CompiledCode> emitObject(mlir::ModuleOp module, const CpuOptions &options,
                                        const EmitOptions &emit);

} // namespace tilery::cpu
