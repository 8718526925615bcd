// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// An event behind each operator, for which the next one waits when it is in another stream.
#include "runtime/world/stream_order.h"

namespace tilery::rt {

StreamOrder::~StreamOrder() {
  for (const Last &last : {run, captured})
    if (last.event)
      where.driver->destroyEvent(where.device, last.event);
}

void StreamOrder::begin(hal::DeviceRef device, hal::Stream stream) {
  where = device;
  uint64_t recording = where.driver->recordingOf(where.device, stream);
  Last &last = recording ? captured : run;
  if (!last.event)
    last.event = where.driver->createEvent(where.device, /*timed=*/false);
  bool follows = last.recorded && last.recording == recording;
  if (follows && last.stream != stream)
    where.driver->waitFor(last.event, where.device, stream);
  last.stream = stream;
  last.recording = recording;
  current = &last;
}

void StreamOrder::end() {
  where.driver->record(current->event, where.device, current->stream);
  current->recorded = true;
}

} // namespace tilery::rt
