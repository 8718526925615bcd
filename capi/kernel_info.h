// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// The description of a compiled kernel as JSON, for the disk cache.
#pragma once

#include "compiler/Target/Target.h"

#include "llvm/Support/JSON.h"

namespace tilery::capi {

llvm::json::Object describeKernelInfo(const KernelInfo &info);
/// What is missing or of the wrong type keeps its default: the cache checks a hash of all of it.
KernelInfo parseKernelInfo(const llvm::json::Object &object);

} // namespace tilery::capi
