// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// The order of launches and of loading code in a process whose ranks share devices.
//
// Loading code "might require context synchronization" (CUDA Programming Guide, "Lazy Loading"): it
// waits for grids that run, and so may other calls of the driver. A grid that waits for a rank
// which is in such a call waits in vain. So a rank launches a kernel that waits only when all ranks
// have come to a launch of theirs: whatever they had to prepare for it is done. The ranks' kernels
// need not be the same, nor new to all of them: pointers of different alignment are enough for
// kernels of their own.
#pragma once

#include "runtime/world/launch_gate.h"

namespace tilery::rt {

class World;

/// While a rank compiles and loads a kernel. Others have made the launches that theirs must meet.
class Preparation {
public:
  explicit Preparation(World *world);
  ~Preparation();
  Preparation(const Preparation &) = delete;

private:
  std::atomic<int> *count = nullptr;
};

/// While a rank makes a launch of a kernel that communicates. Where it `waits`, the launch is held
/// until the other ranks have come to as many launches, or have left, or nobody has compiled or
/// loaded anything for a while: programs may launch on some ranks only. Those wait shorter and
/// shorter, but for the `fresh` launch of a kernel.
class LaunchTurn {
public:
  LaunchTurn(World &world, bool waits, bool fresh);
  ~LaunchTurn();
  LaunchTurn(const LaunchTurn &) = delete;

private:
  LaunchGate::Rank &own;
};

} // namespace tilery::rt
