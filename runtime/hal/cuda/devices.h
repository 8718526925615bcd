// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// NVIDIA GPUs through their driver library alone.
#pragma once

#include "runtime/hal/cuda/api.h"
#include "runtime/hal/driver.h"

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

namespace tilery::rt::hal::cuda {

/// The kernel launched last in this process: who is to blame for a lost device.
const char *lastKernel();

/// What this process knows of a device; its primary context is shared with other libraries.
struct DeviceState {
  DeviceProperties properties;
  bool concurrentManaged = false;
  bool hasClusters = false;
  /// Memory is mapped from pieces that have file descriptors.
  bool mapsDescriptors = false;
  std::once_flag opened;
  Handle context = nullptr;
  /// Work of our own, such as zeroing: never ordered with anybody's.
  Handle stream = nullptr;
  /// Streams that nobody uses now. They are kept: each has a hardware queue of its own only while
  /// there are few of them.
  std::vector<Handle> idleStreams, idleInOrder;
  std::set<Handle> inOrder; ///< streams that follow the default one, used or idle
};

/// Memory of one device in the driver's hands or the caller's.
struct Block {
  Address begin = 0;
  size_t bytes = 0;
  int device = 0;
  bool managed = false;
  /// Cut from the reserve, which is never given back.
  bool reserved = false;
};

/// Memory that has no address until it is mapped.
struct Piece {
  uint64_t handle = 0;
  size_t bytes = 0;
};

/// Memory that other devices or processes use too, or that comes from another process.
struct ReachableBlock {
  Address begin = 0;
  size_t bytes = 0;
  int device = 0; ///< whose it is; of imported memory, for which it is mapped
  bool imported = false;
  /// What is mapped, one behind the other; none: memory with IPC handles.
  std::vector<Piece> pieces;
};

void unmap(const ReachableBlock &block);
Result allowAccess(Address begin, size_t bytes, int device);
void enableAccess(Handle owner);
void requireReach(const Driver &driver, int device, int owner);
/// ExportedMemory::kind.
enum Kind : uint32_t { NoKind, FromPieces, Ipc };

/// What a device keeps while memory is held (Driver::holdMemory).
struct HeldMemory {
  int holds = 0;
  /// Given back by the caller, by kind and size.
  std::multimap<std::pair<bool, size_t>, Block> spare;
  std::vector<ReachableBlock> mapped;
  Address reserve = 0;
  size_t reserveLeft = 0;
};

/// Makes a device's context the calling thread's, and restores the one before.
class Scope {
public:
  explicit Scope(Handle context) {
    api().contextGetCurrent(&before);
    if (before == context)
      return;
    check(api().contextSetCurrent(context), "cuCtxSetCurrent");
    changed = true;
  }
  ~Scope() {
    if (changed && before)
      api().contextSetCurrent(before);
  }
  Scope(const Scope &) = delete;

private:
  Handle before = nullptr;
  bool changed = false;
};

/// Lets this thread allocate and load while one of its streams is being captured.
class RelaxedCapture {
public:
  RelaxedCapture() { api().exchangeCaptureMode(&mode); }
  ~RelaxedCapture() { api().exchangeCaptureMode(&mode); }
  RelaxedCapture(const RelaxedCapture &) = delete;

private:
  int mode = CaptureModeRelaxed;
};

struct CudaKernel final : LoadedKernel {
  int device = 0;
  Handle context = nullptr, module = nullptr, function = nullptr;
  const char *name = ""; // lives as long as the process
  KernelShape shape;
  bool clustered = false;
};

class CudaDriver final : public Driver {
public:
  std::string_view name() const override { return "cuda"; }
  std::string unavailable() const override { return openError(); }
  bool inUse() const override { return isLoaded(); }
  bool runsInProcess() const override { return false; }
  int deviceCount() const override;
  const DeviceProperties &properties(int device) const override;
  int deviceOf(const void *address) const override;

  void *allocate(size_t bytes, int device) override;
  void release(void *memory, size_t bytes) override;
  void *allocateShared(size_t bytes, int device) override;
  void *allocateHost(size_t bytes, int device) override;
  void *allocateReachable(size_t bytes, int device) override;
  std::string unreachable(int device, int owner) const override;
  Allocation allocationAt(const void *address) override;
  void reach(void *memory, int device) override;
  ExportedMemory exportMemory(void *memory) override;
  void *importMemory(std::span<const ExportedMemory> pieces, int device) override;
  void holdMemory(int device) override;
  void letGoMemory(int device) override;
  void clear(void *memory, size_t bytes) override;
  void copy(void *destination, const void *source, size_t bytes) override;

  Stream createStream(int device, bool inOrder) override;
  void destroyStream(int device, Stream stream) override;
  void copyAsync(void *destination, const void *source, size_t bytes, int device,
                 Stream stream) override;
  void fillAsync(void *memory, uint8_t byte, size_t bytes, int device, Stream stream) override;
  void synchronize(int device, Stream stream) override;
  bool isIdle(int device, Stream stream) override;
  void synchronizeDevice(int device) override;
  uint64_t recordingOf(int device, Stream stream) override;
  void beginRecording(int device, Stream stream) override;
  Recording endRecording(int device, Stream stream) override;
  void replay(Recording recording, int device, Stream stream) override;
  void destroyRecording(int device, Recording recording) override;
  Event createEvent(int device, bool timed) override;
  void destroyEvent(int device, Event event) override;
  void record(Event event, int device, Stream stream) override;
  void waitFor(Event event, int device, Stream stream) override;
  double milliseconds(Event begin, Event end) override;
  ClockReading readClock(int device) override;

  LoadedKernel *load(int device, std::string_view code, const std::string &name,
                     const KernelShape &shape) override;
  void unload(LoadedKernel *kernel) override;
  int64_t residentInstances(const LoadedKernel &kernel) override;
  void launch(const DeviceLaunch &launch) override;
  std::string encodeTensorMap(const TensorMapShape &shape, TensorMap &map) override;

private:
  struct Devices;
  static Devices &devices();
  /// The device with its context open.
  static DeviceState &opened(int device);
  /// For work that any device can do: one whose context is open, since a context takes memory.
  static int anyOpened();
  static void zero(DeviceState &state, Address memory, size_t bytes);
  /// New or kept memory of the device whose context is current; not zeroed.
  Block take(int device, size_t bytes, bool managed);
  bool takeHeld(HeldMemory &held, Block &wanted);
  void *keep(const ReachableBlock &block);
  /// The reachable block that has the address; one of 0 bytes when none has.
  ReachableBlock reachableAt(const void *address) const;
  bool releaseReachable(void *memory);
  /// Of memory that somebody else in this process has allocated.
  static ExportedMemory exportOthers(const Allocation &memory, const DeviceState &state);
  void reachOthers(void *memory, int device);

  mutable std::mutex mutex; // of what follows and of DeviceState::idleStreams
  std::map<int, HeldMemory> heldMemory;
  /// By the address that the caller has, which may lie behind the block's begin.
  std::map<Address, Block> allocated;
  std::map<Address, ReachableBlock> reachable;
  std::atomic<bool> hasReachable = false;
};

} // namespace tilery::rt::hal::cuda
