// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Compiled kernels on devices: assembling, the cache of machine code, loading.
#pragma once

#include "compiler/Target/Target.h"
#include "runtime/hal/driver.h"
#include "runtime/launch/kernel_image.h"

#include <string>

namespace tilery::capi {

/// Sets image.device. `key` is the key of `code` in the disk cache.
void loadOnDevice(rt::KernelImage &image, rt::hal::DeviceRef where, const CompiledCode &code,
                  const std::string &key);

} // namespace tilery::capi
