// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Compiled kernels on devices.
#pragma once

#include "capi/targets.h"
#include "runtime/launch/kernel_image.h"

namespace tilery::capi {

/// Sets image.device.
void loadOnDevice(rt::KernelImage &image, const Machine &machine, const CompiledCode &code);

} // namespace tilery::capi
