// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Builds the domain of a process world: own heap, rendezvous, the peers' heaps, the watch. What one
// rank alone cannot do is told to all, at the rendezvous or through the failure record: nobody
// waits for a rank that gave up.
#include "runtime/world/process_world.h"

#include "runtime/world/group.h"
#include "runtime/world/peer_watch.h"
#include "runtime/world/placement.h"
#include "runtime/world/rendezvous.h"

#include <unistd.h>

namespace tilery::rt {

static int duplicate(int descriptor) {
  int copy = dup(descriptor);
  if (copy < 0)
    raise(TILERY_CONFIG_ERROR, "cannot duplicate a file descriptor\nhint: raise ulimit -n");
  return copy;
}

static void makeHeap(Domain &domain, int rank) {
  const WorldOptions &options = domain.options;
  if (options.device == 0)
    return;
  if (options.sharedHeap)
    raise(TILERY_CONFIG_ERROR,
          "shared_heap is for ranks in one process: memory that the host and a "
          "device reach cannot be mapped by another process\nhint: copy with "
          "numpy() and copy_from, or use ty.spawn");
  domain.devices.resize(size_t(domain.size()));
  domain.devices[size_t(rank)] = hal::deviceNumber(options.device);
  domain.streams.resize(size_t(domain.size()));
  domain.openDevices();
  domain.addRank(rank);
}

static void exportHeap(const Domain &domain, int rank, RankMemory &memory) {
  if (!domain.onDevice())
    return;
  hal::DeviceRef where = domain.device(rank);
  memory.device = where.driver->exportMemory(domain.heaps[size_t(rank)].data());
  memory.deviceFile = Descriptor(memory.device.descriptor);
  memory.deviceText = deviceText(where);
}

// Ranks are in one group when the driver says that their memory is one device's.
static void groupByDevice(Domain &domain, const Rendezvous &found) {
  for (const PeerDescriptors &peer : found.peers) {
    int group = 0;
    while (std::string_view(found.peers[size_t(group)].memory.device.owner) !=
           peer.memory.device.owner)
      ++group;
    domain.deviceGroups.push_back(group);
  }
}

static void mapPeers(Domain &domain, const Job &job, Rendezvous &found, Mapping ownHostPart) {
  std::vector<Mapping> &onHost = domain.onDevice() ? domain.hostParts : domain.heaps;
  onHost.resize(size_t(job.size));
  for (int rank = 0; rank < job.size; ++rank) {
    RankMemory &memory = found.peers[size_t(rank)].memory;
    if (rank == job.rank) {
      onHost[size_t(rank)] = std::move(ownHostPart);
      continue;
    }
    onHost[size_t(rank)] = Mapping::fromDescriptor(memory.host.release(), domain.options.heapBytes);
    if (domain.onDevice())
      domain.heaps[size_t(rank)] =
          Mapping::ofPeer(domain.device(job.rank), memory.device, domain.options.heapBytes);
    memory.deviceFile = Descriptor();
  }
}

/// An error of this rank alone is one of the world, in which the others wait.
template <typename Action> static void toldToAll(Domain &domain, int rank, Action action) {
  try {
    action();
  } catch (const Error &error) {
    domain.fail(rank, error.kind, error.message);
    throw;
  }
}

static Admission prepare(Domain &domain, const Job &job, const Mapping &hostPart, Error problem) {
  Admission admission;
  admission.shape = {domain.options.heapBytes, domain.options.mesh, domain.options.device != 0,
                     domain.options.shareDevice};
  if (job.rank == 0) {
    domain.controlMemory = Mapping::sharedFile(Control::bytes(job.size), "tilery-control");
    admission.control = Descriptor(duplicate(domain.controlMemory.descriptor()));
  }
  try {
    if (problem.kind == TILERY_OK) {
      makeHeap(domain, job.rank);
      exportHeap(domain, job.rank, admission.memory);
    }
  } catch (const Error &error) {
    problem = error;
  }
  admission.memory.host = Descriptor(duplicate(hostPart.descriptor()));
  admission.problem = std::move(problem);
  return admission;
}

static std::unique_ptr<World> joinProcesses(const Job &job, WorldOptions options, Error problem) {
  auto domain = std::make_shared<Domain>(WorldKind::Process, std::move(options));
  Mapping hostPart = Mapping::sharedFile(domain->options.heapBytes, "tilery-heap");
  Admission admission = prepare(*domain, job, hostPart, std::move(problem));
  Rendezvous found = meet(job, std::move(admission), domain->options.timeoutSeconds);
  if (job.rank != 0)
    domain->controlMemory =
        Mapping::fromDescriptor(found.control.release(), Control::bytes(job.size));
  domain->control = Control(domain->controlMemory.data(), job.size);
  if (domain->onDevice())
    groupByDevice(*domain, found);
  toldToAll(*domain, job.rank, [&] { mapPeers(*domain, job, found, std::move(hostPart)); });
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
  requireOneHost(*job);
  options.ranks = job->size;
  Error problem(TILERY_OK, "");
  try {
    options.device = placeProcess(options, *job);
  } catch (const Error &error) {
    problem = error;
  }
  options.deviceNames.clear();
  return joinProcesses(*job, resolveOptions(std::move(options)), std::move(problem));
}

} // namespace tilery::rt
