// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// The end of a world, and the collective that merges the ranks' timelines.
#include "runtime/world/idle_wait.h"
#include "runtime/world/world.h"

#include "runtime/base/log.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>

namespace tilery::rt {

static std::string partPath(const std::string &path, int rank) {
  return fmt::format("{}.rank{}.part", path, rank);
}

/// 0, or the error number: later calls overwrite errno.
static int writeFile(const std::string &path, const std::string &text) {
  errno = 0;
  std::ofstream file(path, std::ios::binary);
  file << text;
  if (file.flush())
    return 0;
  return errno ? errno : EIO;
}

static void requireWritten(const std::string &path, int error) {
  if (error)
    raise(TILERY_CONFIG_ERROR, "cannot write the timeline to '{}': {}", path,
          std::strerror(error));
}

void World::mergeTrace(const std::string &path) const {
  std::vector<std::string> parts;
  for (int rank = 0; rank < size(); ++rank) {
    std::ifstream file(partPath(path, rank), std::ios::binary);
    std::stringstream text;
    text << file.rdbuf();
    // A rank that died has left no part.
    if (file && !text.str().empty())
      parts.push_back(text.str());
    std::remove(partPath(path, rank).c_str());
  }
  requireWritten(path, writeFile(path, wrapTrace(parts)));
}

void World::startTrace() {
  trace.enable();
  if (device().driver)
    share->timelines.of(device());
}

void World::collectTrace() {
  if (!trace.on() || domain->stuck)
    return;
  // Of ranks that share a device, others may wait for a launch that comes later.
  if (device().driver && ranksOnDevice() > 1)
    awaitLaunches();
  else
    share->timelines.synchronize();
  share->timelines.collect(trace);
}

// Nothing keeps a rank from leaving, not even a device that has failed.
void World::collectLastEvents() {
  try {
    collectTrace();
  } catch (const Error &error) {
    warn(fmt::format("the timeline of rank {} lacks what its kernels wrote: {}", self, error.message));
  }
}

void World::writeTrace(const std::string &path) {
  if (!whole())
    raise(TILERY_LAUNCH_ERROR, "the timeline is that of the whole world; {} has none of its own",
          name());
  collectTrace();
  int error = writeFile(partPath(path, self), trace.toJson(self));
  barrier();
  requireWritten(path, error);
  if (self == 0)
    mergeTrace(path);
  barrier();
}

// Peers need nothing from a rank that has finalized, except that timelines are merged when all
// are written, so a rank that is late, gone or failed costs at most the timeout, and no error.
void World::awaitFinalize() {
  uint64_t *arrivals = meeting.hostArrivals;
  constexpr uint64_t Finalizing = uint64_t(1) << 63;
  // For a peer that expects another collective of us.
  meeting.mailbox(self, hostEpoch + 1).header = makeHeader(CollectiveKind::Finalize);
  __atomic_store_n(arrivals + self, Finalizing, __ATOMIC_RELEASE);
  if (!domain->scheduler)
    domain->ringAll();
  Predicate predicate{arrivals, size(), Finalizing, TILERY_CMP_GE};
  domain->control.rank(self).activity.set("has begun to finalize");
  HostWait wait{predicate, Deadline::after(timeoutSeconds()), [&] {
                  return fmt::format("rank {} waits for the others to finalize", self);
                }};
  if (domain->scheduler) {
    domain->scheduler->wait(self, wait);
    return;
  }
  IdleWait idle(*domain, self);
  auto ready = [&] { return predicate.holds() || domain->failed(); };
  while (!ready())
    if (wait.deadline.passed(idle.pause(ready))) {
      warn(fmt::format("rank {} finalized without the others:{}", self,
                       domain->describePeers(self)));
      return;
    }
}

void World::finalize() {
  if (finalized)
    return;
  if (!whole()) {
    if (self >= 0 && !share->finalized && !domain->failed())
      disband();
    finalized = true;
    return;
  }
  const std::string &path = domain->options.trace;
  collectLastEvents();
  int error = path.empty() ? 0 : writeFile(partPath(path, self), trace.toJson(self));
  if (!domain->failed())
    awaitFinalize();
  share->registered.forgetAll(*this);
  share->peers.close(*this);
  finalized = share->finalized = true;
  domain->control.rank(self).state.store(RankState::Finalized, std::memory_order_release);
  if (domain->scheduler)
    domain->scheduler->leave(self);
  // The memory may live on for those who view it, but nobody needs to watch the peers.
  if (domain->kind == WorldKind::Process)
    domain->watch.reset();
  requireWritten(path, error);
  if (!path.empty() && self == 0)
    mergeTrace(path);
}

} // namespace tilery::rt
