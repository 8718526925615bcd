// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/trace/device_timeline.h"

#include "runtime/base/error.h"
#include "runtime/trace/device_events.h"

#include <algorithm>
#include <deque>
#include <fmt/format.h>
#include <tuple>
#include <utility>

namespace tilery::rt {

//===-- Rings
//------------------------------------------------------------------------------------------===//

namespace {
/// What timelines of a device are made of. Rings of worlds that have gone serve those that come.
class Supplies {
public:
  void prepare(hal::DeviceRef where, int count) {
    std::lock_guard lock(mutex);
    Shelf &shelf = shelfOf(where);
    for (tilery_gpu_trace *ring : shelf.used)
      where.driver->clear(ring, sizeof *ring);
    shelf.clean.insert(shelf.clean.end(), shelf.used.begin(), shelf.used.end());
    shelf.used.clear();
    while (shelf.clean.size() < size_t(count))
      shelf.clean.push_back(static_cast<tilery_gpu_trace *>(
          where.driver->allocate(sizeof(tilery_gpu_trace), where.device)));
    shelf.reading = where.driver->readClock(where.device);
    if (shelf.reading.errorNs < 0)
      raise(TILERY_LAUNCH_ERROR,
            "{} does not answer within 2 s, so that its clock cannot be compared with the host's\n"
            "hint: it computes for others; record the timeline when it is free",
            where.driver->properties(where.device).name);
  }
  std::pair<tilery_gpu_trace *, hal::ClockReading> take(hal::DeviceRef where) {
    std::lock_guard lock(mutex);
    Shelf &shelf = shelfOf(where);
    if (shelf.clean.empty())
      return {};
    tilery_gpu_trace *ring = shelf.clean.back();
    shelf.clean.pop_back();
    return {ring, shelf.reading};
  }
  void giveBack(hal::DeviceRef where, tilery_gpu_trace *ring) {
    std::lock_guard lock(mutex);
    shelfOf(where).used.push_back(ring);
  }

private:
  struct Shelf {
    hal::DeviceRef where;
    std::vector<tilery_gpu_trace *> clean, used;
    hal::ClockReading reading;
  };
  Shelf &shelfOf(hal::DeviceRef where) {
    for (Shelf &shelf : shelves)
      if (shelf.where == where)
        return shelf;
    return shelves.emplace_back(Shelf{where, {}, {}, {}});
  }

