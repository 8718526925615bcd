// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Checks a launch and runs it: as a plain loop when no instance can suspend, else on fibers.
#include "runtime/launch/launch.h"

#include "runtime/base/knobs.h"
#include "runtime/hal/driver.h"
#include "runtime/launch/device_kernel.h"
#include "runtime/launch/fiber_loop.h"
#include "runtime/world/group.h"
#include "runtime/world/idle_wait.h"

#include <limits>

namespace tilery::rt {

static constexpr int64_t MaxX = std::numeric_limits<int32_t>::max();
static constexpr int64_t MaxYZ = 65535;

static void checkExtent(const KernelImage &image, const char *axis, int64_t extent, int64_t limit) {
  if (extent < 0 || extent > limit)
    raise(TILERY_LAUNCH_ERROR, "grid of kernel '{}' has extent {} in {}, it must be 0 to {}",
          image.name, extent, axis, limit);
}

static void checkGrid(const KernelImage &image, const Grid &grid) {
  checkExtent(image, "x", grid.x, MaxX);
  checkExtent(image, "y", grid.y, MaxYZ);
  checkExtent(image, "z", grid.z, MaxYZ);
}

static int64_t residency(const World &world) {
  int64_t limit = world.domain->options.residency;
  return limit > 0 ? std::min(limit, MaxResidentInstances) : MaxResidentInstances;
}

// language.md section 4, rule 6.
static void checkResidency(const World &world, const KernelImage &image, const Grid &grid) {
  int64_t available = residency(world);
  int64_t plane = grid.x * grid.y;
  // plane * z may overflow only when plane alone is too much.
  if (plane <= available && plane * grid.z <= available)
    return;
  raise(TILERY_LAUNCH_ERROR,
        "kernel '{}' needs {} x {} x {} = {} program instances resident at a time, because they "
        "wait for each other; {} has room for {}\nhint: launch at most {} and let each loop "
        "over its tiles, or give the world a larger residency",
        image.name, grid.x, grid.y, grid.z, double(plane) * double(grid.z), world.rankText(), available,
        available);
}

// Instances that wait need a scheduler, with or without a world.
static World &privateWorld() {
  static thread_local std::unique_ptr<World> world;
  if (world && !world->domain->failed())
    return *world;
  WorldOptions options;
  options.heapBytes = 4096;
  world = makeSingleWorld(options);
  return *world;
}

static void tracedEntry(tilery_instance *abi, const uint64_t *) {
  Instance &self = instanceOf(abi);
  const int32_t *id = abi->program_id, *extent = abi->num_programs;
  self.index = (int64_t(id[2]) * extent[1] + id[1]) * extent[0] + id[0];
  self.runPlain();
}

namespace {
/// What ends a plain run between its program instances.
struct Stop {
  LaunchContext &launch;
  InterruptPoll interrupted;
  bool worldFailed = false;

