// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// One thread a process, asleep in poll on the peers' pidfds, and on a device a second one, asleep on
// the first word of the failure record.
#include "runtime/world/peer_watch.h"

#include "runtime/base/futex.h"
#include "runtime/launch/device_failures.h"

#include <csignal>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace tilery::rt {

PeerWatch::PeerWatch(Domain &domain, int self, Rendezvous found)
    : domain(domain), self(self), peers(std::move(found)), stop(eventfd(0, EFD_CLOEXEC)) {
  // Signals are the user's threads' business.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread = std::thread([this] { run(); });
  if (domain.onDevice())
    relay = std::thread([this] { relayFailure(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

PeerWatch::~PeerWatch() {
  uint64_t one = 1;
  [[maybe_unused]] ssize_t written = write(stop.get(), &one, sizeof(one));
  thread.join();
  stopping = true;
  if (!relay.joinable())
    return;
  futexWakeAll(domain.control.failure->stage);
  relay.join();
}

// The record of a grid is its process's own, so each process writes into its own.
void PeerWatch::relayFailure() {
  std::atomic<uint32_t> &stage = domain.control.failure->stage;
  // A wake that comes between the look and the sleep is lost when it is that of the destructor.
  constexpr int64_t LookNs = 50'000'000;
  while (stage.load(std::memory_order_acquire) == 0) {
    if (stopping)
      return;
    futexWait(stage, 0, LookNs);
  }
  endWaits(&domain);
}

void PeerWatch::noticeEnd(int rank) {
  RankCell &cell = domain.control.rank(rank);
  if (cell.state.load(std::memory_order_acquire) == RankState::Finalized)
    return;
  cell.state.store(RankState::Dead, std::memory_order_release);
  std::string activity = cell.activity.get();
  domain.fail(rank, TILERY_PEER_ERROR,
              fmt::format("rank {} (pid {}) died{}", rank, peers.peers[size_t(rank)].pid,
                          activity.empty() ? "" : "; its last known activity: " + activity));
}

void PeerWatch::run() {
  std::vector<pollfd> events = {{stop.get(), POLLIN, 0}};
  std::vector<int> ranks = {-1};
  for (int rank = 0; rank < domain.size(); ++rank)
    if (rank != self) {
      events.push_back({peers.peers[size_t(rank)].process.get(), POLLIN, 0});
      ranks.push_back(rank);
    }
  while (true) {
    poll(events.data(), events.size(), -1);
    if (events[0].revents)
      return;
    for (size_t i = 1; i < events.size(); ++i)
      if (events[i].revents) {
        noticeEnd(ranks[i]);
        // Negative descriptors are ignored by poll.
        events[i].fd = -1;
        events[i].revents = 0;
      }
  }
}

} // namespace tilery::rt
