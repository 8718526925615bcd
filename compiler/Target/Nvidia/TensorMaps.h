// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Recipes of tensor maps as attributes of a kernel, for the launcher to follow (Target.h).
#pragma once

#include "compiler/Target/Nvidia/AffineAccess.h"
#include "compiler/Target/Simt/IR/Simt.h"
#include "compiler/Target/Target.h"

namespace tilery::nvidia {

/// That a launch has (runtime/launch/device_kernel.h).
constexpr size_t MostTensorMaps = 16;

/// The recipe for copies of `buffer` by `access`, or only for prefetches (TensorMapRecipe::isHint);
/// null when an extent is not known on the host.
mlir::Attribute tensorMapAttr(const AffineAccess &access, simt::BufferType buffer,
                              bool isHint = false);

TensorMapRecipe recipeOf(mlir::Attribute attr);

} // namespace tilery::nvidia
