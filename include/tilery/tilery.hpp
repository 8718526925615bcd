// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Tilery for C++20: worlds, symmetric memory and kernels over the C interface, header only.
//
//   tilery::spawn(4, [](tilery::World &world) {
//     auto x = world.zeros<float>(1024, "x");
//     auto kernel = tilery::Kernel::load("double.py", "double_it");
//     kernel.launch(world, {4}, x, 1024, 256);
//   });
//
// Every failure is a tilery::Error with its kind. Link libtilery.so; no Python is involved.
#pragma once

#include "tilery/error.hpp"
#include "tilery/kernel.hpp"
#include "tilery/spawn.hpp"
#include "tilery/world.hpp"
