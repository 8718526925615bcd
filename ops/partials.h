// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// What program instances of one launch leave for the one that comes last and combines it.
#pragma once

#include "ops/op.h"

#include <optional>

namespace tilery::ops {

/// How many instances can come last, each having combined a result.
constexpr int64_t mostCombined = 64 << 10;

struct Partials {
  std::optional<Memory> values; ///< of any content
  std::optional<Memory>
      arrived; ///< an int32 for each result, 0 before a launch; kernels leave 0 again
};

/// `count` values of `dtype` for `combined` results, at most `mostCombined`. Launches in one stream
/// share the memory, one after the other, whichever operators they belong to.
Partials partialsFor(Call &call, int64_t combined, int64_t count, tilery_dtype dtype);

} // namespace tilery::ops
