// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// LLVM IR of a lowered module, its optimisation, and PTX.
#pragma once

#include "compiler/Target/Nvidia/NvidiaTarget.h"

namespace tilery::nvidia {

llvm::Expected<CompiledCode> emitPtx(mlir::ModuleOp module, const NvidiaOptions &options,
                                     const EmitOptions &emit);

} // namespace tilery::nvidia
