// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Loads kernels on devices and makes the contexts that their launches pass.
#include "runtime/launch/device_kernel.h"

#include "runtime/launch/report.h"
#include "runtime/world/world.h"

#include <cstring>
#include <map>

namespace tilery::rt {

DeviceKernel::DeviceKernel(hal::DeviceRef where, const KernelImage &image, DeviceCode given,
                           hal::LoadedKernel *loaded)
    : where(where), image(image), code(std::move(given)), loaded(loaded) {
  for (const TensorMapPlan &plan : code.maps)
    maps.emplace_back(plan);
}

namespace {
struct UsedDevices {
  std::mutex mutex;
  std::vector<hal::DeviceRef> devices;
};
UsedDevices &used() {
  static UsedDevices all;
  return all;
}
} // namespace

static void noteUse(hal::DeviceRef where) {
  std::lock_guard lock(used().mutex);
  for (const hal::DeviceRef &known : used().devices)
    if (known.driver == where.driver && known.device == where.device)
      return;
  used().devices.push_back(where);
}

DeviceKernel &DeviceKernel::load(hal::DeviceRef where, const KernelImage &image, DeviceCode code,
                                 std::string_view text) {
  if (code.maps.size() > MaxMaps)
    raise(TILERY_INTERNAL_ERROR, "kernel '{}' needs {} tensor maps, at most {} are possible; this "
                                 "is a bug in tilery",
          image.name, code.maps.size(), MaxMaps);
  hal::LoadedKernel *loaded =
      where.driver->load(where.device, text, image.name, code.shape);
  noteUse(where);
  return *new DeviceKernel(where, image, std::move(code), loaded);
}

std::vector<hal::DeviceRef> DeviceKernel::devicesInUse() {
  std::lock_guard lock(used().mutex);
  return used().devices;
}

void DeviceKernel::fillMaps(const uint64_t *arguments, hal::TensorMap *filled) {
  for (TensorMapCache &map : maps)
    map.fill(*where.driver, image, arguments, *filled++);
}

int64_t DeviceKernel::residentInstances() {
  int64_t known = resident.load(std::memory_order_relaxed);
  if (known < 0) {
    known = where.driver->residentInstances(*loaded);
    resident = known;
  }
  return known;
}

// All ranks of a world share the record: a failure of one ends the waits of the others' grids.
LaunchRecord &DeviceKernel::recordFor(const World *world) {
  RecordOwner owner{this, nullptr, "", {}};
  if (world)
    owner = {this, world->domain.get(), world->teamLabel(), world->seats()};
  for (LaunchRecord *record : records)
    if (record->owner.domain == owner.domain && record->owner.team == owner.team &&
        record->owner.seats == owner.seats)
      return *record;
  return *records.emplace_back(&makeLaunchRecord(where, std::move(owner)));
}

// Of the whole world; the ranks of a team have one axis.
static std::vector<int> meshOf(const World &world) {
  return world.whole() ? world.domain->options.mesh : std::vector<int>{world.size()};
}

namespace {
/// A context and what it points to, as it lies in the device's memory.
struct ContextImage {
  static constexpr size_t PeersAt = 128;

  explicit ContextImage(const World *world) {
    size_t ranks = world ? size_t(world->size()) : 1;
    size_t axes = world ? meshOf(*world).size() : 0;
    meshAt = PeersAt + ranks * sizeof(uint64_t);
    bytes.resize(meshAt + (1 + 2 * axes) * sizeof(int32_t));
  }
  void put(size_t at, const void *value, size_t size) { std::memcpy(bytes.data() + at, value, size); }

