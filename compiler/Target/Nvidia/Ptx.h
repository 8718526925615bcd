// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Instructions that LLVM has no intrinsic for, as text.
#pragma once

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

namespace tilery::nvidia {

/// One piece of PTX; `constraints` as LLVM's inline assembly, results first ("=r,l,f"). It stays
/// where it stands. `clobbersMemory`: loads and stores must not move across it.
llvm::SmallVector<mlir::Value> emitPtx(mlir::OpBuilder &b, mlir::Location loc, llvm::StringRef text,
                                       llvm::StringRef constraints, mlir::TypeRange results,
                                       mlir::ValueRange operands, bool clobbersMemory = false);

} // namespace tilery::nvidia
