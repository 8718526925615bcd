// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Notices within milliseconds when another rank's process ends: nothing else does, since stores
// to a dead rank's memory keep succeeding. And ends the waits of this process's grids when the world
// fails elsewhere, whatever its own thread does meanwhile.
#pragma once

#include "runtime/world/domain.h"
#include "runtime/world/rendezvous.h"

#include <atomic>
#include <thread>

namespace tilery::rt {

class PeerWatch {
public:
  PeerWatch(Domain &domain, int self, Rendezvous peers);
  ~PeerWatch();

private:
  void run();
  void noticeEnd(int rank);
  void relayFailure();

  Domain &domain;
  const int self;
  Rendezvous peers;
  Descriptor stop;
  std::atomic<bool> stopping = false;
  std::thread thread, relay;
};

} // namespace tilery::rt
