// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Passes over the core dialect.
#pragma once

#include "mlir/Pass/Pass.h"

#include <memory>

namespace tilery::core {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "compiler/Dialect/Core/Transforms/Passes.h.inc"

} // namespace tilery::core
