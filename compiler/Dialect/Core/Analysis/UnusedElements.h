// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Which elements of a tile nobody sees: rows and columns beyond the end of an array, which kernels
// load and multiply because tiles are whole, and leave out when they store.
#pragma once

#include "mlir/IR/Value.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace tilery::core {

/// Says of a store's mask whether it leaves the elements in question out, along dimension `dim` of the
/// stored tile.
using LeavesOut = llvm::function_ref<bool(mlir::Value mask, int dim)>;

/// Whether the elements of `tile` that are in question along `dim` reach nothing but stores that leave
/// them out. Follows the tile through elementwise operations, transpositions, products, loops and
/// branches; any other use counts as seen.
bool areUnused(mlir::Value tile, int dim, LeavesOut leavesOut);

} // namespace tilery::core
