// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// What the runtime asks of a kind of device: memory, copies, streams, code, and running a grid of
// program instances. One folder below this one implements it for each vendor.
//
// A driver either runs functions of this process (`run`; the host's processor), or loads code and
// launches it (`load` to `launch`). Calls raise rt::Error; they may come from any thread.
#pragma once

#include "runtime/hal/device_facts.h"
#include "runtime/hal/tensor_map.h"
#include "tilery/kernel_abi.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tilery::rt::hal {

/// An order of work on one device; null is the device's default one.
using Stream = void *;
using Event = void *;
using Recording = void *; ///< of a stream's work, to be run again

/// A grid whose instances never suspend.
struct GridRun {
  tilery_kernel_entry entry = nullptr;
  const uint64_t *arguments = nullptr;
  /// The driver sets `program_id` of this object before each call of `entry`.
  tilery_instance *instance = nullptr;
  /// Asked before each program instance, when not null; true ends the run early.
  bool (*stop)(void *context) = nullptr;
  void *context = nullptr;
};

/// The form of a kernel's program instances on a device that loads code.
struct KernelShape {
  int32_t threads = 1;
  int32_t sharedBytes = 0;
  std::array<int32_t, 3> cluster = {1, 1, 1};
};

/// Code on one device.
class LoadedKernel {
public:
  virtual ~LoadedKernel() = default;
};

struct DeviceLaunch {
  const LoadedKernel *kernel = nullptr;
  std::array<uint32_t, 3> grid = {1, 1, 1};
  /// The address of each parameter; read before `launch` returns.
  void **parameters = nullptr;
  Stream stream = nullptr;
};

class Driver {
public:
  virtual ~Driver() = default;

  virtual std::string_view name() const = 0;
  /// Why the driver cannot be used on this machine, "" when it can.
  virtual std::string unavailable() const = 0;
  /// Already in use by this process, so that addresses may be this driver's.
  virtual bool inUse() const { return true; }
  virtual int deviceCount() const = 0;
  virtual const DeviceProperties &properties(int device) const = 0;
  /// The device whose memory is at the address, -1 when it is none of this driver's.
  virtual int deviceOf(const void *address) const = 0;
  /// Grids are functions of this process.
  virtual bool runsInProcess() const = 0;

  /// Zeroed device memory, aligned to 4096 bytes; 0 bytes give a unique address too.
  virtual void *allocate(size_t bytes, int device = 0) = 0;
  virtual void release(void *memory, size_t bytes) = 0;
  /// Zeroed memory that the host and the device's running grids read and write alike.
  virtual void *allocateShared(size_t bytes, int device = 0) { return allocate(bytes, device); }
  virtual void releaseShared(void *memory, size_t bytes) { release(memory, bytes); }
  /// Zeroed memory of the host that running grids of all devices write, at the same address; asked
  /// for through one of them. Stays for the life of the process.
  virtual void *allocateHost(size_t bytes, int device = 0) { return allocate(bytes, device); }
  /// Zeroed memory of a device that other devices of this process (`reach`) and other processes
  /// (`exportMemory`) can use, aligned to 4096 bytes.
  virtual void *allocateReachable(size_t bytes, int device);
  /// Why grids of `device` cannot use memory of the device `owner`, "" when they can.
  virtual std::string unreachable(int device, int owner) const;
  /// The allocation that has the address, whoever made it; 0 bytes: none of this driver's devices.
  virtual Allocation allocationAt(const void *) { return {}; }
  /// Grids of another device of this process, too, may use the allocation that has the address, at the
  /// same address. A TargetError when they cannot.
  virtual void reach(void *memory, int device);
  /// Of an allocation, given by its begin; the descriptor belongs to the caller. A TargetError when
  /// the driver does not share it with other processes.
  virtual ExportedMemory exportMemory(void *memory);
  /// Maps another process's allocations, one behind the other, for grids of `device`, until `release`;
  /// descriptors stay the caller's. A TargetError when they cannot reach them.
  virtual void *importMemory(std::span<const ExportedMemory> pieces, int device);
  /// While memory is held, what is released stays with the driver for later allocations, and small
  /// allocations come from a reserve: giving memory back, and asking for more, may wait for every
  /// grid that runs, also for one that waits for a later launch of the caller. Calls nest.
  virtual void holdMemory(int) {}
  virtual void letGoMemory(int) {}
  /// Zeroes memory of a device; done on return.
  virtual void clear(void *memory, size_t bytes) = 0;
  /// Between any two places of the host and of devices; done on return.
  virtual void copy(void *destination, const void *source, size_t bytes) = 0;

