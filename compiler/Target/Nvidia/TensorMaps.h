// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Recipes of tensor maps as attributes of a kernel, for the launcher to follow (Target.h).
#pragma once

#include "compiler/Target/Nvidia/AffineAccess.h"
#include "compiler/Target/Simt/IR/Simt.h"
#include "compiler/Target/Target.h"

namespace tilery::nvidia {

/// The recipe for copies of `buffer` by `access`; null when an extent is not known on the host.
mlir::Attribute tensorMapAttr(const AffineAccess &access, simt::BufferType buffer);

TensorMapRecipe recipeOf(mlir::Attribute attr);

} // namespace tilery::nvidia