  std::mutex mutex;
  std::deque<Shelf> shelves;
};
Supplies &supplies() {
  static Supplies &all = *new Supplies; // kernels may write as long as the process lives
  return all;
}
} // namespace

void prepareTimelines(hal::DeviceRef where, int count) { supplies().prepare(where, count); }

DeviceTimeline::DeviceTimeline(hal::DeviceRef where) : where(where) {
  std::tie(events, first) = supplies().take(where);
  if (!events) {
    prepareTimelines(where, 1);
    std::tie(events, first) = supplies().take(where);
  }
}

DeviceTimeline::~DeviceTimeline() { supplies().giveBack(where, events); }

uint32_t DeviceTimeline::add(TracedKernel kernel) {
  std::lock_guard lock(mutex);
  kernels.push_back(std::move(kernel));
  return uint32_t(kernels.size() - 1);
}

//===-- To the host's timeline ---------------------------------------------------------------------===//

// Between the readings at both ends, since the clocks do not run equally fast. Quartz keeps within 100 ppm;
// what readings of a short span differ by beyond that is their error.
int64_t DeviceTimeline::onHost(uint64_t deviceNs) const {
  constexpr double MostGained = 2e-4;
  int64_t since = int64_t(deviceNs) - first.deviceNs;
  int64_t deviceSpan = last.deviceNs - first.deviceNs, hostSpan = last.hostNs - first.hostNs;
  double gained = deviceSpan > 0 ? double(hostSpan - deviceSpan) / double(deviceSpan) : 0;
  return first.hostNs + since + int64_t(std::clamp(gained, -MostGained, MostGained) * double(since));
}

static TraceKind kindOf(uint8_t kind) {
  switch (kind) {
  case TILERY_GPU_EVENT_TILE:
    return TraceKind::Tile;
  case TILERY_GPU_EVENT_WAIT:
    return TraceKind::Wait;
  case TILERY_GPU_EVENT_PUT:
    return TraceKind::Put;
  case TILERY_GPU_EVENT_GET:
    return TraceKind::Get;
  case TILERY_GPU_EVENT_NOTIFY:
    return TraceKind::Notify;
  default:
    return TraceKind::Instance;
  }
}

// Behind the rows of the host, in the order of multiprocessors; producers beside whom they copy
// for.
static uint32_t rowOf(Trace &trace, hal::DeviceRef where, const DeviceSpan &span) {
  const tilery_gpu_event &event = span.event;
  std::string name =
      fmt::format("{}:{} SM {}", where.driver->name(), where.device, event.processor);
  if (span.lane > 0)
    name += fmt::format(" ({})", span.lane + 1);
  uint32_t row = uint32_t(where.device + 1) << 20 | uint32_t(event.processor) << 7 |
                 std::min(span.lane, 63u) << 1 | event.producer;
  trace.nameRow(row, event.producer ? name + " copies" : name);
  return row;
}

static void addToSummary(TraceSummary &sum, const TraceEvent &event) {
  int64_t ns = event.endNs - event.beginNs;
  switch (event.kind) {
  case TraceKind::Instance:
    ++sum.instances;
    sum.computeNs += ns;
    break;
  case TraceKind::Wait:
    sum.waitNs += event.producer ? 0 : ns;
    sum.computeNs -= event.producer ? 0 : ns;
    break;
  case TraceKind::Put:
    sum.putBytes += event.amount;
    break;
  case TraceKind::Get:
    sum.getBytes += event.amount;
    break;
  case TraceKind::Notify:
    ++sum.notifies;
    break;
  default:
    break;
  }
  if (event.kind == TraceKind::Put || event.kind == TraceKind::Get) {
    sum.transferNs += ns;
    sum.computeNs -= ns;
  }
}

void DeviceTimeline::give(Trace &trace, const DeviceSpan &span) const {
  const tilery_gpu_event &from = span.event;
  if (from.kernel >= kernels.size())
    return;
  const TracedKernel &kernel = kernels[from.kernel];
  TraceEvent event;
  event.kind = kindOf(from.kind);
  event.row = rowOf(trace, where, span);
  event.kernel = event.name = trace.intern(kernel.name);
  bool placed = from.kind != TILERY_GPU_EVENT_INSTANCE && size_t(from.site) < kernel.places.size();
  if (placed) {
    const TracedKernel::Place &place = kernel.places[size_t(from.site)];
    event.place = trace.intern(place.at);
    if (event.kind == TraceKind::Wait || event.kind == TraceKind::Notify)
      event.name = trace.intern(place.signal);
  }
  if (from.peer >= 0 && size_t(from.peer) < kernel.seats.size())
    event.peer = kernel.seats[size_t(from.peer)];
  event.producer = from.producer;
  event.beginNs = onHost(from.begin_ns);
  event.endNs = onHost(from.end_ns);
  bool numbered = event.kind == TraceKind::Instance || event.kind == TraceKind::Tile;
  event.amount = int64_t(numbered ? from.instance : from.amount);
  addToSummary(trace.summary, event);
  trace.record(event);
}

void DeviceTimeline::collect(Trace &trace) {
  std::lock_guard lock(mutex);
  uint64_t next = 0;
  where.driver->copy(&next, &events->next, sizeof next);
  if (next == collected)
    return;
  std::vector<tilery_gpu_event> copied(TILERY_GPU_TRACE_EVENTS);
  size_t used = size_t(std::min<uint64_t>(next, copied.size()));
  where.driver->copy(copied.data(), events->events, used * sizeof(tilery_gpu_event));
  if (hal::ClockReading reading = where.driver->readClock(where.device); reading.errorNs >= 0)
    last = reading;
  uint64_t lost = next - collected > copied.size() ? next - collected - copied.size() : 0;
  DeviceEvents arranged = arrangeEvents(writtenEvents(copied, collected, next), lost == 0);
  collected = next;
  for (const DeviceSpan &span : arranged.spans)
    give(trace, span);
  TraceSummary &sum = trace.summary;
  for (const DeviceLaunchSpan &launch : arranged.launches) {
    uint32_t name = trace.intern(kernels.at(launch.kernel).name);
    TraceEvent event{TraceKind::Launch, 0, name, -1, onHost(launch.beginNs), onHost(launch.endNs),
                     launch.instances};
    event.kernel = name;
    trace.record(event);
    ++sum.launches;
    sum.launchNs += event.endNs - event.beginNs;
  }
  sum.exposedWaitNs += int64_t(arranged.exposedNs);
  sum.droppedEvents += int64_t(lost);
  trace.noteClock(fmt::format("clock of {}:{} within {:.1f} us", where.driver->name(), where.device,
                              double(std::max(first.errorNs, last.errorNs)) * 1e-3));
}

//===-- Of one rank
//--------------------------------------------------------------------------------------------===//

DeviceTimeline &DeviceTimelines::of(hal::DeviceRef where) {
  std::lock_guard lock(mutex);
  for (const std::unique_ptr<DeviceTimeline> &one : all)
    if (one->where == where)
      return *one;
  return *all.emplace_back(std::make_unique<DeviceTimeline>(where));
}

void DeviceTimelines::synchronize() {
  std::lock_guard lock(mutex);
  for (const std::unique_ptr<DeviceTimeline> &one : all)
    one->where.driver->synchronizeDevice(one->where.device);
}

void DeviceTimelines::collect(Trace &trace) {
  std::lock_guard lock(mutex);
  for (const std::unique_ptr<DeviceTimeline> &one : all)
    one->collect(trace);
}

} // namespace tilery::rt
