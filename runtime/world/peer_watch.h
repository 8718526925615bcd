// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Notices within milliseconds when another rank's process ends: nothing else does, since stores
// to a dead rank's memory keep succeeding.
#pragma once

#include "runtime/world/domain.h"
#include "runtime/world/rendezvous.h"

#include <thread>

namespace tilery::rt {

class PeerWatch {
public:
  PeerWatch(Domain &domain, int self, Rendezvous peers);
  ~PeerWatch();

private:
  void run();
  void noticeEnd(int rank);

  Domain &domain;
  const int self;
  Rendezvous peers;
  Descriptor stop;
  std::thread thread;
};

} // namespace tilery::rt
