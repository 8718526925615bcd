// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Naps on the doorbell.
#include "runtime/world/idle_wait.h"

#include "runtime/base/futex.h"
#include "runtime/base/knobs.h"

#include <thread>

namespace tilery::rt {

// Spinning with more ranks than cores keeps the rank that would notify off the core
// (measured: 6.9 ms a hop with 8 ranks on 2 cores).
static int64_t spinTime(const Domain &domain) {
  static const int cores = int(std::max(1u, std::thread::hardware_concurrency()));
  return domain.size() > cores ? 0 : knobs().spinMicroseconds * 1000;
}

IdleWait::IdleWait(Domain &domain, int rank, int64_t longestNapNs)
    : cell(domain.control.rank(rank)), longestNapNs(longestNapNs), spinNs(spinTime(domain)) {}

void IdleWait::sleep(uint32_t ticket) {
  futexWait(cell.doorbell, ticket, napNs);
  napNs = std::min(napNs * 2, longestNapNs);
}

} // namespace tilery::rt
