// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// What the ranks of one world have in common, as this process sees it: the control block, every
// rank's heap, and how the world failed if it did.
#pragma once

#include "runtime/base/error.h"
#include "runtime/hal/driver.h"
#include "runtime/world/control.h"
#include "runtime/world/launch_gate.h"
#include "runtime/world/mapping.h"
#include "runtime/world/side_streams.h"

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
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
  /// The heaps of a device are memory that the host reads and writes as well.
  bool sharedHeap = false;

  /// Number of the device whose memory the heaps are (hal::deviceNumber); 0: the host.
  int32_t device = 0;
  /// Instead of it, names: of one device or of one for each rank (placement.h).
  std::vector<std::string> deviceNames;
  /// Ranks may use one device, as processes too.
  bool shareDevice = false; // or TILERY_SHARE_DEVICE
};

/// Fills in what the options leave to the knobs and raises a ConfigError for nonsense.
WorldOptions resolveOptions(WorldOptions options);

/// Registered memory of the ranks of one process (World::registerMemory), by whose it is.
class OwnedMemory {
public:
  struct Range {
    const char *begin;
    size_t bytes;
    int seat;
  };
  void add(Range range);
  void remove(const char *begin, int seat);
  /// -1: nobody's.
  int ownerOf(const void *pointer) const;

private:
  mutable std::mutex mutex;
  std::vector<Range> ranges;
};

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

  /// Rank whose heap or registered memory holds the address, or -1.
  int rankOf(const void *pointer) const;
  /// One line for each other rank: what it is doing.
  std::string describePeers(int self) const;

  const WorldKind kind;
  const WorldOptions options;
  Mapping controlMemory;
  Control control;
  /// Where the kernels of each rank run and its heap lies; of ranks in other processes no driver.
  /// Empty: in this process, on the host.
  std::vector<hal::DeviceRef> devices;
  bool onDevice() const { return !devices.empty(); }
  hal::DeviceRef device(int seat) const { return onDevice() ? devices[size_t(seat)] : hal::DeviceRef(); }
  /// By rank; equal for ranks that share a device.
  std::vector<int> deviceGroups;
  /// One a rank of this process, so that ranks on one device run at the same time.
  std::vector<hal::Stream> streams;
  /// Beside those, for copies; null of ranks in other processes.
  std::vector<std::unique_ptr<SideStreams>> sideStreams;
  /// Grids of different ranks, which wait for each other, run at the same time.
  bool gridsMeet() const { return onDevice() && size() > 1; }
  /// A call of the driver for one rank may wait for another's grid.
  bool gridsMeetInProcess() const { return gridsMeet() && kind != WorldKind::Process; }
  /// Before the first heap: what the ranks' launches would otherwise ask for while other ranks' grids
  /// run.
  void openDevices();
  /// Heap and stream of a rank of this process.
  void addRank(int rank);
  /// A grid does not end; what it may use stays as it is.
  std::atomic<bool> stuck = false;
  /// Ranks that compile or load a kernel now (launch/launch_turn.h).
  std::atomic<int> preparing = 0;
  /// Where the ranks of these seats meet before launches; null where they need not.
  LaunchGate *gateOf(const std::vector<int> &seats);
  std::vector<Mapping> heaps;
  OwnedMemory registered;
  /// Loads and stores of this process reach the heaps.
  bool hostReachesHeaps() const { return !onDevice() || options.sharedHeap; }
  /// Where they do not, memory of the host beside each heap, with equal offsets: meeting places of
  /// teams. It costs nothing until touched.
  std::vector<Mapping> hostParts;
  /// Of the rank's heap, or of what lies beside it.
  char *hostMemory(int seat) const {
    return (hostReachesHeaps() ? heaps : hostParts)[size_t(seat)].data();
  }
  /// Zeroes a part of the rank's heap and of what lies beside it.
  void discard(int seat, size_t offset, size_t bytes);
  /// Null unless the world has a seed.
  std::unique_ptr<SeededScheduler> scheduler;
  /// Watches the other processes; null within one process.
  std::shared_ptr<void> watch;

private:
  int sideStreamsOf(int rank) const;
  /// Each device of this process once.
  std::vector<hal::DeviceRef> distinctDevices() const;
  std::vector<hal::DeviceRef> held;
  std::mutex gateMutex;
  std::map<std::vector<int>, std::unique_ptr<LaunchGate>> gates;
};

/// 0 to size - 1.
std::vector<int> allRanks(int size);

/// A full barrier between a write and a later read of another location.
void fullFence();

} // namespace tilery::rt
