// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Monotonic time; on one host all processes read the same clock, so traces align.
#pragma once

#include <cstdint>
#include <ctime>
#include <limits>

namespace tilery::rt {

inline int64_t nowNs() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return int64_t(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

/// A point in time after which a wait fails; never by default.
class Deadline {
public:
  Deadline() = default;
  /// `seconds` from now; 0 or less: never.
  static Deadline after(double seconds) {
    Deadline deadline;
    if (seconds > 0 && seconds < 1e9)
      deadline.at = nowNs() + int64_t(seconds * 1e9);
    return deadline;
  }
  bool never() const { return at == Never; }
  bool passed(int64_t now) const { return now >= at; }
  int64_t remainingNs(int64_t now) const { return never() ? Never : at - now; }

private:
  static constexpr int64_t Never = std::numeric_limits<int64_t>::max();
  int64_t at = Never;
};

} // namespace tilery::rt
