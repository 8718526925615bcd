// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// How far the ranks of a world or team have come with their launches, where a call of the driver
// for one rank may wait for another's grid (launch/launch_turn.h).
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

namespace tilery::rt {

struct LaunchGate {
  struct Rank {
    /// Launches of kernels that communicate: those that the rank has come to, and those that the
    /// driver has.
    std::atomic<uint64_t> announced = 0, made = 0;
    /// How long this rank waits for others that do nothing.
    std::atomic<int64_t> patienceNs = 100'000'000;
  };
  explicit LaunchGate(size_t count) : ranks(count) {}
  std::vector<Rank> ranks;
};

} // namespace tilery::rt
