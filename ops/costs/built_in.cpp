// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Figures for machines that were not measured: those of two H200s joined by NVLink, 18 links each. Words with
// flags were disturbed now and then from 512 KiB on, so their points there say more than the best of them took.
#include "ops/costs/calibration.h"

namespace tilery::ops {

static constexpr const char *figures = R"({
  "version": 4, "ranks": 2, "sustained": 730e6, "link.copies.1024": 24.6,
  "link.copies.16384": 26.1, "link.copies.131072": 26.7, "link.copies.1048576": 29.2,
  "link.copies.4194304": 35.8, "link.copies.16777216": 68.1, "all_gather.copies.1024": 26.5,
  "all_gather.copies.16384": 26.8, "all_gather.copies.131072": 26.8,
  "all_gather.copies.1048576": 29.6, "all_gather.copies.4194304": 40.9,
  "all_gather.copies.16777216": 101, "all_gather.direct.1024": 6.21,
  "all_gather.direct.16384": 6.51, "all_gather.direct.131072": 7.4,
  "all_gather.direct.1048576": 8.9, "all_gather.direct.4194304": 18.4,
  "all_gather.direct.16777216": 55.3, "all_gather.direct.67108864": 213,
  "all_gather.direct.268435456": 831, "all_gather.flagged.1024": 4.17,
  "all_gather.flagged.16384": 4.42, "all_gather.flagged.131072": 4.93,
  "all_gather.flagged.262144": 6, "all_gather.flagged.524288": 9.5,
  "all_gather.flagged.1048576": 14.6, "all_gather.push.1024": 8.87, "all_gather.push.16384": 11,
  "all_gather.push.131072": 11.6, "all_gather.push.1048576": 13.8, "all_gather.push.4194304": 30,
  "all_gather.push.16777216": 112, "all_reduce.copies.1024": 75.9, "all_reduce.copies.16384": 75.9,
  "all_reduce.copies.131072": 78.4, "all_reduce.copies.1048576": 78.6,
  "all_reduce.copies.4194304": 95.9, "all_reduce.copies.16777216": 151,
  "all_reduce.direct.1024": 6.9, "all_reduce.direct.16384": 6.99, "all_reduce.direct.131072": 7.34,
  "all_reduce.direct.1048576": 10.5, "all_reduce.direct.4194304": 18.8,
  "all_reduce.direct.16777216": 56.5, "all_reduce.direct.67108864": 206,
  "all_reduce.direct.268435456": 793, "all_reduce.flagged.1024": 4.05,
  "all_reduce.flagged.16384": 4.36, "all_reduce.flagged.131072": 5.22,
  "all_reduce.flagged.262144": 6, "all_reduce.flagged.524288": 9.5,
  "all_reduce.flagged.1048576": 12.9, "all_reduce.one_shot.1024": 9.02,
  "all_reduce.one_shot.16384": 10, "all_reduce.one_shot.131072": 10.4,
  "all_reduce.one_shot.1048576": 12.9, "all_reduce.one_shot.4194304": 27.7,
  "all_reduce.one_shot.16777216": 99.8, "all_reduce.two_shot.1024": 12,
  "all_reduce.two_shot.16384": 13.9, "all_reduce.two_shot.131072": 14.2,
  "all_reduce.two_shot.1048576": 15.8, "all_reduce.two_shot.4194304": 28.6,
  "all_reduce.two_shot.16777216": 83.8, "all_to_all.copies.1024": 26.5,
  "all_to_all.copies.16384": 26.5, "all_to_all.copies.131072": 27.3,
  "all_to_all.copies.1048576": 29.8, "all_to_all.copies.4194304": 41,
  "all_to_all.copies.16777216": 100, "all_to_all.direct.1024": 6.56,
  "all_to_all.direct.16384": 6.72, "all_to_all.direct.131072": 7.42,
  "all_to_all.direct.1048576": 8.79, "all_to_all.direct.4194304": 18.7,
  "all_to_all.direct.16777216": 57.5, "all_to_all.direct.33554432": 112,
  "all_to_all.direct.134217728": 418, "all_to_all.flagged.1024": 4.25,
  "all_to_all.flagged.16384": 4.66, "all_to_all.flagged.131072": 5.13,
  "all_to_all.flagged.262144": 8, "all_to_all.flagged.1048576": 14.1, "all_to_all.push.1024": 9.39,
  "all_to_all.push.16384": 10.6, "all_to_all.push.131072": 10.9, "all_to_all.push.1048576": 14.3,
  "all_to_all.push.4194304": 28.9, "all_to_all.push.16777216": 111, "broadcast.direct.1024": 6.38,
  "broadcast.direct.16384": 6.73, "broadcast.direct.131072": 7.14,
  "broadcast.direct.1048576": 8.79, "broadcast.direct.4194304": 18,
  "broadcast.direct.16777216": 54, "broadcast.direct.67108864": 200, "broadcast.pull.1024": 7.52,
  "broadcast.pull.16384": 8.03, "broadcast.pull.131072": 8.24, "broadcast.pull.1048576": 9.21,
  "broadcast.pull.4194304": 16.8, "broadcast.pull.16777216": 51.8, "broadcast.push.1024": 8.16,
  "broadcast.push.16384": 8.88, "broadcast.push.131072": 9.23, "broadcast.push.1048576": 11.1,
  "broadcast.push.4194304": 23.6, "broadcast.push.16777216": 80.6,
  "reduce_scatter.copies.1024": 26.1, "reduce_scatter.copies.16384": 27.1,
  "reduce_scatter.copies.131072": 27.1, "reduce_scatter.copies.1048576": 30.7,
  "reduce_scatter.copies.4194304": 45.5, "reduce_scatter.copies.16777216": 121,
  "reduce_scatter.direct.1024": 6.71, "reduce_scatter.direct.16384": 6.91,
  "reduce_scatter.direct.131072": 7.91, "reduce_scatter.direct.1048576": 10.4,
  "reduce_scatter.direct.4194304": 20.4, "reduce_scatter.direct.16777216": 58,
  "reduce_scatter.direct.33554432": 112, "reduce_scatter.direct.134217728": 413,
  "reduce_scatter.flagged.1024": 4.6, "reduce_scatter.flagged.16384": 4.75,
  "reduce_scatter.flagged.131072": 5.87, "reduce_scatter.flagged.262144": 8.6,
  "reduce_scatter.flagged.1048576": 16.1, "reduce_scatter.pull.1024": 9.65,
  "reduce_scatter.pull.16384": 10.9, "reduce_scatter.pull.131072": 11.5,
  "reduce_scatter.pull.1048576": 13.4, "reduce_scatter.pull.4194304": 31.7,
  "reduce_scatter.pull.16777216": 119, "reduce_scatter.push.1024": 8.85,
  "reduce_scatter.push.16384": 10.7, "reduce_scatter.push.131072": 10.9,
  "reduce_scatter.push.1048576": 12.9, "reduce_scatter.push.4194304": 28.4,
  "reduce_scatter.push.16777216": 104, "ag_gemm.copies.start": 0, "ag_gemm.copies.factor": 1,
  "ag_gemm.copies.exposed": 0, "gemm_ar.one_shot.start": 5.08, "gemm_ar.one_shot.factor": 1,
  "gemm_ar.one_shot.exposed": 0.591, "gemm_ar.two_shot.start": 23.3,
  "gemm_ar.two_shot.factor": 1.01, "gemm_ar.two_shot.exposed": 0.163,
  "gemm_rs.overlapped.start": 7.71, "gemm_rs.overlapped.factor": 1,
  "gemm_rs.overlapped.exposed": 0.155, "matmul.start": 0, "matmul.factor": 1.03,
  "matmul.exposed": 0
})";

const Calibration &Calibration::builtIn() {
  static const Calibration known = *parse(figures);
  return known;
}

} // namespace tilery::ops
