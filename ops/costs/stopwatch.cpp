// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Graphs between events, all launched at once.
#include "ops/costs/stopwatch.h"

#include "ops/op.h"

#include <algorithm>

namespace tilery::ops {

namespace {

class Graph {
public:
  Graph(int32_t device, const std::function<void()> &call, int calls) {
    check(tilery_graph_begin(device, &graph));
    for (int i = 0; i < calls; ++i)
      call();
    check(tilery_graph_end(graph));
  }
  ~Graph() { tilery_graph_destroy(graph); }
  Graph(const Graph &) = delete;
  void launch(World &world) { check(tilery_graph_launch(graph, world.handle())); }

private:
  tilery_graph *graph = nullptr;
};

/// Points in the stream, and the times between them.
class Marks {
public:
  Marks(int32_t device, int count) : events(size_t(count)) {
    for (tilery_event *&event : events)
      check(tilery_event_create(device, &event));
  }
  ~Marks() {
    for (tilery_event *event : events)
      tilery_event_destroy(event);
  }
  Marks(const Marks &) = delete;
  void pass(World &world) { check(tilery_event_record(events[passed++], world.handle())); }
  double before(size_t index) const {
    double elapsed = 0;
    check(tilery_event_elapsed(events[index - 1], events[index], &elapsed));
    return elapsed;
  }

private:
  std::vector<tilery_event *> events;
  size_t passed = 0;
};

} // namespace

double Stopwatch::slowest(double value) {
  for (double each : world.allGather(value))
    value = std::max(value, each);
  return value;
}

// The first call compiles and allocates. The second says how many the device needs to be busy for a while.
double Stopwatch::microseconds(const std::function<void()> &call, int rounds, double quantile) {
  constexpr int mostCalls = 16, leastCalls = 2;
  constexpr double wanted = 2000;
  call();
  check(tilery_synchronize(world.handle(), device));
  Marks marks(device, rounds + 3);
  marks.pass(world);
  call();
  marks.pass(world);
  check(tilery_synchronize(world.handle(), device));
  int calls = std::clamp(int(wanted / std::max(slowest(marks.before(1)), 1.0)), leastCalls, mostCalls);
  Graph graph(device, call, calls);
  graph.launch(world); // brings it to the device
  marks.pass(world);
  for (int i = 0; i < rounds; ++i) {
    graph.launch(world);
    marks.pass(world);
  }
  check(tilery_synchronize(world.handle(), device));
  std::vector<double> times;
  for (int i = 0; i < rounds; ++i)
    times.push_back(slowest(marks.before(size_t(i) + 3)) / calls);
  auto chosen = times.begin() + int(quantile * (rounds - 1));
  std::ranges::nth_element(times, chosen);
  return *chosen;
}

} // namespace tilery::ops
