// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Compiled kernels on devices.
#pragma once

#include "compiler/Target/Target.h"
#include "runtime/hal/driver.h"
#include "runtime/launch/kernel_image.h"

namespace tilery::capi {

/// Sets image.device.
void loadOnDevice(rt::KernelImage &image, rt::hal::DeviceRef where, const CompiledCode &code);

} // namespace tilery::capi
