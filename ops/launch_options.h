// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// How many warps and stages a launch of an operator gets, where instances have warps at all.
#pragma once

#include "ops/op.h"

namespace tilery::ops {

/// Whether instances have fast memory of their own, and are made of warps.
inline bool hasWarps(const tilery_device_properties &device) { return device.shared_bytes > 0; }

/// Options for kernel launches; null, the defaults, where instances have no warps. registers: that a thread
/// may have; 0: the assembler's choice, which prefers that more instances fit on a processor.
const tilery_options *launchOptions(const tilery_device_properties &device, int64_t warps,
                                    int64_t stages = 3, int64_t registers = 0);

/// How instances walk over M rows of N elements.
struct RowTile {
  int64_t rows;      ///< at a time
  int64_t block;     ///< elements at a time
  bool once;         ///< they are a whole row
  bool whole;        ///< rows are multiples of it: nothing is masked
  int64_t stages;    ///< groups of rows in shared memory
  int64_t instances;
  const tilery_options *options;
};
/// For rows of tensor `i`.
RowTile chooseRowTile(const Call &call, size_t i);

} // namespace tilery::ops
