// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/trace/device_events.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

namespace tilery::rt {

static bool endsBefore(const tilery_gpu_event &a, const tilery_gpu_event &b) {
  // An instance ends behind what happened in it.
  bool wholeA = a.kind == TILERY_GPU_EVENT_INSTANCE, wholeB = b.kind == TILERY_GPU_EVENT_INSTANCE;
  return std::tuple(a.end_ns, wholeA, a.stamp) < std::tuple(b.end_ns, wholeB, b.stamp);
}

std::vector<tilery_gpu_event> writtenEvents(std::span<const tilery_gpu_event> ring, uint64_t first,
                                            uint64_t next) {
  uint64_t oldest = next > ring.size() ? next - ring.size() : 0;
  std::vector<tilery_gpu_event> events;
  for (uint64_t ticket = std::max(first, oldest); ticket < next; ++ticket)
    if (const tilery_gpu_event &event = ring[ticket % ring.size()];
        event.stamp == uint32_t(ticket + 1))
      events.push_back(event);
  std::sort(events.begin(), events.end(), endsBefore);
  return events;
}

namespace {

/// What is known of one program instance: its events, the last of which is its own.
using Run = std::vector<tilery_gpu_event>;

bool isWhole(const Run &run) { return run.back().kind == TILERY_GPU_EVENT_INSTANCE; }
uint64_t beginOf(const Run &run) {
  return isWhole(run) ? run.back().begin_ns : run.front().begin_ns;
}

bool beginsBefore(const Run &a, const Run &b) {
  return std::pair(beginOf(a), a.back().stamp) < std::pair(beginOf(b), b.back().stamp);
}

// A kernel's instance of some number runs again only when it has ended. Of an earlier run the end
// may have been written over.
std::vector<Run> runsOf(const std::vector<tilery_gpu_event> &events) {
  std::map<std::pair<uint32_t, uint32_t>, Run> open;
  std::vector<Run> runs;
  for (const tilery_gpu_event &event : events) {
    Run &run = open[{event.kernel, event.instance}];
    run.push_back(event);
    if (event.kind != TILERY_GPU_EVENT_INSTANCE)
      continue;
    auto own = std::find_if(run.begin(), run.end(), [&](const tilery_gpu_event &inRun) {
      return inRun.end_ns >= event.begin_ns;
    });
    if (own != run.begin())
      runs.emplace_back(run.begin(), own);
    runs.emplace_back(own, run.end());
    run.clear();
  }
  for (auto &[key, run] : open)
    if (!run.empty())
      runs.push_back(std::move(run));
  return runs;
}

// A tile begins where the one before ended. `since`: nothing that ended later is missing.
void beginTiles(Run &run, uint64_t since) {
  uint64_t begin = isWhole(run) && run.back().begin_ns >= since ? run.back().begin_ns : 0;
  for (tilery_gpu_event &event : run)
    if (event.kind == TILERY_GPU_EVENT_TILE)
      event.begin_ns = std::exchange(begin, event.end_ns);
  std::erase_if(run, [](const tilery_gpu_event &event) { return event.begin_ns == 0; });
}

/// The lowest number that no instance on the multiprocessor has at the time.
class Lanes {
public:
  uint32_t take(const Run &run) {
    std::vector<uint64_t> &busy = busyUntil[run.back().processor];
    auto free = std::find_if(busy.begin(), busy.end(),
                             [&](uint64_t until) { return until <= beginOf(run); });
    if (free == busy.end())
      free = busy.insert(busy.end(), 0);
    *free = run.back().end_ns;
    return uint32_t(free - busy.begin());
  }

private:
  std::map<uint16_t, std::vector<uint64_t>> busyUntil;
};

/// `runs` in the order of their begins.
std::vector<DeviceLaunchSpan> launchesOf(const std::vector<Run> &runs) {
  std::vector<DeviceLaunchSpan> launches;
  std::map<uint32_t, std::pair<size_t, std::set<uint32_t>>> current; // of each kernel
  for (const Run &run : runs) {
    if (!isWhole(run))
      continue;
    const tilery_gpu_event &whole = run.back();
    auto [found, isNew] = current.try_emplace(whole.kernel);
    auto &[index, seen] = found->second;
    if (isNew || seen.contains(whole.instance)) {
      index = launches.size();
      seen.clear();
      launches.push_back({whole.kernel, whole.begin_ns, whole.end_ns, 0});
    }
    seen.insert(whole.instance);
    DeviceLaunchSpan &launch = launches[index];
    launch.endNs = std::max(launch.endNs, whole.end_ns);
    ++launch.instances;
  }
  return launches;
}

// Sweeps over the begins and ends of instances and of their waits.
uint64_t exposedTime(const std::vector<Run> &runs) {
  struct Change {
    uint64_t at;
    int instances, waiting;
  };
  std::vector<Change> changes;
  for (const Run &run : runs) {
    if (!isWhole(run))
      continue;
    for (const tilery_gpu_event &event : run) {
      bool whole = event.kind == TILERY_GPU_EVENT_INSTANCE;
      if (!whole && (event.kind != TILERY_GPU_EVENT_WAIT || event.producer))
        continue;
      changes.push_back({event.begin_ns, whole, !whole});
      changes.push_back({event.end_ns, -whole, -!whole});
    }
  }
  std::sort(changes.begin(), changes.end(),
            [](const Change &a, const Change &b) { return a.at < b.at; });
  uint64_t exposed = 0, before = 0;
  int instances = 0, waiting = 0;
  for (const Change &change : changes) {
    if (instances > 0 && waiting >= instances)
      exposed += change.at - before;
    before = change.at;
    instances += change.instances;
    waiting += change.waiting;
  }
  return exposed;
}

} // namespace

DeviceEvents arrangeEvents(std::vector<tilery_gpu_event> events, bool complete) {
  uint64_t since = complete || events.empty() ? 0 : events.front().end_ns;
  std::vector<Run> runs = runsOf(events);
  for (Run &run : runs)
    beginTiles(run, since);
  std::erase_if(runs, [](const Run &run) { return run.empty(); });
  std::sort(runs.begin(), runs.end(), beginsBefore);
  DeviceEvents arranged;
  arranged.launches = launchesOf(runs);
  arranged.exposedNs = exposedTime(runs);
  Lanes lanes;
  for (const Run &run : runs) {
    uint32_t lane = lanes.take(run);
    for (const tilery_gpu_event &event : run)
      arranged.spans.push_back({event, lane});
  }
  return arranged;
}

} // namespace tilery::rt
