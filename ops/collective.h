// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// What the hosts of all_gather, reduce_scatter, all_reduce, all_to_all and broadcast share: the
// workspace for a message, the options, and who moves the data.
#pragma once

#include "ops/copies.h"
#include "ops/costs/choose.h"
#include "ops/kernels.h"
#include "ops/launch_options.h"
#include "ops/registry.h"
#include "ops/workspace.h"

#include <optional>

namespace tilery::ops {

/// Option 'form', one of `forms`, or the one that takes the least for messages of `bytes`
/// (collectiveMicroseconds), in elements of `size` bytes.
std::string chooseCollectiveForm(Call &call, const std::vector<std::string> &forms,
                                 const char *onHost, int64_t bytes, int64_t size);

/// One collective of at most `n` elements from one rank to another.
class Collective {
public:
  Collective(Call &call, const std::string &form, int64_t n, int64_t total, int32_t dtype,
             int64_t root = 0);

  /// Launches ops/<op>/<op>_<form>; a failure makes the workspace unusable.
  template <typename... Args> void launch(const Args &...args) {
    launchKernel(kernel(call.op, call.op + "_" + form), {}, args...);
  }

  /// Of form copies: `count` elements at `source` go to this rank's part of staging on `peer`.
  void send(int peer, const void *source, int64_t count);
  /// Starts them beside the kernel that puts what arrives here, and `own`, into `out`: parts of `n`
  /// elements of `total` in rank order.
  void collect(const Memory &own, const Memory &out, int64_t n, int64_t total);
  /// The same, but adds `n` elements of each rank up.
  void addUp(const Memory &own, const Memory &out, int64_t n);

  Call &call;
  const std::string form;
  const tilery_dtype dtype;
  int64_t instances, block;
  Workspace *ws;
  int64_t capacity; ///< elements of one rank's part of a staging buffer
  int64_t chunk = 0, chunks = 1;

private:
  template <typename... Args>
  void launchKernel(Kernel &chosen, std::span<const tilery_transfer> transfers,
                    const Args &...args) {
    Launch how{.x = instances, .options = options, .transfers = transfers};
    guarded([&] { chosen.launch(call.world(), how, args...); });
  }
  template <typename Action> void guarded(Action action) {
    try {
      action();
    } catch (...) {
      discardWorkspace(call.world(), key);
      throw;
    }
  }

  std::string key;
  const tilery_options *options = nullptr;
  std::optional<Copies> copies;
};

/// Tensors move as elements of any type; 1-D views of contiguous memory.
std::vector<std::pair<std::string, std::string>> collectiveOptions(bool byCopies = true);

} // namespace tilery::ops
