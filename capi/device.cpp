// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Devices of the C interface: what there is, memory, waiting.
#include "capi/device.h"
#include "capi/error.h"
#include "capi/world.h"
#include "runtime/hal/driver.h"
#include "runtime/launch/device_kernel.h"
#include "runtime/launch/device_workspace.h"

#include <optional>

using namespace tilery;
using namespace tilery::capi;
using rt::hal::DeviceRef;

static thread_local void *usedStream = nullptr;

void *capi::threadStream() { return usedStream; }

void *capi::launchStream(tilery_world *world) {
  return usedStream || !world ? usedStream : WorldUse(*world).get()->deviceStream();
}

static int32_t countDevices() {
  int32_t count = 0;
  for (rt::hal::Driver *driver : rt::hal::drivers())
    if (!driver->runsInProcess() && driver->unavailable().empty())
      count += driver->deviceCount();
  return count;
}

extern "C" {

int32_t tilery_device_count(void) {
  int32_t count = 0;
  guarded([&] { count = countDevices(); });
  return count;
}

tilery_status tilery_device_named(const char *name, int32_t *device) {
  return guarded([&] {
    require(device, "the result") = rt::hal::deviceNumberNamed(&require(name, "the name"));
  });
}

tilery_status tilery_device_describe(int32_t device, tilery_device_properties *properties) {
  return guarded([&] {
    DeviceRef where = rt::hal::deviceNumber(device);
    const rt::hal::DeviceProperties &known = where.driver->properties(where.device);
    require(properties, "the result") = {
        known.name.c_str(), known.target.c_str(), known.processors,
        known.assemblyVersion, known.memoryBytes, known.sharedBytes};
  });
}

int32_t tilery_device_of(const void *address) {
  int32_t device = 0;
  guarded([&] { device = rt::hal::deviceNumberOf(address); });
  return device;
}

tilery_status tilery_device_allocate(int32_t device, size_t bytes, void **pointer) {
  return guarded([&] {
    DeviceRef where = rt::hal::deviceNumber(device);
    require(pointer, "the result") = where.driver->allocate(bytes, where.device);
  });
}

tilery_status tilery_device_release(int32_t device, void *pointer, size_t bytes) {
  return guarded([&] { rt::hal::deviceNumber(device).driver->release(pointer, bytes); });
}

tilery_status tilery_device_copy(void *destination, const void *source, size_t bytes) {
  return guarded([&] {
    int32_t device = std::max(rt::hal::deviceNumberOf(destination), rt::hal::deviceNumberOf(source));
    rt::hal::deviceNumber(device).driver->copy(destination, source, bytes);
  });
}

tilery_status tilery_device_workspace(tilery_world *world, int32_t device, size_t bytes,
                                      void **pointer) {
  return guarded([&] {
    std::optional<WorldUse> use;
    if (world)
      use.emplace(*world);
    DeviceRef where = rt::hal::deviceNumber(device);
    void *stream = usedStream ? usedStream : use ? use->get()->deviceStream() : nullptr;
    if (where.driver->runsInProcess())
      stream = &usedStream; // threads launch beside each other, and each waits for its own
    require(pointer, "the result") = rt::deviceWorkspace(where, stream, bytes);
  });
}

void tilery_stream_use(void *stream) { usedStream = stream; }

tilery_status tilery_synchronize(tilery_world *world, int32_t device) {
  return guarded([&] {
    std::optional<WorldUse> use;
    if (world)
      use.emplace(*world);
    rt::World *ranks = use ? use->get() : nullptr;
    rt::synchronize(ranks, device);
  });
}

} // extern "C"
