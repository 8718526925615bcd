// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// From the arguments of a launch to the specialisation that runs them.
#pragma once

#include "capi/function.h"
#include "runtime/world/world.h"

#include <array>
#include <span>

namespace tilery::capi {

struct Specialised {
  tilery_kernel &kernel;
  int32_t device; // number of the arguments' device
};

/// The compiled kernel for these arguments; compiles when there is none. Raises a LaunchError
/// that names the parameter for an argument that does not fit it, and both for two that are on
/// different devices.
Specialised specialise(tilery_function &function, const rt::World *world,
                       const tilery_options *options, std::span<const tilery_arg> args);

/// From the command line's form, "*fp32, symm *bf16, signal, i32:16, 64".
tilery_kernel &specialiseSignature(tilery_function &function, const tilery_options *options,
                                   const char *signature);

/// One 8-byte slot for each run-time parameter and extent (kernel_abi.h) and table of peers (gpu_abi.h).
class ArgumentSlots {
public:
  ArgumentSlots(const tilery_kernel &kernel, rt::World *world, std::span<const tilery_arg> args);
  const uint64_t *data() const { return many.empty() ? few.data() : many.data(); }

private:
  std::array<uint64_t, 32> few;
  std::vector<uint64_t> many;
};

} // namespace tilery::capi
