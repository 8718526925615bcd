// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// What the hosts of all_gather, reduce_scatter, all_reduce, all_to_all and broadcast share: the
// workspace for a message and the options.
#pragma once

#include "ops/kernels.h"
#include "ops/registry.h"
#include "ops/workspace.h"

namespace tilery::ops {

/// One collective of `n` elements a rank and buffer, moved by `instances` program instances.
struct Collective {
  Collective(Call &call, const std::string &form, int64_t n, int64_t total, int32_t dtype,
             int64_t root = 0);
  /// Launches ops/<op>/<op>_<form>; a failure makes the workspace unusable.
  template <typename... Args> void launch(const Args &...args) {
    try {
      kernel(call.op, call.op + "_" + form).launch(call.world(), {instances}, args...);
    } catch (...) {
      discardWorkspace(call.world(), key);
      throw;
    }
  }

  Call &call;
  std::string form, key;
  int64_t instances;
  int64_t block;
  tilery_dtype dtype;
  Workspace *ws = nullptr;
  int64_t capacity = 0; // elements of one rank's part of a staging buffer
};

/// Tensors move as elements of any type; 1-D views of contiguous memory.
std::vector<std::pair<std::string, std::string>> collectiveOptions(const char *form);

} // namespace tilery::ops
