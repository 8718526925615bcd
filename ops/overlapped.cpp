// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Agreement, schedule and workspace of an overlapped product.
#include "ops/overlapped.h"

#include <algorithm>

namespace tilery::ops {

Overlapped::Overlapped(Call &call, int64_t m, int64_t n, int64_t k, int32_t dtype,
                       tilery_dtype stageType, int64_t stageWidth, int32_t resultType,
                       int64_t resultWidth)
    : call(call), m(m), n(n), k(k),
      schedule(chooseSchedule(call,
                              {ceilDiv(m, call.world().size()), n, k, dtype, call.world().size()})),
      shards(m, call.world().size(), schedule) {
  // N of ag_gemm and K of gemm_rs may differ from rank to rank; what is staged may not.
  call.agree({{"M", m},
              {"the width of a staged row", stageWidth},
              {"the width of a result row", resultWidth},
              {"the element type", dtype},
              {"option 'block_m'", schedule.blockM},
              {"option 'chunks'", schedule.chunks},
              {"option 'comm'", schedule.comm},
              {"option 'compute'", schedule.compute}});
  key = call.op + " chunks=" + std::to_string(schedule.chunks) +
        " comm=" + std::to_string(schedule.comm) + " compute=" + std::to_string(schedule.compute) +
        " " + dtypeName(dtype);
  int64_t rows = call.world().size() * std::max<int64_t>(shards.rows, 1);
  ws = &workspace(call.world(),
                  {key, schedule.instances(), schedule.chunks,
                   rows * stageWidth * tilery_dtype_size(stageType),
                   rows * resultWidth * tilery_dtype_size(static_cast<tilery_dtype>(resultType))});
}

} // namespace tilery::ops
