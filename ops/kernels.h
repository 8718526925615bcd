// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// The operators' kernels, whose text is part of the library.
#pragma once

#include "tilery/tilery.hpp"

#include <string>
#include <string_view>

namespace tilery::ops {

struct KernelFile {
  std::string_view path; // "ops/matmul/matmul.py", as errors name it
  std::string_view text;
};

/// All files, made by embed.cmake.
extern const KernelFile kernelFiles[];
extern const int kernelFileCount;

/// Function `name` of ops/<op>/<op>.py; made once, lives as long as the process.
Kernel &kernel(const std::string &op, const std::string &name);

} // namespace tilery::ops
