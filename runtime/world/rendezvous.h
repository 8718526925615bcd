// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// How the processes of a job on one host find each other and exchange descriptors of their
// memory. Rank 0 listens on an abstract unix socket named after the job: no TCP port is opened
// (torchrun's agent occupies MASTER_PORT itself), and other hosts cannot reach it. Both sides check
// that the other runs as the same user, and rank 0 that the job's token is presented; under
// launchers that make no token (torchrun, mpirun, Slurm) the user alone decides.
#pragma once

#include "runtime/world/job.h"
#include "runtime/world/socket.h"

#include <cstddef>
#include <vector>

namespace tilery::rt {

/// What all ranks must agree on.
struct WorldShape {
  size_t heapBytes = 0;
  std::vector<int> mesh;
};

struct PeerDescriptors {
  Descriptor heap;
  /// Becomes readable when the process ends.
  Descriptor process;
  int pid = 0;
};

struct Rendezvous {
  Descriptor control;
  std::vector<PeerDescriptors> peers; // by rank
  /// Stay open for as long as the world lives: an end of file is a death. Rank 0 has one to
  /// each rank (its own is closed), the others one to rank 0.
  std::vector<Descriptor> links;
};

/// `control` is rank 0's descriptor of the control block, else closed; `heap` this rank's heap.
/// Raises a ConfigError for a refused token or a disagreement, a PeerError when a rank dies or
/// does not come in time.
Rendezvous meet(const Job &job, const WorldShape &shape, Descriptor control, Descriptor heap,
                double timeoutSeconds);

/// The socket's name; distinct for each world that a process joins.
std::string rendezvousName(const Job &job, int sequence);

} // namespace tilery::rt
