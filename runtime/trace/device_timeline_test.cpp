// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// From a ring on the fake device, whose clock is 5 s ahead and whose memory is the host's.
#include "runtime/trace/device_timeline.h"

#include "runtime/base/clock.h"

#include <gtest/gtest.h>

namespace tilery::rt {
namespace {

constexpr uint64_t Ahead = 5'000'000'000;

void write(tilery_gpu_trace &ring, tilery_gpu_event event, int64_t beginNs, int64_t endNs) {
  event.stamp = uint32_t(++ring.next);
  event.begin_ns = uint64_t(beginNs) + Ahead;
  event.end_ns = uint64_t(endNs) + Ahead;
  ring.events[event.stamp - 1] = event;
}

TEST(DeviceTimeline, GoesToTheHostsClockOnce) {
  hal::DeviceRef where = hal::deviceNumber(1);
  DeviceTimeline timeline(where);
  Trace trace(true);
  uint32_t kernel = timeline.add({"ring", {{"/ring.py:12", "ready + owner"}}, {0, 3}});
  int64_t now = nowNs();
  tilery_gpu_event event = {};
  event.kernel = kernel;
  event.processor = 4;
  event.kind = TILERY_GPU_EVENT_WAIT;
  event.amount = 8;
  write(*timeline.ring(), event, now, now + 2000);
  event.kind = TILERY_GPU_EVENT_PUT;
  event.peer = 1;
  write(*timeline.ring(), event, now + 2000, now + 3000);
  event.kind = TILERY_GPU_EVENT_INSTANCE;
  event.site = -1;
  write(*timeline.ring(), event, now - 1000, now + 4000);
  timeline.collect(trace);
  timeline.collect(trace); // nothing new
  std::string text = trace.toJson(0);
  EXPECT_NE(text.find(R"("name":"cuda:0 SM 4")"), std::string::npos) << text;
  EXPECT_NE(text.find("wait ready + owner (ring.py:12)"), std::string::npos) << text;
  EXPECT_NE(text.find(R"("bytes":8,"to":3,"kernel":"ring")"), std::string::npos) << text;
  EXPECT_NE(text.find("clock of cuda:0 within "), std::string::npos) << text;
  size_t wait = text.find(R"("cat":"wait")"), at = text.find(R"("ts":)", wait) + 5;
  // What it says itself: milliseconds, where the host is not scheduled between two readings.
  double within = std::stod(text.substr(text.find("clock of cuda:0 within ") + 23));
  EXPECT_NEAR(std::stod(text.substr(at)), double(now) * 1e-3, within + 1);
  const TraceSummary &sum = trace.summary;
  EXPECT_EQ(sum.launches, 1);
  EXPECT_EQ(sum.instances, 1);
  EXPECT_EQ(sum.putBytes, 8);
  EXPECT_NEAR(double(sum.waitNs), 2000, 100);
  EXPECT_NEAR(double(sum.computeNs), 2000, 100);
  EXPECT_NEAR(double(sum.transferNs), 1000, 100);
  EXPECT_NEAR(double(sum.exposedWaitNs), 2000, 100);
}

TEST(DeviceTimeline, LostEventsAreCounted) {
  DeviceTimeline timeline(hal::deviceNumber(1));
  EXPECT_EQ(timeline.ring()->next, 0u); // cleared for this timeline
  Trace trace(true);
  timeline.add({"k", {}, {0}});
  timeline.ring()->next = TILERY_GPU_TRACE_EVENTS + 12;
  timeline.collect(trace);
  EXPECT_EQ(trace.summary.droppedEvents, 12);
}

} // namespace
} // namespace tilery::rt
