// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Streams of a rank beside those of its launches, for copies that run at the same time as a grid.
#pragma once

#include "runtime/hal/driver.h"

#include <memory>
#include <mutex>
#include <vector>

namespace tilery::rt {

class SideStreams {
  struct Set {
    Set(hal::DeviceRef where, int count);
    ~Set();
    hal::DeviceRef where;
    std::vector<hal::Stream> streams;
    std::vector<hal::Event> ended;
    hal::Event begun;
  };

public:
  /// Makes `count` streams at once, since making them may wait for grids that run.
  SideStreams(hal::DeviceRef where, int count);

  /// A branch of a stream's work that its later work waits for. A rank has one at a time.
  class Fork {
  public:
    Fork(SideStreams &sides, hal::Stream main);
    /// Side stream `index`, modulo their number. Its work follows what `main` was given before.
    hal::Stream stream(size_t index);
    void join();

  private:
    std::lock_guard<std::mutex> lock;
    const hal::Stream main;
    Set &set;
    std::vector<bool> used;
  };

private:
  Set &setFor(hal::Stream main);

  const hal::DeviceRef where;
  const int count;
  std::mutex mutex;
  std::vector<std::unique_ptr<Set>> sets;
};

} // namespace tilery::rt
