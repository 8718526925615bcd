// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Figures for machines that were not measured: those of two H200s joined by NVLink, 18 links each.
#include "ops/costs/calibration.h"

namespace tilery::ops {

static constexpr const char *figures = R"({
  "version": 3, "ranks": 2, "sustained": 730e6, "link.copies.1024": 29.8, "link.copies.16384": 31.1,
  "link.copies.131072": 30.7, "link.copies.1048576": 32.7, "link.copies.4194304": 42.4,
  "link.copies.16777216": 74.1, "all_gather.copies.1024": 30.6, "all_gather.copies.16384": 32.6,
  "all_gather.copies.131072": 30.7, "all_gather.copies.1048576": 33, "all_gather.copies.4194304": 42.2,
  "all_gather.copies.16777216": 92.6, "all_gather.direct.1024": 14, "all_gather.direct.1048576": 16.7,
  "all_gather.direct.4194304": 30.1, "all_gather.direct.16777216": 69,
  "all_gather.direct.67108864": 238, "all_gather.direct.268435456": 870,
  "all_gather.direct_copies.1024": 28, "all_gather.direct_copies.1048576": 31,
  "all_gather.direct_copies.4194304": 35, "all_gather.direct_copies.16777216": 69.9,
  "all_gather.direct_copies.67108864": 222, "all_gather.direct_copies.268435456": 774,
  "all_gather.flagged.1024": 4.5, "all_gather.flagged.16384": 4.7, "all_gather.flagged.65536": 4.8,
  "all_gather.flagged.262144": 6.2, "all_gather.flagged.1048576": 13.5, "all_gather.push.1024": 13.6,
  "all_gather.push.16384": 15.9, "all_gather.push.131072": 16.4, "all_gather.push.1048576": 19.5,
  "all_gather.push.4194304": 34.2, "all_gather.push.16777216": 116, "all_reduce.copies.1024": 49.7,
  "all_reduce.copies.16384": 50.9, "all_reduce.copies.131072": 52, "all_reduce.copies.1048576": 55.2,
  "all_reduce.copies.4194304": 60.2, "all_reduce.copies.16777216": 115, "all_reduce.direct.1024": 14,
  "all_reduce.direct.1048576": 17, "all_reduce.direct.4194304": 31.3,
  "all_reduce.direct.16777216": 68.5, "all_reduce.direct.67108864": 232,
  "all_reduce.direct.268435456": 832, "all_reduce.flagged.1024": 4.1, "all_reduce.flagged.16384": 4.4,
  "all_reduce.flagged.65536": 4.8, "all_reduce.flagged.262144": 6.1, "all_reduce.flagged.1048576": 13.3,
  "all_reduce.one_shot.1024": 13.1, "all_reduce.one_shot.16384": 15.4,
  "all_reduce.one_shot.131072": 15.8, "all_reduce.one_shot.1048576": 19.3,
  "all_reduce.one_shot.4194304": 33.4, "all_reduce.one_shot.16777216": 104,
  "all_reduce.two_shot.1024": 16.6, "all_reduce.two_shot.16384": 18.8,
  "all_reduce.two_shot.131072": 20.7, "all_reduce.two_shot.1048576": 23.6,
  "all_reduce.two_shot.4194304": 32.9, "all_reduce.two_shot.16777216": 91.8,
  "all_to_all.copies.1024": 29.8, "all_to_all.copies.16384": 31.6, "all_to_all.copies.131072": 32.6,
  "all_to_all.copies.1048576": 32.9, "all_to_all.copies.4194304": 42.6,
  "all_to_all.copies.16777216": 95, "all_to_all.direct.1024": 14, "all_to_all.direct.524288": 15.4,
  "all_to_all.direct.2097152": 24, "all_to_all.direct.8388608": 45.8, "all_to_all.direct.33554432": 139,
  "all_to_all.direct.134217728": 472, "all_to_all.direct_copies.1024": 28,
  "all_to_all.direct_copies.524288": 30.6, "all_to_all.direct_copies.2097152": 29,
  "all_to_all.direct_copies.8388608": 47.2, "all_to_all.direct_copies.33554432": 119,
  "all_to_all.direct_copies.134217728": 436, "all_to_all.flagged.1024": 4.7,
  "all_to_all.flagged.32768": 4.8, "all_to_all.flagged.131072": 5.1, "all_to_all.flagged.262144": 6.2,
  "all_to_all.flagged.524288": 8.8, "all_to_all.push.1024": 13.8, "all_to_all.push.16384": 15.5,
  "all_to_all.push.131072": 16.3, "all_to_all.push.1048576": 19.2, "all_to_all.push.4194304": 34,
  "all_to_all.push.16777216": 117, "broadcast.direct.1024": 14, "broadcast.direct.1048576": 16,
  "broadcast.direct.16777216": 68, "broadcast.direct_copies.1024": 28,
  "broadcast.direct_copies.1048576": 30, "broadcast.direct_copies.16777216": 66,
  "broadcast.pull.1024": 11.8, "broadcast.pull.16384": 12.6, "broadcast.pull.131072": 13.3,
  "broadcast.pull.1048576": 13.6, "broadcast.pull.4194304": 20.6, "broadcast.pull.16777216": 56.1,
  "broadcast.push.1024": 12.6, "broadcast.push.16384": 13.9, "broadcast.push.131072": 13.8,
  "broadcast.push.1048576": 17, "broadcast.push.4194304": 28.7, "broadcast.push.16777216": 85.3,
  "reduce_scatter.copies.1024": 31.7, "reduce_scatter.copies.16384": 26.5,
  "reduce_scatter.copies.131072": 28.7, "reduce_scatter.copies.1048576": 32.6,
  "reduce_scatter.copies.4194304": 43.6, "reduce_scatter.copies.16777216": 125,
  "reduce_scatter.direct.1024": 14, "reduce_scatter.direct.524288": 15.7,
  "reduce_scatter.direct.2097152": 23, "reduce_scatter.direct.8388608": 43.8,
  "reduce_scatter.direct.33554432": 128, "reduce_scatter.direct.134217728": 431,
  "reduce_scatter.flagged.1024": 4.9, "reduce_scatter.flagged.32768": 5.3,
  "reduce_scatter.flagged.131072": 6, "reduce_scatter.flagged.262144": 7.6,
  "reduce_scatter.flagged.524288": 10.3, "reduce_scatter.pull.1024": 13.4,
  "reduce_scatter.pull.16384": 15.2, "reduce_scatter.pull.131072": 15.7,
  "reduce_scatter.pull.1048576": 19.4, "reduce_scatter.pull.4194304": 36.7,
  "reduce_scatter.pull.16777216": 124, "reduce_scatter.push.1024": 13.2,
  "reduce_scatter.push.16384": 15.8, "reduce_scatter.push.131072": 16,
  "reduce_scatter.push.1048576": 19.4, "reduce_scatter.push.4194304": 34.1,
  "reduce_scatter.push.16777216": 109, "ag_gemm.copies.start": 0, "ag_gemm.copies.factor": 1,
  "ag_gemm.copies.exposed": 0, "ag_gemm.instances.start": 8, "ag_gemm.instances.factor": 1.03,
  "ag_gemm.instances.exposed": 0, "gemm_ar.one_shot.start": 8.56, "gemm_ar.one_shot.factor": 0.98,
  "gemm_ar.one_shot.exposed": 3.55, "gemm_ar.two_shot.start": 16.8, "gemm_ar.two_shot.factor": 0.98,
  "gemm_ar.two_shot.exposed": 0.26, "gemm_rs.overlapped.start": 6, "gemm_rs.overlapped.factor": 0.97,
  "gemm_rs.overlapped.exposed": 0.25, "matmul.start": 0, "matmul.factor": 1, "matmul.exposed": 0
})";

const Calibration &Calibration::builtIn() {
  static const Calibration known = *parse(figures);
  return known;
}

} // namespace tilery::ops
