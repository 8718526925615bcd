// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Event ring and JSON of the timeline.
#include "runtime/trace/trace.h"

#include <gtest/gtest.h>

namespace tilery::rt {
namespace {

TEST(Trace, WritesChromeEvents) {
  Trace trace(true);
  uint32_t kernel = trace.intern("k\"1\"");
  EXPECT_EQ(trace.intern("k\"1\""), kernel);
  trace.record({TraceKind::Instance, 2, kernel, -1, 1500, 4000, 7});
  trace.record({TraceKind::Put, 2, trace.intern("put"), 3, 2000, 2500, 64});
  EXPECT_EQ(wrapTrace({trace.toJson(1)}),
            R"({"displayTimeUnit":"ns","traceEvents":[
{"ph":"M","name":"process_name","pid":1,"tid":0,"args":{"name":"rank 1"}},
{"ph":"M","name":"thread_name","pid":1,"tid":0,"args":{"name":"launches"}},
{"ph":"M","name":"thread_name","pid":1,"tid":2,"args":{"name":"slot 1"}},
{"ph":"X","cat":"instance","name":"k\"1\"","pid":1,"tid":2,"ts":1.500,"dur":2.500,"args":{"instance":7}},
{"ph":"X","cat":"put","name":"put to 3","pid":1,"tid":2,"ts":2.000,"dur":0.500,"args":{"bytes":64,"to":3}}
]}
)");
}

TEST(Trace, NamesPlacesAndRows) {
  Trace trace(true);
  TraceEvent wait{TraceKind::Wait, 5, trace.intern("ready + owner"), -1, 1000, 3000, 8};
  wait.kernel = trace.intern("ring");
  wait.place = trace.intern("/home/me/ring.py:12");
  wait.producer = true;
  trace.record(wait);
  trace.record({TraceKind::Tile, 5, trace.intern("ring"), -1, 3000, 4000, 2});
  trace.nameRow(5, "cuda:0 SM 4");
  trace.noteClock("clock of cuda:0 within 0.9 us");
  EXPECT_EQ(trace.toJson(0),
            R"json({"ph":"M","name":"process_name","pid":0,"tid":0,"args":{"name":"rank 0"}},
{"ph":"M","name":"process_labels","pid":0,"args":{"labels":"clock of cuda:0 within 0.9 us"}},
{"ph":"M","name":"thread_name","pid":0,"tid":0,"args":{"name":"launches"}},
{"ph":"M","name":"thread_name","pid":0,"tid":5,"args":{"name":"cuda:0 SM 4"}},
{"ph":"X","cat":"wait","name":"wait ready + owner (ring.py:12)","pid":0,"tid":5,"ts":1.000,"dur":2.000,"args":{"expected":8,"kernel":"ring","at":"/home/me/ring.py:12","copies":true}},
{"ph":"X","cat":"tile","name":"tile of ring","pid":0,"tid":5,"ts":3.000,"dur":1.000,"args":{"instance":2}})json");
}

TEST(Trace, KeepsTheNewestEvents) {
  Trace trace(true);
  uint32_t name = trace.intern("k");
  constexpr int64_t Events = (1 << 17) + 10;
  for (int64_t i = 0; i < Events; ++i)
    trace.record({TraceKind::Instance, 1, name, -1, i, i + 1, i});
  EXPECT_EQ(trace.summary.droppedEvents, 10);
  std::string text = trace.toJson(0);
  EXPECT_EQ(text.find(R"("instance":9})"), std::string::npos);
  EXPECT_LT(text.find(R"("instance":10})"), text.find(R"("instance":131081})"));
}

TEST(Trace, EmptyRankIsStillListed) {
  EXPECT_EQ(Trace(false).toJson(0),
            R"({"ph":"M","name":"process_name","pid":0,"tid":0,"args":{"name":"rank 0"}},)"
            "\n"
            R"({"ph":"M","name":"thread_name","pid":0,"tid":0,"args":{"name":"launches"}})");
}

} // namespace
} // namespace tilery::rt
