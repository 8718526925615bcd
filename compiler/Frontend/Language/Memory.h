// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// What loads, stores and atomics share.
#pragma once

#include "compiler/Frontend/Generator.h"

namespace tilery::frontend {

/// The value as a pointer that this program instance can access: symmetric pointers become
/// this rank's. `what` ("tl.load") begins the error for anything else.
Tile accessible(Generator &gen, const Value &value, const std::string &what);

} // namespace tilery::frontend