  /// `inOrder`: its work follows what the device's default stream was given before, and comes before
  /// what that is given later; such streams wait for each other through it.
  virtual Stream createStream(int device, bool inOrder = false) = 0;
  virtual void destroyStream(int device, Stream stream) = 0;
  /// In the order of the stream. Host memory must stay as it is until the copy is done.
  virtual void copyAsync(void *destination, const void *source, size_t bytes, int device,
                         Stream stream) = 0;
  virtual void fillAsync(void *memory, uint8_t byte, size_t bytes, int device, Stream stream) = 0;
  virtual void synchronize(int device, Stream stream) = 0;
  /// Whether the stream has nothing left to do.
  virtual bool isIdle(int device, Stream stream) = 0;
  /// All streams.
  virtual void synchronizeDevice(int device) = 0;
  /// Not 0 while the stream's work is recorded for later replay, when nothing may wait for it; a
  /// number of its own for each recording.
  virtual uint64_t recordingOf(int device, Stream stream) = 0;
  /// From here on the stream's work is recorded, not run. Not of the device's default stream.
  virtual void beginRecording(int device, Stream stream);
  virtual Recording endRecording(int device, Stream stream);
  virtual void replay(Recording recording, int device, Stream stream);
  virtual void destroyRecording(int device, Recording recording);

  /// `timed`: for milliseconds().
  virtual Event createEvent(int device, bool timed = true) = 0;
  virtual void destroyEvent(int device, Event event) = 0;
  virtual void record(Event event, int device, Stream stream) = 0;
  /// Later work of the stream starts after the event.
  virtual void waitFor(Event event, int device, Stream stream) = 0;
  /// Both must be done.
  virtual double milliseconds(Event begin, Event end) = 0;

  /// Of a device that loads code and is free to run a small kernel; nothing is read when it is not.
  virtual ClockReading readClock(int device);

  /// Runs all instances of `num_programs`, x fastest; returns when they have finished.
  virtual void run(const GridRun &grid);

  /// The entry `name` of what the device's target emits, assembly text or machine code. Lives as
  /// long as the process when the caller lets it.
  virtual LoadedKernel *load(int device, std::string_view code, const std::string &name,
                             const KernelShape &shape);
  virtual void unload(LoadedKernel *kernel);
  /// Program instances of the kernel that the device holds at a time.
  virtual int64_t residentInstances(const LoadedKernel &kernel);
  /// Returns before the grid has run.
  virtual void launch(const DeviceLaunch &launch);
  /// "", or why this tensor can have no map.
  virtual std::string encodeTensorMap(const TensorMapShape &shape, TensorMap &map);

private:
  [[noreturn]] void refuse(const char *what) const;
};

/// All drivers that this build contains, available or not.
std::vector<Driver *> drivers();

/// A ConfigError names the nearest driver when there is none of that name, a TargetError says
/// why it cannot be used here.
Driver &driver(std::string_view name);

/// A device in the numbering of the public interface: 0 is the host, then come the devices of
/// the drivers that load code, in the order of drivers().
struct DeviceRef {
  Driver *driver = nullptr;
  int device = 0;
  bool operator==(const DeviceRef &) const = default;
};
/// A LaunchError when there is no device of that number.
DeviceRef deviceNumber(int32_t number);
int32_t numberOf(const Driver &driver, int device);
/// Of "cpu", "cuda" or "cuda:1"; a ConfigError when it is no such text, a TargetError when the
/// driver cannot be used.
int32_t deviceNumberNamed(std::string_view text);
/// The number of the device whose memory is at the address; 0 when it is none's.
int32_t deviceNumberOf(const void *address);

} // namespace tilery::rt::hal
