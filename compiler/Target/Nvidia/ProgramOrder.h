// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// What the copying warps, which run ahead of the others, must not overtake.
#pragma once

#include "compiler/Dialect/Core/IR/Core.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tilery::nvidia {

/// Whether some execution of `first` may come before one of `second` in a program instance: it stands
/// before it, or a loop holds both.
bool mayPrecede(mlir::Operation *first, mlir::Operation *second);

/// The kernel's argument that a pointer is advanced from, also when it points to a peer's memory;
/// of an address that was loaded, the argument through which. Null when it is not one.
mlir::Value argumentBehind(mlir::Value pointer);

/// Whether memory behind `argument` may be written before `reader` runs, by the kernel itself.
bool isWrittenBefore(mlir::func::FuncOp kernel, mlir::Value argument, mlir::Operation *reader);

} // namespace tilery::nvidia
