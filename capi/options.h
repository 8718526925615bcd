// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Options of a launch that change the code.
#pragma once

#include "tilery/tilery.h"

#include <cstdint>
#include <string>

struct tilery_options {
  int64_t numWarps = 4, numStages = 3, numCtas = 1, maxRegisters = 0;
  bool fpFusion = true, debug = false;
  /// Of run-time values; off where the caller said debug=False.
  bool assertions = true;
  /// Every access of memory, as TILERY_CHECK does for all launches.
  bool checkBounds = false;
  std::string target; // "": the arguments' device
};
