// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Figures for machines that were not measured: those of two H200s joined by NVLink, 18 links each.
#include "ops/costs/calibration.h"

namespace tilery::ops {

static constexpr const char *figures = R"({
  "version": 1, "ranks": 2, "launch": 1.2, "meet": 4.5,
  "link.copies.1024": 18, "link.copies.1048576": 21, "link.copies.16777216": 62,
  "all_gather.flagged.1024": 4.5, "all_gather.flagged.65536": 6, "all_gather.flagged.1048576": 22,
  "all_gather.push.1024": 9, "all_gather.push.262144": 11, "all_gather.push.1048576": 14,
  "all_gather.push.4194304": 33, "all_gather.push.16777216": 115,
  "all_gather.copies.1024": 30, "all_gather.copies.1048576": 34,
  "all_gather.copies.4194304": 39, "all_gather.copies.16777216": 95,
  "reduce_scatter.push.1024": 9, "reduce_scatter.push.1048576": 12,
  "reduce_scatter.push.4194304": 20, "reduce_scatter.push.16777216": 54,
  "reduce_scatter.pull.1024": 9, "reduce_scatter.pull.1048576": 12,
  "reduce_scatter.pull.4194304": 21, "reduce_scatter.pull.16777216": 63,
  "reduce_scatter.copies.1024": 31, "reduce_scatter.copies.1048576": 32,
  "reduce_scatter.copies.4194304": 33, "reduce_scatter.copies.16777216": 60,
  "all_reduce.flagged.1024": 5, "all_reduce.flagged.65536": 6, "all_reduce.flagged.1048576": 22,
  "all_reduce.one_shot.1024": 9, "all_reduce.one_shot.262144": 12,
  "all_reduce.one_shot.1048576": 15, "all_reduce.one_shot.4194304": 34,
  "all_reduce.one_shot.16777216": 105,
  "all_reduce.two_shot.1024": 12, "all_reduce.two_shot.262144": 16,
  "all_reduce.two_shot.1048576": 18, "all_reduce.two_shot.4194304": 34,
  "all_reduce.two_shot.16777216": 92,
  "all_reduce.copies.1024": 66, "all_reduce.copies.4194304": 68, "all_reduce.copies.16777216": 123,
  "all_to_all.push.1024": 9, "all_to_all.push.1048576": 13, "all_to_all.push.4194304": 22,
  "all_to_all.push.16777216": 57,
  "all_to_all.copies.1024": 30, "all_to_all.copies.4194304": 30, "all_to_all.copies.16777216": 53,
  "broadcast.push.1024": 9, "broadcast.push.1048576": 14, "broadcast.push.16777216": 115,
  "broadcast.pull.1024": 12, "broadcast.pull.1048576": 17, "broadcast.pull.16777216": 120,
  "matmul.start": 0, "matmul.factor": 1,
  "ag_gemm.copies.start": 10, "ag_gemm.copies.factor": 1.02,
  "ag_gemm.instances.start": 4, "ag_gemm.instances.factor": 1.05,
  "gemm_rs.overlapped.start": 4, "gemm_rs.overlapped.factor": 1.05,
  "gemm_ar.one_shot.start": 4, "gemm_ar.one_shot.factor": 1.05,
  "gemm_ar.two_shot.start": 4, "gemm_ar.two_shot.factor": 1.05
})";

const Calibration &Calibration::builtIn() {
  static const Calibration known = *parse(figures);
  return known;
}

} // namespace tilery::ops
