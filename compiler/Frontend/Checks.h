// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// What a kernel checks while it runs.
#pragma once

namespace tilery::frontend {

struct Checks {
  /// assert and tl.device_assert of run-time values.
  bool assertions = true;
  /// +, - and * of integers below 64 bits, and tl.assume, as Triton's debug mode does.
  bool debug = false;
  /// Every access of memory, against the extents of the arguments.
  bool bounds = false;
};

} // namespace tilery::frontend
