// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Failure records of grids that run on devices (tilery_gpu_failure): in host memory that devices
// write, one for each kernel and world (or team) that may fail, kept for the life of the process because a
// recorded graph may run the kernel at any time.
#pragma once

#include "runtime/hal/driver.h"
#include "runtime/launch/kernel_image.h"
#include "tilery/gpu_abi.h"

#include <string>
#include <vector>

namespace tilery::rt {

class World;
class DeviceKernel;

/// Whose launches write a record.
struct RecordOwner {
  const DeviceKernel *kernel = nullptr;
  /// Of the world; null: launches without one.
  const void *domain = nullptr;
  /// "" of the whole world, which counts ranks as its domain does.
  std::string team;
  /// Number in the domain of each rank.
  std::vector<int> seats;
};

struct LaunchRecord {
  /// Zeroed memory that the device can write.
  tilery_gpu_failure *failure = nullptr;
  RecordOwner owner;
};

LaunchRecord &makeLaunchRecord(hal::DeviceRef where, RecordOwner owner);

inline bool hasFailed(const LaunchRecord &record) {
  // acquire: pairs with the system-scope release of the failing instance.
  return __atomic_load_n(&record.failure->kind, __ATOMIC_ACQUIRE) != TILERY_GPU_OK;
}

/// Raises what a grid has reported; waits for the device first, and leaves the record as new. In a
/// world of several ranks the failure is that of the world.
void raiseFailure(World *world, LaunchRecord &record);

/// Looks at one record of this world or of none, in turn: launches find late failures of other
/// kernels. Cheap.
void checkNextRecord(World *world);
/// Looks at all records of this world and of none.
void checkAllRecords(World *world);

/// Makes sure that the next records need no memory of the driver.
void prepareRecords(hal::DeviceRef where);
/// The world has failed: ends the waits of its grids.
void endWaits(const void *domain);
/// The world is gone.
void forgetFailures(const void *domain);

/// Before a rank leaves a world on a device: waits for its grids and raises what failed in them.
/// After a failure of the world it only waits.
void leaveDevice(World &world);

} // namespace tilery::rt
