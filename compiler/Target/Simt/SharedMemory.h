// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// How a tile is laid out in shared memory so that warps meet few bank conflicts.
#pragma once

#include "compiler/Target/Simt/LinearLayout.h"

namespace tilery::simt {

/// Byte offset o of the row-major tile is stored at o ^ ((o >> shift) & mask). With mask 0 as is.
struct Swizzle {
  unsigned shift = 0;
  int32_t mask = 0;

  int32_t apply(int32_t offset) const { return offset ^ ((offset >> shift) & mask); }
  bool operator==(const Swizzle &) const = default;
};

/// Passes through shared memory that one access of a warp takes: 1 is without conflict. Each lane
/// accesses `vectorBytes` from the element of register 0 on.
unsigned bankPasses(const LinearLayout &layout, unsigned elementBytes, unsigned vectorBytes,
                    const Swizzle &swizzle);

/// The swizzle with the fewest passes for writing as `from` and reading as `to`; it leaves groups of
/// `vectorBytes` together.
Swizzle chooseSwizzle(const LinearLayout &from, const LinearLayout &to, unsigned elementBytes,
                      unsigned vectorBytes, int64_t tileBytes);

} // namespace tilery::simt
