// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Waiting, failing and reporting of a program instance.
#include "runtime/launch/instance.h"

#include "runtime/base/clock.h"
#include "runtime/launch/report.h"

#include <cstdlib>
#include <sched.h>

namespace tilery::rt {

const SourceSite *LaunchContext::site(int32_t index) const {
  return index >= 0 && size_t(index) < image.sites.size() ? &image.sites[size_t(index)] : nullptr;
}

uint32_t LaunchContext::tracePlace(int32_t index) const {
  const SourceSite *where = site(index);
  return where ? world->trace.intern(placeText(*where)) : 0;
}

void *Scratch::atLeast(int64_t bytes) {
  if (bytes <= capacity && memory)
    return memory;
  std::free(memory);
  capacity = (std::max<int64_t>(bytes, 64) + 63) / 64 * 64;
  memory = std::aligned_alloc(64, size_t(capacity));
  if (!memory) {
    capacity = 0;
    raise(TILERY_LAUNCH_ERROR, "cannot allocate {} bytes of scratch memory", bytes);
  }
  return memory;
}

void Instance::begin(LaunchContext &context, int64_t number) {
  launch = &context;
  index = number;
  state = TaskState::Ready;
  rank = context.seat();
  writes = nullptr;
  yieldSite = -2;
  const int32_t *grid = context.grid;
  abi.api = deviceApi();
  abi.program_id[0] = int32_t(number % grid[0]);
  abi.program_id[1] = int32_t(number / grid[0] % grid[1]);
  abi.program_id[2] = int32_t(number / grid[0] / grid[1]);
  std::copy_n(grid, 3, abi.num_programs);
  abi.rank = context.rank();
  abi.num_ranks = context.size();
  abi.scratch = scratch.atLeast(context.image.scratchBytes);
  abi.flags = (context.routed ? uint32_t(TILERY_INSTANCE_ROUTED) : 0u) |
              (context.traced ? uint32_t(TILERY_INSTANCE_TRACED) : 0u);
  abi.launch = this;
}

void Instance::beginTiming() {
  if (launch->traced)
    runSinceNs = nowNs();
}

void Instance::endTiming() {
  if (launch->traced)
    launch->runningNs += nowNs() - runSinceNs;
}

void Instance::runPlain() {
  beginTiming();
  startNs = runSinceNs;
  launch->image.entry(&abi, launch->arguments);
  endTiming();
  if (!launch->traced)
    return;
  Trace &trace = launch->world->trace;
  trace.summary.instances++;
  trace.record({TraceKind::Instance, row, launch->traceName, -1, startNs, nowNs(), index});
}

void Instance::body() {
  runPlain();
  if (writes)
    launch->world->domain->scheduler->delayed.close(writes);
  state = TaskState::Done;
}

void Instance::pause() {
  endTiming();
  suspend();
  beginTiming();
}

void Instance::switchPoint() {
  if (!onFiber || !launch->seeded())
    return;
  state = TaskState::Ready;
  pause();
}

void Instance::traceWait(int64_t beginNs) {
  Trace &trace = launch->world->trace;
  int64_t endNs = nowNs();
  std::string name = waitsInBarrier ? "barrier" : launch->world->describeSignal(predicate.cells);
  trace.summary.waitNs += endNs - beginNs;
  TraceEvent event{TraceKind::Wait, row, trace.intern(name), -1, beginNs, endNs,
                   int64_t(predicate.value)};
  event.kernel = launch->traceName;
  event.place = launch->tracePlace(waitSite);
  trace.record(event);
}

void Instance::wait(const Predicate &wanted, int32_t site, bool barrier) {
  yieldSite = -2;
  switchPoint();
  if (wanted.holds())
    return;
  if (!onFiber)
    raise(TILERY_INTERNAL_ERROR, "kernel '{}' waits, but was compiled as one that never does",
          launch->image.name);
  predicate = wanted;
  waitSite = site;
  waitsInBarrier = barrier;
  deadline = Deadline::after(launch->timeoutSeconds);
  int64_t beginNs = launch->traced ? nowNs() : 0;
  state = TaskState::Parked;
  pause();
  if (launch->traced)
    traceWait(beginNs);
}

void Instance::yield(int32_t site) {
  if (!onFiber) {
    sched_yield();
    return;
  }
  if (yieldSite != site)
    deadline = Deadline::after(launch->timeoutSeconds);
  yieldSite = site;
  waitSite = site;
  state = TaskState::Yielded;
  pause();
}

void Instance::abandon() {
  if (!onFiber)
    longjmp(launch->escape, 1);
  state = TaskState::Failed;
  while (true)
    suspend();
}

std::string Instance::place(int32_t site) const {
  return fmt::format("{}, kernel '{}', program instance ({}, {}, {})", launch->rankText(),
                     launch->image.name, abi.program_id[0], abi.program_id[1], abi.program_id[2]);
}

void Instance::setError(const Error &error, int32_t site) {
  if (launch->error)
    return;
  launch->error = Error(error.kind, locatedText(error.message, launch->site(site), place(site)));
}

static std::string describeBarrier(const World &world, const Predicate &predicate) {
  std::vector<int> missing;
  for (int64_t rank = 0; rank < predicate.count; ++rank)
    if (predicate.seen(rank) < predicate.value)
      missing.push_back(int(rank));
  return "barrier over all ranks: not reached by " + world.ranksText(missing);
}

std::string Instance::report() const {
  std::string text = place(waitSite);
  if (const SourceSite *where = launch->site(waitSite))
    text += fmt::format(" at {}:{}:{}: {}", where->file, where->line, where->column, where->text);
  if (state == TaskState::Parked)
    return text + "\n    " +
           (waitsInBarrier ? describeBarrier(*launch->world, predicate) : launch->world->describeWait(predicate));
  return text + (state == TaskState::Yielded ? "\n    polls memory in a loop" : "\n    runs");
}

WriteQueue *Instance::writeQueue() {
  if (!writes)
    writes = launch->world->domain->scheduler->delayed.open(launch->seat());
  return writes;
}

} // namespace tilery::rt
