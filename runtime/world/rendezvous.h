// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// How the processes of a job on one host find each other and exchange descriptors of their
// memory. Rank 0 listens on an abstract unix socket named after the job: no TCP port is opened
// (torchrun's agent occupies MASTER_PORT itself), and other hosts cannot reach it. Both sides check
// that the other runs as the same user, and rank 0 that the job's token is presented; under
// launchers that make no token (torchrun, mpirun, Slurm) the user alone decides.
#pragma once

#include "runtime/base/error.h"
#include "runtime/hal/driver.h"
#include "runtime/world/job.h"
#include "runtime/world/socket.h"

#include <cstddef>
#include <vector>

namespace tilery::rt {

/// What all ranks must agree on.
struct WorldShape {
  size_t heapBytes = 0;
  std::vector<int> mesh;
  bool onDevice = false;
  bool shareDevice = false;
};

/// What a rank brings.
struct RankMemory {
  /// Of the host: the heap, or what lies beside a heap in a device's memory.
  Descriptor host;
  /// The heap in a device's memory, which may have a descriptor.
  hal::ExportedMemory device;
  Descriptor deviceFile;
  /// "cuda:1 (NVIDIA H200)"
  std::string deviceText;
};

struct PeerDescriptors {
  RankMemory memory;
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

/// What one rank takes part with.
struct Admission {
  WorldShape shape;
  /// Rank 0's descriptor of the control block, else closed.
  Descriptor control;
  RankMemory memory;
  /// Why this rank can have no memory: then the others are told, and nobody's world comes about.
  Error problem = Error(TILERY_OK, "");
};

/// Raises a ConfigError for a refused token, a disagreement, or ranks that share a device without
/// having asked for it, a PeerError when a rank dies, has a problem or does not come in time, and
/// this rank's own problem.
Rendezvous meet(const Job &job, Admission admission, double timeoutSeconds);

/// The socket's name; distinct for each world that a process joins.
std::string rendezvousName(const Job &job, int sequence);

} // namespace tilery::rt
