// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// The targets that this process compiles for.
#pragma once

#include "capi/options.h"
#include "compiler/Frontend/Checks.h"
#include "compiler/Target/Registry.h"
#include "runtime/hal/driver.h"

namespace tilery::capi {

/// The target `name` with the options of a launch (null: the defaults); made once, lives as long
/// as the process. `timeline` and `assemblyVersion` as in TargetOptions. A ConfigError lists the targets when
/// there is none of that name; a TargetError says what this machine lacks.
const Target &targetNamed(const std::string &name, const tilery_options *options,
                          bool timeline = false, int32_t assemblyVersion = 0);

/// What a kernel is compiled for, and where it is loaded.
struct Machine {
  const Target &target;
  /// No driver: the code is only looked at, unless the target is the host's.
  rt::hal::DeviceRef device;
  bool isHost = false;
  frontend::Checks checks = {};
  /// The kernel writes events, and so needs a place for them.
  bool timeline = false;
};

/// The device of that number (runtime/hal/driver.h), or the target that the options name. `timeline`:
/// kernels write what happens in them; those of the host do so without being told.
Machine machineFor(int32_t deviceNumber, const tilery_options *options, bool timeline);

} // namespace tilery::capi
