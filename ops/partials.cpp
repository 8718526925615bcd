// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
#include "ops/partials.h"

#include <cstring>

namespace tilery::ops {

Partials partialsFor(Call &call, int64_t combined, int64_t count, tilery_dtype dtype) {
  // Counters are 0 between launches, whatever their number: they have a place of their own.
  constexpr int64_t counters = mostCombined * 4;
  int64_t bytes = count * tilery_dtype_size(dtype);
  int32_t device = call.deviceNumber();
  void *memory = nullptr;
  check(tilery_device_workspace(call.worldOrNull(), device, size_t(counters + bytes), &memory));
  char *first = static_cast<char *>(memory);
  if (device == 0) // where a launch can be interrupted between instances
    std::memset(first, 0, size_t(combined) * 4);
  return {Memory{first + counters, dtype, bytes, false, uint32_t(device)},
          Memory{first, TILERY_INT32, counters, false, uint32_t(device)}};
}

} // namespace tilery::ops
