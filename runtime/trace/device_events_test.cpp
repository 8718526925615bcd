// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Events as kernels leave them in their ring.
#include "runtime/trace/device_events.h"

#include <gtest/gtest.h>

namespace tilery::rt {
namespace {

tilery_gpu_event eventOf(tilery_gpu_event_kind kind, uint32_t instance, uint64_t begin,
                         uint64_t end, uint16_t processor = 0, uint32_t kernel = 0) {
  tilery_gpu_event event = {};
  event.kind = uint8_t(kind);
  event.instance = instance;
  event.begin_ns = begin;
  event.end_ns = end;
  event.processor = processor;
  event.kernel = kernel;
  return event;
}

constexpr auto Instance = TILERY_GPU_EVENT_INSTANCE, Tile = TILERY_GPU_EVENT_TILE,
               Wait = TILERY_GPU_EVENT_WAIT;

TEST(DeviceEvents, TicketsThatWereNotUsedAreLeftOut) {
  std::vector<tilery_gpu_event> ring(8);
  auto write = [&](uint64_t ticket, uint64_t end) {
    ring[ticket % ring.size()] = eventOf(Wait, 0, end - 1, end);
    ring[ticket % ring.size()].stamp = uint32_t(ticket + 1);
  };
  write(0, 30);
  write(2, 20); // 1 was taken, but its holder has ended
  std::vector<tilery_gpu_event> events = writtenEvents(ring, 0, 3);
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].end_ns, 20u);
  EXPECT_EQ(events[1].end_ns, 30u);
  EXPECT_EQ(writtenEvents(ring, 1, 3).size(), 1u);
  // Ticket 9 takes the place of 1, and 10 that of 2, which is still written when 10 is not.
  write(9, 40);
  events = writtenEvents(ring, 0, 11);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].end_ns, 40u);
}

TEST(DeviceEvents, ATileBeginsWhereTheOneBeforeEnded) {
  DeviceEvents all = arrangeEvents(
      {eventOf(Tile, 3, 0, 150), eventOf(Tile, 3, 0, 190), eventOf(Instance, 3, 100, 200)}, true);
  ASSERT_EQ(all.spans.size(), 3u);
  EXPECT_EQ(all.spans[0].event.begin_ns, 100u);
  EXPECT_EQ(all.spans[1].event.begin_ns, 150u);
}

TEST(DeviceEvents, ATileOfUnknownBeginIsLeftOut) {
  std::vector<tilery_gpu_event> events = {eventOf(Tile, 3, 0, 150), eventOf(Tile, 3, 0, 190),
                                          eventOf(Instance, 3, 100, 200)};
  DeviceEvents all = arrangeEvents(events, false); // others may have ended between 100 and 150
  ASSERT_EQ(all.spans.size(), 2u);
  EXPECT_EQ(all.spans[0].event.begin_ns, 150u);
  events.pop_back(); // of an instance that has not ended
  EXPECT_EQ(arrangeEvents(events, true).spans.size(), 1u);
}

TEST(DeviceEvents, ARunWhoseEndWasWrittenOverStaysApart) {
  DeviceEvents all = arrangeEvents({eventOf(Tile, 3, 0, 150), eventOf(Tile, 3, 0, 190),
                                    eventOf(Tile, 3, 0, 350), eventOf(Instance, 3, 300, 400)},
                                   false);
  ASSERT_EQ(all.spans.size(), 3u);
  EXPECT_EQ(all.spans[0].event.begin_ns, 150u);
  EXPECT_EQ(all.spans[0].event.end_ns, 190u);
  EXPECT_EQ(all.spans[1].event.begin_ns, 300u);
  ASSERT_EQ(all.launches.size(), 1u);
  EXPECT_EQ(all.launches[0].beginNs, 300u);
}

TEST(DeviceEvents, LaunchesAreToldApartByTheirInstances) {
  DeviceEvents all =
      arrangeEvents({eventOf(Instance, 0, 10, 20, 0, 1), eventOf(Instance, 1, 12, 30, 1, 1),
                     eventOf(Instance, 0, 14, 35, 2, 2), eventOf(Instance, 1, 31, 40, 0, 1),
                     eventOf(Instance, 0, 32, 45, 1, 1)},
                    true);
  ASSERT_EQ(all.launches.size(), 3u);
  for (size_t i : {0u, 2u})
    EXPECT_EQ(all.launches[i].instances, 2);
  EXPECT_EQ(all.launches[0].beginNs, 10u);
  EXPECT_EQ(all.launches[0].endNs, 30u);
  EXPECT_EQ(all.launches[1].kernel, 2u);
  EXPECT_EQ(all.launches[2].beginNs, 31u);
  EXPECT_EQ(all.launches[2].endNs, 45u);
}

TEST(DeviceEvents, InstancesAtATimeHaveLanesOfTheirOwn) {
  DeviceEvents all = arrangeEvents({eventOf(Instance, 0, 10, 20), eventOf(Wait, 1, 15, 25),
                                    eventOf(Instance, 1, 12, 30), eventOf(Instance, 2, 20, 35),
                                    eventOf(Instance, 3, 12, 40, 7)},
                                   true);
  for (const DeviceSpan &span : all.spans)
    EXPECT_EQ(span.lane, span.event.instance == 1 ? 1u : 0u) << span.event.instance;
}

TEST(DeviceEvents, TimeIsExposedWhileAllWait) {
  tilery_gpu_event copying = eventOf(Wait, 0, 10, 60);
  copying.producer = 1;
  // From 30 to 40 both wait, from 80 to 90 the only one that still runs.
  DeviceEvents all = arrangeEvents({eventOf(Wait, 0, 20, 40), copying, eventOf(Wait, 1, 30, 50),
                                    eventOf(Instance, 0, 10, 70, 0), eventOf(Wait, 1, 80, 90),
                                    eventOf(Instance, 1, 10, 95, 1)},
                                   true);
  EXPECT_EQ(all.exposedNs, 20u);
}

} // namespace
} // namespace tilery::rt
