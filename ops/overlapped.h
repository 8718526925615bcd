// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// What the hosts of ag_gemm, gemm_rs and gemm_ar share: checks, schedule, workspace, launch.
#pragma once

#include "ops/kernels.h"
#include "ops/registry.h"
#include "ops/schedule.h"
#include "ops/workspace.h"

namespace tilery::ops {

/// An overlapped product over all ranks with M rows in all.
struct Overlapped {
  /// stageWidth: elements of a staged row, of type stageType; resultWidth likewise, 0: none.
  Overlapped(Call &call, int64_t m, int64_t n, int64_t k, int32_t dtype, tilery_dtype stageType,
             int64_t stageWidth, int32_t resultType = TILERY_FP32, int64_t resultWidth = 0);

  template <typename... Args> void launch(const Args &...args) {
    try {
      kernel(call.op, call.op).launch(call.world(), {schedule.instances()}, args...);
    } catch (...) {
      discardWorkspace(call.world(), key);
      throw;
    }
  }

  Call &call;
  int64_t m, n, k;
  Schedule schedule;
  Shards shards;
  std::string key;
  Workspace *ws = nullptr;
};

} // namespace tilery::ops
