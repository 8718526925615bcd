// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Where pointers come from: follows them back through everything that moves or advances them.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tilery::core {

/// The values that `pointer` may have been advanced from: arguments of the kernel and results of
/// operations that make pointers (core.int_to_ptr, device.symm_at, ...). Looks through loops,
/// branches and everything that moves elements of tiles.
llvm::SmallVector<mlir::Value> pointerOrigins(mlir::Value pointer);

} // namespace tilery::core
