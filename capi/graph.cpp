// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Launches that are recorded once and run often.
#include "capi/device.h"
#include "capi/error.h"
#include "runtime/hal/driver.h"

#include <memory>

using namespace tilery;
using namespace tilery::capi;
using rt::hal::DeviceRef;

struct tilery_graph {
  explicit tilery_graph(DeviceRef where)
      : where(where), stream(where.driver->createStream(where.device)), before(threadStream()) {}
  ~tilery_graph() {
    if (recording)
      where.driver->destroyRecording(where.device, recording);
  }
  void begin() {
    where.driver->beginRecording(where.device, stream);
    isRecording = true;
    tilery_stream_use(stream);
  }
  void end() {
    if (!isRecording)
      return;
    isRecording = false;
    tilery_stream_use(before);
    recording = where.driver->endRecording(where.device, stream);
    where.driver->destroyStream(where.device, stream);
  }

  DeviceRef where;
  rt::hal::Stream stream, before;
  rt::hal::Recording recording = nullptr;
  bool isRecording = false;
};

extern "C" {

tilery_status tilery_graph_begin(int32_t device, tilery_graph **graph) {
  return guarded([&] {
    tilery_graph *&result = require(graph, "the result");
    auto made = std::make_unique<tilery_graph>(rt::hal::deviceNumber(device));
    made->begin();
    result = made.release();
  });
}

tilery_status tilery_graph_end(tilery_graph *graph) {
  return guarded([&] { require(graph, "the graph").end(); });
}

tilery_status tilery_graph_launch(tilery_graph *graph, tilery_world *world) {
  return guarded([&] {
    auto &[where, stream, before, recording, isRecording] = require(graph, "the graph");
    if (!recording)
      rt::raise(TILERY_LAUNCH_ERROR, "this graph was not recorded to its end; call tilery_graph_end first");
    where.driver->replay(recording, where.device, launchStream(world));
  });
}

void tilery_graph_destroy(tilery_graph *graph) {
  if (graph)
    guarded([&] { graph->end(); });
  delete graph;
}

} // extern "C"
