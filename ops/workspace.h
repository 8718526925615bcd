// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// What a communicating operator keeps between calls on one rank: staging buffers, signals and
// the epochs that its program instances advance.
#pragma once

#include "ops/op.h"

#include <string>

namespace tilery::ops {

/// What decides whether a kept workspace serves a call. All ranks need the same.
struct WorkspaceNeed {
  std::string key;         // operator, types and everything that the signals' layout needs
  int64_t instances = 1;   // program instances, each with an epoch
  int64_t slots = 1;       // signals for each rank
  int64_t stageBytes = 0;  // one of the staging buffers
  int64_t buffers = 2;     // 1 where each call begins by waiting for the end of the one before
  int64_t resultBytes = 0; // one of the buffers for results, 0: none
};

/// Views into one symmetric allocation.
class Workspace {
public:
  Memory epochs, entered, ready, done;
  /// All staging buffers together; `capacity` elements of `dtype` each.
  Memory stage(tilery_dtype dtype) const { return buffer(stageData, stageBytes, dtype); }
  Memory result(tilery_dtype dtype) const { return buffer(resultData, resultBytes, dtype); }
  int64_t stageCapacity(tilery_dtype dtype) const { return stageBytes / tilery_dtype_size(dtype); }
  int64_t resultCapacity(tilery_dtype dtype) const {
    return resultBytes / tilery_dtype_size(dtype);
  }

private:
  friend Workspace &workspace(World &world, const WorkspaceNeed &need);
  Memory buffer(char *data, int64_t bytes, tilery_dtype dtype) const {
    return {data, dtype, buffers * bytes, true};
  }
  void allocate(World &world, const WorkspaceNeed &need);
  bool serves(const WorkspaceNeed &need) const;

  char *base = nullptr;
  int64_t slots = 0, stageBytes = 0, resultBytes = 0, buffers = 2;
  char *stageData = nullptr, *resultData = nullptr;
};

/// The workspace of `need.key` in this world, made or grown when needed. Collective; all ranks
/// must have agreed on `need`.
Workspace &workspace(World &world, const WorkspaceNeed &need);

/// After a failed launch: the ranks' epochs differ, so that the workspace is not used again.
void discardWorkspace(World &world, const std::string &key);

} // namespace tilery::ops
