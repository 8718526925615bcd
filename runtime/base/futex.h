// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Sleep on, and wake, a word of memory that may be shared between processes.
#pragma once

#include <atomic>
#include <climits>
#include <cstdint>
#include <ctime>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace tilery::rt {

/// Sleeps at most `ns` while `word` holds `expected`; may return early.
inline void futexWait(std::atomic<uint32_t> &word, uint32_t expected, int64_t ns) {
  timespec limit{time_t(ns / 1'000'000'000), long(ns % 1'000'000'000)};
  syscall(SYS_futex, reinterpret_cast<uint32_t *>(&word), FUTEX_WAIT, expected, &limit, nullptr, 0);
}

inline void futexWakeAll(std::atomic<uint32_t> &word) {
  syscall(SYS_futex, reinterpret_cast<uint32_t *>(&word), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

} // namespace tilery::rt
