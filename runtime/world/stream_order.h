// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Operators of one world follow each other on the device, whatever streams they are given: they share
// staging and signals.
#pragma once

#include "runtime/hal/driver.h"

namespace tilery::rt {

/// Of one rank, whose operators are called one after the other.
class StreamOrder {
public:
  StreamOrder() = default;
  ~StreamOrder();
  StreamOrder(const StreamOrder &) = delete;

  /// What `stream` is given from here on follows what came before the last end(), of the same recording
  /// or, outside of recordings, of no recording: neither can wait for the other.
  void begin(hal::DeviceRef device, hal::Stream stream);
  /// The event is recorded at once, since the stream's owner may destroy it.
  void end();

private:
  struct Last {
    hal::Event event = nullptr;
    hal::Stream stream = nullptr;
    uint64_t recording = 0;
    bool recorded = false;
  };

  hal::DeviceRef where;
  Last run, captured;
  Last *current = nullptr;
};

} // namespace tilery::rt
