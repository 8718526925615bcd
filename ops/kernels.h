// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// The operators' kernels, whose text is part of the library.
#pragma once

#include "tilery/tilery.hpp"

#include <string>
#include <string_view>

namespace tilery::ops {

/// All files, made by embed.cmake; paths as errors name them, "ops/matmul/matmul.py".
extern const SourceFile kernelFiles[];
extern const int kernelFileCount;

/// Function `name` of ops/<op>/<op>.py; made once, lives as long as the process.
Kernel &kernel(const std::string &op, const std::string &name);
/// Function `name` of ops/parts.py.
Kernel &sharedKernel(const std::string &name);
/// Function `name` of ops/peers.py.
Kernel &peersKernel(const std::string &name);

} // namespace tilery::ops
