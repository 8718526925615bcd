// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// One rank's view of a world of ranks, or of a team of some of them: symmetric memory, signals and
// host-side collectives.
#pragma once

#include "runtime/world/domain.h"
#include "runtime/world/rank_share.h"
#include "runtime/world/seeded_scheduler.h"
#include "runtime/world/stream_order.h"
#include "runtime/world/transport.h"

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tilery::rt {

/// "rank 1", or "rank 1 of team 'tp' (rank 3 of the world)" when `team` is not "".
std::string rankText(int rank, std::string_view team, int seat);

/// A team is a world too: its ranks count from 0 in the order in which it was made of them. Its
/// failure is that of the whole domain, so that nobody waits for a team that will not come.
class World {
public:
  World(std::shared_ptr<Domain> domain, int rank);
  /// A whole world leaves without waiting for anyone; finalize() is the polite way.
  ~World();
  World(const World &) = delete;

  /// Collective over this world: the team of these of its ranks. Ranks that do not belong to it get
  /// a world that raises when it is used.
  std::unique_ptr<World> team(std::span<const int> ranks, std::string_view label);
  /// Collective: ranks of one color form a team, ordered by key and then by rank. color < 0: none.
  std::unique_ptr<World> split(int color, int key, std::string_view label);

  /// -1 when this rank does not belong to the team.
  int rank() const { return self; }
  int size() const { return int(members.size()); }
  bool whole() const { return number == 0; }
  /// The number in the domain of this rank, and of `rank`.
  int seat() const { return ownSeat; }
  int seat(int rank) const { return members[size_t(rank)]; }
  const std::vector<int> &seats() const { return members; }
  /// "" of the whole world.
  std::string teamLabel() const { return whole() ? "" : label; }
  /// "the world" or "team 'tp'".
  std::string name() const;
  /// "rank 1", or "rank 1 of team 'tp' (rank 3 of the world)".
  std::string rankText() const;
  /// The same of several.
  std::string ranksText(const std::vector<int> &ranks) const;
  const char *kindText() const;
  double timeoutSeconds() const { return domain->options.timeoutSeconds; }
  /// This rank, or the world size, along one mesh axis; axis -1: over all axes.
  int axisRank(int axis) const;
  int axisSize(int axis) const;

  // Collectives: every rank makes the same calls in the same order. timeout < 0: the world's.
  void barrier(double timeout = -1);
  void allGather(const void *sent, void *received, size_t bytes, std::string_view purpose = "");
  /// `type` describes the elements for the agreement, as in "float32[4, 8]".
  void *allocate(size_t bytes, std::string_view label, std::string_view type = "");
  void free(void *pointer);
  /// Raises a LaunchError when the ranks are about to run different grids.
  void agreeOnLaunch(std::string_view kernel, const int64_t grid[3]);
  /// Idempotent; does not wait for a rank that is gone, nor when the world has failed.
  void finalize();

  bool contains(const void *pointer, size_t bytes) const;
  /// What is registered and holds all of it, else null.
  const RegisteredObject *registered(const void *pointer, size_t bytes) const;
  /// The same place on `rank`, of registered memory; null of other memory.
  void *registeredPeer(const void *local, size_t bytes, int rank) const;
  /// Cheaper: the address lies in the part of this rank's heap that is in use or was.
  bool inHeap(const void *pointer) const {
    return size_t(static_cast<const char *>(pointer) - base) < heapBytes;
  }
  void *at(void *local, int rank) const;
  /// The same without checks.
  void *translate(void *local, int rank) const {
    if (!inHeap(local))
      return registeredPeer(local, 0, rank);
    return domain->heaps[size_t(members[size_t(rank)])].data() + (static_cast<char *>(local) - base);
  }
  /// Why contains() is false for memory in the heap: it was freed, or belongs to another team.
  std::string whyNotContained(const void *pointer, size_t bytes) const;
  /// "'ready'[3]": label and index in units of 8 bytes.
  std::string describeSignal(const uint64_t *signal) const;
  /// "signal 'ready'[3]: expected == 8, seen 7".
  std::string describeWait(const Predicate &predicate) const;

  // The host's own one-sided operations; addresses are this rank's.
  void notify(uint64_t *signal, int rank, uint64_t value, int32_t op);
  void wait(const uint64_t *signal, uint64_t value, int32_t compare, double timeout = -1);
  void put(void *destination, const void *source, size_t bytes, int rank);
  void get(void *destination, const void *source, size_t bytes, int rank);

  [[noreturn]] void raiseFinalized() const;
  /// Raises when the world has failed or this rank has finalized.
  void requireUsable() const;
  /// Marks the world failed and raises: others get a PeerError.
  [[noreturn]] void failWith(const Error &error);
  /// Raises for all ranks; `waits` says what this one waits for.
  [[noreturn]] void failDeadlocked(const std::string &waits);

  std::string describeJson() const;
  /// From now on; those of other ranks are not told.
  void startTrace();
  /// Waits for the launches so far, and takes what kernels wrote into the trace.
  void collectTrace();
  /// Collective: merges all ranks' events into one file.
  void writeTrace(const std::string &path);

  const std::shared_ptr<Domain> domain;
  const std::unique_ptr<Transport> transport;
  const std::shared_ptr<RankShare> share;
  Trace &trace;
  StackPool &stacks;
  /// Where these ranks meet; null pointers for a rank that does not belong to the team.
  Meeting meeting;
  /// Of launches that may otherwise wait for each other in the driver, else null.
  LaunchGate *gate = nullptr;
  StreamOrder operators;
  /// Device-side barriers that this rank has begun.
  uint64_t deviceBarriers = 0;
  void ringMembers();

  /// Where kernels of this rank run; no driver: in this process.
  hal::DeviceRef device() const { return domain->device(ownSeat); }
  int32_t deviceNumber() const;
  /// Of these ranks, those that use this rank's device, itself among them.
  int ranksOnDevice() const;
  /// Where launches of this rank go that name no stream.
  hal::Stream deviceStream() const;
  /// Launches on a device return before their grids have run: waits for those of this rank, where
  /// they wait for others no longer than their waits may take together, and a margin.
  void awaitLaunches();
  void noteLaunch(const std::string &kernel, bool waits, double timeout);
  /// Of barriers inside kernels: one cell a rank in each rank's heap. Null unless the heaps are a
  /// device's.
  uint64_t *deviceBarrierCells() const;
  /// Of no other world of this process, now or later.
  const SerialNumber serial;

private:
  friend class RegisteredObjects;
  /// `ranks` are numbers in `parent`; empty when this rank belongs to no team.
  World(const World &parent, const std::vector<int> &ranks, std::string_view label);
  std::unique_ptr<World> makeTeam(const std::vector<std::vector<int>> &teams,
                                  std::string_view label);
  size_t agreeOnPlace(CollectiveHeader header, size_t bytes, bool takesPart,
                      const std::vector<std::vector<int>> &teams);
  void disband();
  void copyTo(void *destination, const void *source, size_t bytes);
  void waitOn(const HostWait &wait);
  void waitOnDevice(const Predicate &predicate, double timeout);
  void waitIdly(const HostWait &wait);
  void collective(CollectiveHeader header, const void *payload, size_t bytes, double timeout = -1);
  void arrive(double timeout, const std::string &what);
  void checkAgreement(const CollectiveHeader &mine) const;
  std::string describeMissing(const Predicate &predicate, const std::string &what) const;
  [[noreturn]] void raiseNoSpace(size_t bytes, std::string_view label) const;
  void checkRank(int rank) const;
  size_t checkedOffset(const void *pointer, size_t bytes, const char *what) const;
  void awaitFinalize();
  void collectLastEvents();
  void mergeTrace(const std::string &path) const;

  const std::vector<int> members; // seats
  const int self;                 // index in members, or -1
  const int ownSeat;
  const std::string label;
  /// 0, or the number of the team among those of this rank, and of the teams it was made in.
  const int number = 0;
  const std::vector<int> lineage = {0};
  /// Where the meeting place of a team lies in the heap of its rank 0.
  size_t meetingOffset = 0;
  char *const base;
  const size_t heapBytes;
  HeapLayout &layout;
  uint64_t hostEpoch = 0;
  bool finalized = false;
  [[noreturn]] void raiseStuck(double seconds);
};

} // namespace tilery::rt
