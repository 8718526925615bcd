// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Runs one body on every rank of a world of each kind: in this process (unseeded, seeded,
// delayed), or with one process a rank.
#pragma once

#include "runtime/launch/launch.h"
#include "runtime/world/group.h"

#include <functional>
#include <string>
#include <vector>

namespace tilery::test {

using rt::Error;
using rt::KernelImage;
using rt::World;
using rt::WorldOptions;

/// Options with a small heap and a 20 s timeout.
WorldOptions smallWorld(int ranks);

/// How each rank ended: TILERY_OK and "", or the error it raised.
std::vector<Error> runGroup(const WorldOptions &options,
                            const std::function<void(World &)> &body,
                            uint64_t *scheduleHash = nullptr);

/// All ranks must end well; the first error is the test's failure.
void expectGroup(const WorldOptions &options, const std::function<void(World &)> &body);

KernelImage makeKernel(const char *name, tilery_kernel_entry entry);

void launch(World &world, const KernelImage &image, int64_t grid,
            const std::vector<uint64_t> &arguments);

template <typename T> uint64_t bits(T *pointer) { return reinterpret_cast<uint64_t>(pointer); }

/// Raises an InternalError, on any thread, when the condition is false.
void require(bool condition, const std::string &what);

/// A body that a process world can run by name (see processes.cpp).
struct Scenario {
  const char *name;
  void (*body)(World &);
};
const std::vector<Scenario> &scenarios();

} // namespace tilery::test
