// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Launches on devices that load code: checks, parameters, the call of the driver. No allocation
// once a kernel has been launched in the same way.
#include "runtime/base/knobs.h"
#include "runtime/launch/device_failures.h"
#include "runtime/launch/device_kernel.h"
#include "runtime/launch/launch.h"
#include "runtime/launch/launch_turn.h"
#include "runtime/world/placement.h"

#include <optional>

namespace tilery::rt {

static void checkCluster(const DeviceKernel &kernel, const Grid &grid) {
  auto [x, y, z] = kernel.code.shape.cluster;
  if (grid.x % x == 0 && grid.y % y == 0 && grid.z % z == 0)
    return;
  raise(TILERY_LAUNCH_ERROR,
        "grid ({}, {}, {}) of kernel '{}' is no multiple of its clusters of ({}, {}, {}) program "
        "instances\nhint: launch more instances and mask, or take num_ctas=1",
        grid.x, grid.y, grid.z, kernel.image.name, x, y, z);
}

static void checkHeap(const World &world, const DeviceKernel &kernel) {
  hal::DeviceRef heap = world.device();
  if (heap == kernel.where)
    return;
  raise(TILERY_LAUNCH_ERROR,
        "kernel '{}' runs on {}, where its arguments are, but the symmetric heap of {} is in the "
        "memory of {}\nhint: {}",
        kernel.image.name, deviceText(kernel.where), world.rankText(), deviceText(heap),
        heap.driver ? fmt::format("make the arguments on device=\"{}:{}\"", heap.driver->name(),
                                  heap.device)
                    : fmt::format("make the world with device=\"{}\"", kernel.where.driver->name()));
}

// language.md section 4, rule 6. Ranks on one device run the same kernel at the same time.
static void checkResident(const World *world, DeviceKernel &kernel, const Grid &grid) {
  int64_t ranks = world && kernel.image.communicates ? world->ranksOnDevice() : 1;
  int64_t available = kernel.residentInstances() / ranks;
  if (world && world->domain->options.residency > 0)
    available = std::min(available, world->domain->options.residency);
  double wanted = double(grid.x) * double(grid.y) * double(grid.z);
  if (wanted <= double(available))
    return;
  raise(TILERY_LAUNCH_ERROR,
        "kernel '{}' needs {} x {} x {} = {} program instances resident at a time, because they "
        "wait for each other; {} has room for {}{}\nhint: launch at most {} and let each loop "
        "over its tiles",
        kernel.image.name, grid.x, grid.y, grid.z, wanted,
        kernel.where.driver->properties(kernel.where.device).name, available,
        ranks > 1 ? fmt::format(" on each of {} ranks", ranks) : "", available);
}

static void checkLaunch(World *world, DeviceKernel &kernel, const Grid &grid) {
  checkCluster(kernel, grid);
  if (kernel.image.communicates)
    checkHeap(*world, kernel);
  if (kernel.image.suspends)
    checkResident(world, kernel, grid);
  if (kernel.image.communicates && world->size() > 1 && knobs().check) {
    int64_t extents[3] = {grid.x, grid.y, grid.z};
    world->agreeOnLaunch(kernel.image.name, extents);
  }
}

namespace {
/// The addresses of a launch's parameters, in the order of gpu_abi.h.
struct Parameters {
  static constexpr size_t MaxArguments = 128;
  Parameters(const uint64_t *arguments, size_t count, hal::TensorMap *maps, size_t mapCount,
             void **context) {
    size_t at = 0;
    for (size_t i = 0; i < count; ++i)
      addresses[at++] = const_cast<uint64_t *>(arguments + i);
    for (size_t i = 0; i < mapCount; ++i)
      addresses[at++] = maps + i;
    addresses[at] = context;
  }
  void *addresses[MaxArguments + DeviceKernel::MaxMaps + 1];
};
} // namespace

static void checkAtOnce(World *world, DeviceKernel &kernel, hal::Stream stream,
                        const DeviceKernel::Binding &binding) {
  hal::Driver &driver = *kernel.where.driver;
  if (driver.recordingOf(kernel.where.device, stream))
    return;
  if (world && stream == world->deviceStream())
    world->awaitLaunches();
  else
    driver.synchronize(kernel.where.device, stream);
  if (binding.record && hasFailed(*binding.record))
    raiseFailure(world, *binding.record);
}

// Copies first: should streams share a hardware queue, they must not come behind a grid that waits
// for what they bring.
static void launchBeside(World &world, const hal::DeviceLaunch &launch, Transfers transfers) {
  SideStreams::Fork fork(*world.domain->sideStreams[size_t(world.seat())], launch.stream);
  try {
    enqueueTransfers(world, transfers, launch.stream, fork);
    world.device().driver->launch(launch);
  } catch (...) {
    fork.join();
    throw;
  }
  fork.join();
}

void launchOnDevice(World *world, const KernelImage &image, const Grid &grid,
                    const uint64_t *arguments, const LaunchOptions &options) {
  DeviceKernel &kernel = *image.device;
  size_t count = image.parameters.size() + image.extents.size() + image.peers.size();
  if (count > Parameters::MaxArguments)
    raise(TILERY_LAUNCH_ERROR, "kernel '{}' has {} run-time arguments, at most {} are possible",
          image.name, count, Parameters::MaxArguments);
  checkLaunch(world, kernel, grid);
  checkNextRecord(world);
  double timeout = options.timeoutSeconds >= 0 ? options.timeoutSeconds
                   : world                     ? world->timeoutSeconds()
                                               : knobs().timeoutSeconds;
  hal::Stream stream = options.stream ? options.stream : world ? world->deviceStream() : nullptr;
  bool fresh;
  const DeviceKernel::Binding &binding =
      kernel.bind(world, timeout, stream, grid.x * grid.y * grid.z, fresh);
  if (binding.record && hasFailed(*binding.record)) [[unlikely]]
    raiseFailure(world, *binding.record);
  hal::TensorMap maps[DeviceKernel::MaxMaps];
  kernel.fillMaps(arguments, maps);
  void *context = binding.context;
  Parameters parameters(arguments, count, maps, kernel.code.maps.size(), &context);
  kernel.lastTimeout.store(timeout, std::memory_order_relaxed);
  bool waits = image.suspends && image.communicates;
  std::optional<LaunchTurn> turn;
  if (world && world->gate && image.communicates)
    turn.emplace(*world, waits, fresh);
  if (world && world->domain->gridsMeet())
    world->noteLaunch(image.name, waits, timeout);
  hal::DeviceLaunch launch{kernel.loaded,
                           {uint32_t(grid.x), uint32_t(grid.y), uint32_t(grid.z)},
                           parameters.addresses,
                           stream};
  if (options.transfers.empty())
    kernel.where.driver->launch(launch);
  else
    launchBeside(*world, launch, options.transfers);
  turn.reset();
  if (knobs().check)
    checkAtOnce(world, kernel, stream, binding);
}

void synchronize(World *world, int32_t number) {
  if (world && world->deviceStream()) {
    world->awaitLaunches();
  } else {
    std::vector<hal::DeviceRef> devices = DeviceKernel::devicesInUse();
    if (number != 0)
      devices = {hal::deviceNumber(number)};
    for (auto [driver, device] : devices)
      driver->synchronizeDevice(device);
  }
  checkAllRecords(world);
}

} // namespace tilery::rt
