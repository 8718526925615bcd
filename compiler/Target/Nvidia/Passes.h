// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Passes of NVIDIA GPUs.
#pragma once

#include "compiler/Target/Simt/IR/Simt.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Pass/Pass.h"

namespace tilery::nvidia {

#define GEN_PASS_DECL
#include "compiler/Target/Nvidia/Passes.h.inc"

/// Makes these passes and those of Simt (for an sm_90a) known to tilery-opt, and the pipelines
/// `tilery-nvidia-tiles` and `tilery-nvidia-threads` for any GPU.
void registerPasses();

} // namespace tilery::nvidia