  std::vector<char> bytes;
  size_t meshAt = 0;
};
} // namespace

static void putWorld(ContextImage &image, tilery_gpu_context &context, const World &world) {
  context.rank = world.rank();
  context.num_ranks = world.size();
  for (int rank = 0; rank < world.size(); ++rank) {
    auto base = reinterpret_cast<uint64_t>(world.domain->heaps[size_t(world.seat(rank))].data());
    image.put(ContextImage::PeersAt + size_t(rank) * sizeof base, &base, sizeof base);
    if (rank == world.rank())
      context.heap_base = base;
  }
  int32_t axes = int32_t(meshOf(world).size());
  image.put(image.meshAt, &axes, sizeof axes);
  for (int32_t axis = 0; axis < axes; ++axis) {
    int32_t pair[2] = {world.axisRank(axis), world.axisSize(axis)};
    image.put(image.meshAt + sizeof axes + size_t(axis) * sizeof pair, pair, sizeof pair);
  }
}

// Contexts come from larger pieces of memory: while grids of other ranks wait for this one, asking
// the driver for memory might wait for them.
namespace {
class Slabs {
public:
  char *carve(hal::DeviceRef where, size_t bytes) {
    constexpr size_t Alignment = 128;
    size_t whole = (bytes + Alignment - 1) / Alignment * Alignment;
    std::lock_guard lock(mutex);
    Slab &slab = withRoom(where, whole);
    slab.used += whole;
    return slab.memory + slab.used - whole;
  }
  void reserve(hal::DeviceRef where) {
    std::lock_guard lock(mutex);
    withRoom(where, SlabBytes / 2);
  }

private:
  static constexpr size_t SlabBytes = 1 << 20;
  struct Slab {
    char *memory = nullptr;
    size_t used = SlabBytes;
  };
  Slab &withRoom(hal::DeviceRef where, size_t bytes) {
    Slab &slab = slabs[{where.driver, where.device}];
    if (slab.used + bytes > SlabBytes) {
      slab.memory =
          static_cast<char *>(where.driver->allocate(std::max(SlabBytes, bytes), where.device));
      slab.used = 0;
    }
    return slab;
  }

  std::mutex mutex;
  std::map<std::pair<hal::Driver *, int>, Slab> slabs;
};
Slabs &slabs() {
  static Slabs &all = *new Slabs; // contexts live as long as the process
  return all;
}
} // namespace

void *takeLaunchMemory(hal::DeviceRef where, size_t bytes) { return slabs().carve(where, bytes); }

void prepareLaunches(hal::DeviceRef where) {
  slabs().reserve(where);
  prepareRecords(where);
}

static TracedKernel tracedKernel(const KernelImage &image, const World &world) {
  TracedKernel traced{image.name, {}, world.seats()};
  for (const SourceSite &site : image.sites)
    traced.places.push_back({placeText(site), signalText(site)});
  return traced;
}

void DeviceKernel::makeContext(Binding &binding, World *world) {
  hal::Driver &driver = *where.driver;
  ContextImage packed(world);
  tilery_gpu_context context = {};
  context.num_ranks = 1;
  // A world whose heap this device cannot reach is none to the kernel, which does not use it.
  if (world && world->domain->onDevice())
    putWorld(packed, context, *world);
  char *memory = slabs().carve(where, packed.bytes.size());
  context.peer_bases = reinterpret_cast<const uint64_t *>(memory + ContextImage::PeersAt);
  context.mesh = reinterpret_cast<const int32_t *>(memory + packed.meshAt);
  context.failure = binding.record ? binding.record->failure : nullptr;
  context.timeout_ns = uint64_t(binding.timeoutSeconds * 1e9);
  context.barrier_epochs = world ? world->deviceBarrierCells() : nullptr;
  if (code.timeline && world) {
    DeviceTimeline &timeline = world->share->timelines.of(where);
    context.trace = timeline.ring();
    context.trace_kernel = timeline.add(tracedKernel(image, *world));
  }
  if (binding.scratchBytes > 0)
    context.scratch = driver.allocate(size_t(binding.scratchBytes), where.device);
  packed.put(0, &context, sizeof context);
  driver.copy(memory, packed.bytes.data(), packed.bytes.size());
  binding.context = memory;
}

const DeviceKernel::Binding &DeviceKernel::bind(World *world, double timeoutSeconds,
                                                hal::Stream stream, int64_t instances,
                                                bool &fresh) {
  uint64_t serial = world ? world->serial : 0;
  int64_t scratch = image.scratchBytes * instances;
  hal::Stream owner = scratch > 0 ? stream : nullptr;
  uint64_t recording = scratch > 0 ? where.driver->recordingOf(where.device, stream) : 0;
  std::lock_guard lock(mutex);
  // The latest first: worlds that have gone leave theirs behind.
  for (size_t i = bindings.size(); i-- > 0;)
    if (const Binding &binding = bindings[i];
        binding.world == serial && binding.timeoutSeconds == timeoutSeconds &&
        binding.stream == owner && binding.recording == recording &&
        binding.scratchBytes >= scratch) {
      fresh = false;
      return binding;
    }
  Binding made{serial, timeoutSeconds, owner, recording, scratch, nullptr, nullptr};
  if (code.canFail)
    made.record = &recordFor(world);
  makeContext(made, world);
  fresh = true;
  return bindings.emplace_back(made);
}

} // namespace tilery::rt
