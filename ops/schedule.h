// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// The one place where an operator's free parameters are chosen: tile sizes, chunks, tile order,
// program instances. Options of a call override each of them.
#pragma once

#include "ops/op.h"

namespace tilery::ops {

struct Problem {
  int64_t m = 0, n = 0, k = 0; // rows are those that one rank owns, for communicating operators
  int32_t dtype = TILERY_FP32;
  int ranks = 1;
};

struct Schedule {
  int64_t blockM = 64, blockN = 64, blockK = 64;
  int64_t groupM = 8;  // rows of tiles walked together
  int64_t chunks = 1;  // of one rank's rows
  int64_t comm = 1;    // program instances that communicate
  int64_t compute = 1; // program instances that compute
  int64_t first = 0;   // tiles for rank + first come first
  int64_t instances() const { return comm + compute; }
};

/// For `problem`, with the options "block_m", "block_n", "block_k", "chunks", "comm", "compute"
/// and "first" of the call where they are not 0 (-1 for "first").
Schedule chooseSchedule(const Call &call, const Problem &problem);

/// The rows of `m` that one rank owns, and those of one chunk: whole tiles, except in the last.
struct Shards {
  int64_t rows, chunkRows;
  Shards(int64_t m, int ranks, const Schedule &schedule)
      : rows(ceilDiv(m, ranks)),
        chunkRows(ceilDiv(ceilDiv(rows, schedule.chunks), schedule.blockM) * schedule.blockM) {}
  int64_t own(int64_t m, int rank) const {
    return std::min(rows, std::max<int64_t>(0, m - rank * rows));
  }
};

/// Options that chooseSchedule reads, for the registry.
std::vector<std::pair<std::string, std::string>> scheduleOptions();

} // namespace tilery::ops
