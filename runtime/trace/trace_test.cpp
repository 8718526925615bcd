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
