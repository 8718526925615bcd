// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// What the ranks of one world have in common, as this process sees it: the control block, every
// rank's heap, and how the world failed if it did.
#pragma once

#include "runtime/base/error.h"
#include "runtime/hal/driver.h"
#include "runtime/world/control.h"
#include "runtime/world/mapping.h"

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tilery::rt {

class SeededScheduler;
class PeerWatch;

enum class WorldKind { Single, InProcess, Process };

struct WorldOptions {
  int ranks = 1;
  /// Extents of the mesh, first axis slowest; empty: one axis.
  std::vector<int> mesh;
  size_t heapBytes = 0;       // 0: TILERY_HEAP_BYTES
  double timeoutSeconds = -1; // < 0: TILERY_TIMEOUT_S; 0: none
  std::string trace;          // "": TILERY_TRACE

  // In-process worlds only.
  std::optional<uint64_t> seed;
  bool delay = false;
  int64_t residency = 0; // program instances at a time on one rank; 0: no limit
  /// Number of the device whose memory the heaps are (hal::deviceNumber); 0: the host.
  int32_t device = 0;
  /// The heaps of a device are memory that the host reads and writes as well.
  bool sharedHeap = false;
};

/// Fills in what the options leave to the knobs and raises a ConfigError for nonsense.
WorldOptions resolveOptions(WorldOptions options);

class Domain {
public:
  Domain(WorldKind kind, WorldOptions options);
  ~Domain();
  Domain(const Domain &) = delete;

  int size() const { return options.ranks; }

  bool failed() const { return control.failure->stage.load(std::memory_order_acquire) != 0; }
  /// A failure of no rank in particular: a deadlock, whose report names all waits, or only those
  /// of the rank that found it.
  static constexpr int Everyone = -1;
  static constexpr int EveryoneInPart = -2;

  /// The first failure counts; wakes every rank.
  void fail(int rank, tilery_status kind, std::string_view text);
  /// Raises the failure as rank `self` has to see it; `waitingFor` says what it was doing.
  [[noreturn]] void raiseFailure(int self, const std::string &waitingFor = "") const;

  /// Wakes a rank's thread if it sleeps; call after changing memory it may wait for.
  void ring(int rank);
  void ringAll();

  /// Rank whose heap holds the address, or -1.
  int rankOf(const void *pointer) const;
  /// One line for each other rank: what it is doing.
  std::string describePeers(int self) const;

  const WorldKind kind;
  const WorldOptions options;
  Mapping controlMemory;
  Control control;
  /// Where kernels of these ranks run; no driver: in this process.
  hal::DeviceRef device;
  /// One a rank, so that ranks on one device run at the same time.
  std::vector<hal::Stream> streams;
  /// Ranks of this process run on one device, at the same time.
  bool sharesDevice() const { return streams.size() > 1; }
  /// Before the first heap and stream: what the ranks' launches would otherwise ask for while
  /// other ranks' grids run.
  void openDevice();
  /// A grid does not end; what it may use stays as it is.
  std::atomic<bool> stuck = false;
  /// Ranks that compile or load a kernel now, and launches of waiting kernels by each seat
  /// (launch/device_launch.cpp).
  std::atomic<int> preparing = 0;
  std::vector<std::atomic<uint64_t>> prepared;
  std::vector<Mapping> heaps;
  /// Loads and stores of this process reach the heaps.
  bool hostReachesHeaps() const { return !device.driver || options.sharedHeap; }
  /// Null unless the world has a seed.
  std::unique_ptr<SeededScheduler> scheduler;
  /// Watches the other processes; null within one process.
  std::shared_ptr<void> watch;

private:
  bool held = false;
};

/// 0 to size - 1.
std::vector<int> allRanks(int size);

/// A full barrier between a write and a later read of another location.
void fullFence();

} // namespace tilery::rt
