// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Builds the domain of a process world: own heap, rendezvous, the peers' heaps, the watch.
#include "runtime/world/process_world.h"

#include "runtime/world/peer_watch.h"
#include "runtime/world/rendezvous.h"

#include <unistd.h>

namespace tilery::rt {

static int duplicate(int descriptor) {
  int copy = dup(descriptor);
  if (copy < 0)
    raise(TILERY_CONFIG_ERROR, "cannot duplicate a file descriptor\nhint: raise ulimit -n");
  return copy;
}

static void mapPeers(Domain &domain, const Job &job, Rendezvous &found, Mapping heap) {
  for (int rank = 0; rank < job.size; ++rank) {
    if (rank == job.rank)
      domain.heaps.push_back(std::move(heap));
    else
      domain.heaps.push_back(Mapping::fromDescriptor(found.peers[size_t(rank)].heap.release(),
                                                     domain.options.heapBytes));
  }
}

static std::unique_ptr<World> joinProcesses(const Job &job, WorldOptions options) {
  requireOneHost(job);
  auto domain = std::make_shared<Domain>(WorldKind::Process, std::move(options));
  size_t controlBytes = Control::bytes(job.size);
  Mapping heap = Mapping::sharedFile(domain->options.heapBytes, "tilery-heap");
  Descriptor control;
  if (job.rank == 0) {
    domain->controlMemory = Mapping::sharedFile(controlBytes, "tilery-control");
    control = Descriptor(duplicate(domain->controlMemory.descriptor()));
  }
  WorldShape shape{domain->options.heapBytes, domain->options.mesh};
  Rendezvous found = meet(job, shape, std::move(control), Descriptor(duplicate(heap.descriptor())),
                          domain->options.timeoutSeconds);
  if (job.rank != 0)
    domain->controlMemory = Mapping::fromDescriptor(found.control.release(), controlBytes);
  domain->control = Control(domain->controlMemory.data(), job.size);
  mapPeers(*domain, job, found, std::move(heap));
  auto world = std::make_unique<World>(domain, job.rank);
  domain->watch = std::make_shared<PeerWatch>(*domain, job.rank, std::move(found));
  // Nobody returns before all are watched.
  world->barrier();
  return world;
}

std::unique_ptr<World> joinWorld(const JobOptions &jobOptions, WorldOptions options) {
  std::optional<Job> job = findJob(jobOptions);
  if (!job || job->size == 1)
    return makeSingleWorld(std::move(options));
  if (options.device != 0)
    raise(TILERY_CONFIG_ERROR, "ranks in several processes have their symmetric memory on the host; "
                               "the option 'device' is for one process");
  options.ranks = job->size;
  return joinProcesses(*job, resolveOptions(std::move(options)));
}

} // namespace tilery::rt
