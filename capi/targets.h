// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// The targets that this process compiles for.
#pragma once

#include "capi/options.h"
#include "compiler/Target/Registry.h"

namespace tilery::capi {

/// The target `name` with the options of a launch (null: the defaults); made once, lives as long
/// as the process. `assemblyVersion` as in TargetOptions. A ConfigError lists the targets when
/// there is none of that name; a TargetError says what this machine lacks.
const Target &targetNamed(const std::string &name, const tilery_options *options,
                          int32_t assemblyVersion = 0);

} // namespace tilery::capi
