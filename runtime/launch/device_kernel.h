// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// A compiled kernel loaded on one device, with what its launches share: tensor maps, contexts and
// failure records (gpu_abi.h). Lives as long as the process, since recorded graphs may run it.
#pragma once

#include "runtime/hal/driver.h"
#include "runtime/launch/device_failures.h"
#include "runtime/launch/kernel_image.h"
#include "runtime/launch/tensor_maps.h"
#include "tilery/gpu_abi.h"

#include <atomic>
#include <deque>
#include <mutex>

namespace tilery::rt {

class World;

/// What the compiler says of the kernel beside its code.
struct DeviceCode {
  hal::KernelShape shape;
  std::vector<TensorMapPlan> maps;
  std::vector<std::string> messages;
  bool canFail = false;
  /// Writes events (tilery_gpu_event).
  bool timeline = false;
};

class DeviceKernel {
public:
  /// Loads what the target emitted; belongs to the process.
  static DeviceKernel &load(hal::DeviceRef where, const KernelImage &image, DeviceCode code,
                            std::string_view text);

  static constexpr size_t MaxMaps = 16;
  void fillMaps(const uint64_t *arguments, hal::TensorMap *maps);

  /// What launches of one world with one time limit, on one stream or in one recording when there
  /// is scratch memory, have in common.
  struct Binding {
    uint64_t world = 0; // serial number, 0: none
    double timeoutSeconds = 0;
    hal::Stream stream = nullptr;
    uint64_t recording = 0; ///< which may be replayed beside launches in the stream, 0: none
    int64_t scratchBytes = 0;
    void *context = nullptr; // on the device
    LaunchRecord *record = nullptr; // null: the kernel cannot fail
  };
  /// `fresh`: set to whether no launch has been like this one.
  const Binding &bind(World *world, double timeoutSeconds, hal::Stream stream, int64_t instances,
                      bool &fresh);

  int64_t residentInstances();
  /// Devices on which kernels were loaded.
  static std::vector<hal::DeviceRef> devicesInUse();

  const hal::DeviceRef where;
  /// A copy: the caller's lives only as long as its function.
  const KernelImage image;
  const DeviceCode code;
  hal::LoadedKernel *const loaded;
  std::atomic<double> lastTimeout = 0;

private:
  DeviceKernel(hal::DeviceRef where, const KernelImage &image, DeviceCode code,
               hal::LoadedKernel *loaded);
  void makeContext(Binding &binding, World *world);
  LaunchRecord &recordFor(const World *world);

  std::deque<TensorMapCache> maps;
  std::atomic<int64_t> resident = -1;
  std::mutex mutex;
  std::deque<Binding> bindings;
  std::vector<LaunchRecord *> records; // of each world and team
};

/// Memory of the device for what launches read, for the life of the process; from a reserve, since
/// asking the driver may wait for grids.
void *takeLaunchMemory(hal::DeviceRef where, size_t bytes);

/// Makes sure that the first launches of a new world need no memory of the driver.
void prepareLaunches(hal::DeviceRef where);

struct Grid;
struct LaunchOptions;

/// launchKernel for a kernel with `image.device`; returns when the grid is in the stream.
void launchOnDevice(World *world, const KernelImage &image, const Grid &grid,
                    const uint64_t *arguments, const LaunchOptions &options);

/// Waits for this rank's stream in a world on a device, else for the device of that number (0: for
/// all on which kernels were loaded), then raises what has failed.
void synchronize(World *world, int32_t deviceNumber);

} // namespace tilery::rt