  static bool asked(void *context) {
    Stop &self = *static_cast<Stop *>(context);
    const World *world = self.launch.world;
    self.worldFailed = world && world->domain->failed();
    if (!self.worldFailed && self.interrupted())
      self.launch.error = InterruptPoll::error();
    return self.worldFailed || self.launch.error;
  }
};
} // namespace

/// False when the world has failed meanwhile.
static bool runPlain(LaunchContext &launch) {
  static hal::Driver &driver = hal::driver("cpu");
  static thread_local Instance instance;
  instance.begin(launch, 0);
  Stop stop{launch, {}};
  if (_setjmp(launch.escape) == 0)
    driver.run({launch.traced ? tracedEntry : launch.image.entry, launch.arguments, &instance.abi,
                Stop::asked, &stop});
  return !stop.worldFailed;
}

static bool runScheduled(LaunchContext &launch, InstanceSet &instances) {
  SeededScheduler *scheduler = launch.world->domain->scheduler.get();
  if (!scheduler)
    return runFibers(launch, instances);
  launch.kernelName = std::make_shared<const std::string>(launch.image.name);
  return scheduler->run(launch.seat(), instances);
}

static bool runOnFibers(LaunchContext &launch) {
  InstanceSet instances(launch, residency(*launch.world));
  bool worldGood = runScheduled(launch, instances);
  if (!worldGood)
    launch.waits = instances.describeWaits();
  return worldGood;
}

static void traceLaunch(LaunchContext &launch, int64_t beginNs) {
  Trace &trace = launch.world->trace;
  int64_t endNs = nowNs();
  TraceSummary &sum = trace.summary;
  int64_t instances = int64_t(launch.grid[0]) * launch.grid[1] * launch.grid[2];
  trace.record({TraceKind::Launch, 0, launch.traceName, -1, beginNs, endNs, instances});
  sum.launches++;
  sum.launchNs += endNs - beginNs;
  sum.exposedWaitNs += std::max<int64_t>(0, endNs - beginNs - launch.runningNs);
  sum.computeNs += launch.runningNs;
}

static void finish(LaunchContext &launch, bool worldGood) {
  World *world = launch.world;
  if (launch.error) {
    bool othersDepend = world && world->size() > 1 && launch.image.communicates;
    if (othersDepend)
      world->failWith(*launch.error);
    throw *launch.error;
  }
  if (worldGood)
    return;
  std::string ran = fmt::format("{} ran kernel '{}'", launch.rankText(), launch.image.name);
  world->domain->raiseFailure(launch.seat(), launch.waits.empty() ? ran : launch.waits);
}

static void run(LaunchContext &launch, bool fibers) {
  World *world = launch.world;
  SharedText *activity =
      launch.image.communicates ? &world->domain->control.rank(world->seat()).activity : nullptr;
  if (activity)
    activity->set(fmt::format("runs kernel '{}'", launch.image.name));
  int64_t beginNs = launch.traced ? nowNs() : 0;
  bool worldGood = true;
  if (fibers) {
    worldGood = runOnFibers(launch);
  } else {
    for (const tilery_transfer &transfer : launch.transfers)
      makeTransfer(*world, transfer);
    worldGood = runPlain(launch);
  }
  if (launch.traced)
    traceLaunch(launch, beginNs);
  if (activity)
    activity->set(fmt::format("has finished kernel '{}'", launch.image.name));
  finish(launch, worldGood);
}

static int32_t deviceOf(const KernelImage &image) {
  if (!image.device)
    return 0;
  auto [driver, device] = image.device->where;
  return hal::numberOf(*driver, device);
}

void launchKernel(World *world, const KernelImage &image, const Grid &grid,
                  const uint64_t *arguments, const LaunchOptions &options) {
  checkGrid(image, grid);
  if (image.communicates && !world)
    raise(TILERY_LAUNCH_ERROR,
          "kernel '{}' uses ranks, symmetric memory or signals and needs a world\nhint: call "
          "tilery.init() or tilery_world_init first",
          image.name);
  if (world)
    world->requireUsable();
  if (!options.transfers.empty())
    checkTransfers(world, deviceOf(image), options.transfers);
  if (image.device) {
    if (grid.x != 0 && grid.y != 0 && grid.z != 0)
      launchOnDevice(world, image, grid, arguments, options);
    return;
  }
  bool seeded = world && world->domain->scheduler;
  bool fibers = image.suspends || (seeded && (image.communicates || !options.transfers.empty()));
  if (fibers && !world)
    world = &privateWorld();
  if (image.suspends)
    checkResidency(*world, image, grid);
  if (image.communicates && world->size() > 1 && knobs().check) {
    int64_t extents[3] = {grid.x, grid.y, grid.z};
    world->agreeOnLaunch(image.name, extents);
  }
  if (grid.x == 0 || grid.y == 0 || grid.z == 0)
    return;
  LaunchContext launch{
      .world = world, .image = image, .arguments = arguments, .transfers = options.transfers};
  launch.grid[0] = int32_t(grid.x);
  launch.grid[1] = int32_t(grid.y);
  launch.grid[2] = int32_t(grid.z);
  bool ownTimeout = options.timeoutSeconds >= 0 || !world;
  launch.timeoutSeconds = ownTimeout ? options.timeoutSeconds : world->timeoutSeconds();
  launch.routed = seeded && fibers && world->domain->options.delay;
  launch.traced = world && world->trace.on();
  if (launch.traced)
    launch.traceName = world->trace.intern(image.name);
  run(launch, fibers);
}

} // namespace tilery::rt
