// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Passes over core and device operations.
#pragma once

#include "mlir/Pass/Pass.h"

#include <memory>

namespace tilery::device {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "compiler/Dialect/Device/Transforms/Passes.h.inc"

} // namespace tilery::device
