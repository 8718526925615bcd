// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// What a wait waits for: consecutive 64-bit cells that all compare true with a value. The
// scheduler tests it without waking the waiter.
#pragma once

#include "tilery/kernel_abi.h"

#include <cstdint>

namespace tilery::rt {

inline bool compareSignal(uint64_t seen, uint64_t value, int32_t compare) {
  switch (compare) {
  case TILERY_CMP_EQ: return seen == value;
  case TILERY_CMP_NE: return seen != value;
  case TILERY_CMP_GT: return seen > value;
  case TILERY_CMP_LE: return seen <= value;
  case TILERY_CMP_LT: return seen < value;
  default: return seen >= value;
  }
}

inline const char *compareText(int32_t compare) {
  constexpr const char *text[] = {"==", "!=", ">", "<=", "<", ">="};
  return compare >= 0 && compare < 6 ? text[compare] : "?";
}

struct Predicate {
  const uint64_t *cells = nullptr;
  int64_t count = 0;
  uint64_t value = 0;
  int32_t compare = TILERY_CMP_EQ;

  // acquire: pairs with the release in updateSignal.
  uint64_t seen(int64_t index) const { return __atomic_load_n(cells + index, __ATOMIC_ACQUIRE); }
  /// Index of the first cell that does not compare true, or `count`.
  int64_t firstUnmet() const {
    for (int64_t i = 0; i < count; ++i)
      if (!compareSignal(seen(i), value, compare))
        return i;
    return count;
  }
  bool holds() const { return firstUnmet() == count; }
};

/// The one way a signal changes. release: pairs with the acquire in Predicate::seen.
inline void updateSignal(uint64_t *signal, uint64_t value, int32_t op) {
  if (op == TILERY_SIGNAL_ADD)
    __atomic_fetch_add(signal, value, __ATOMIC_RELEASE);
  else
    __atomic_store_n(signal, value, __ATOMIC_RELEASE);
}

} // namespace tilery::rt
