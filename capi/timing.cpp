// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Times on devices: points in the stream that a thread's launches take.
#include "capi/device.h"
#include "capi/error.h"
#include "runtime/hal/driver.h"

using namespace tilery;
using namespace tilery::capi;
using rt::hal::DeviceRef;

struct tilery_event {
  DeviceRef where;
  rt::hal::Event event = nullptr;
};

extern "C" {

tilery_status tilery_event_create(int32_t device, tilery_event **event) {
  return guarded([&] {
    DeviceRef where = rt::hal::deviceNumber(device);
    require(event, "the result") =
        new tilery_event{where, where.driver->createEvent(where.device, /*timed=*/true)};
  });
}

tilery_status tilery_event_record(tilery_event *event, tilery_world *world) {
  return guarded([&] {
    auto &[where, recorded] = require(event, "the event");
    where.driver->record(recorded, where.device, launchStream(world));
  });
}

tilery_status tilery_event_elapsed(tilery_event *begin, tilery_event *end, double *microseconds) {
  return guarded([&] {
    tilery_event &first = require(begin, "the first event"), &last = require(end, "the last event");
    require(microseconds, "the result") =
        first.where.driver->milliseconds(first.event, last.event) * 1e3;
  });
}

void tilery_event_destroy(tilery_event *event) {
  if (event)
    guarded([&] { event->where.driver->destroyEvent(event->where.device, event->event); });
  delete event;
}

tilery_status tilery_stream_is_recorded(tilery_world *world, int32_t device, int32_t *recorded) {
  return guarded([&] {
    DeviceRef where = rt::hal::deviceNumber(device);
    bool records = !where.driver->runsInProcess() &&
                   where.driver->recordingOf(where.device, launchStream(world)) != 0;
    require(recorded, "the result") = records;
  });
}

} // extern "C"
