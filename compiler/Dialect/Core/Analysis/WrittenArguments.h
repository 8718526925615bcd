// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Which memory arguments a kernel may write.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/BitVector.h"

namespace tilery::core {

/// One bit an argument of `kernel`, before lowering. A store counts for every argument that its
/// pointers may come from, so that a clear bit is a promise; pointers made from integers are
/// the user's business and count for none.
llvm::BitVector writtenArguments(mlir::func::FuncOp kernel);

} // namespace tilery::core
