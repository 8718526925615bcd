// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// What the hosts of all_gather, reduce_scatter, all_reduce, all_to_all and broadcast share: the
// workspace for a message, the options, and who moves the data.
#pragma once

#include "ops/copies.h"
#include "ops/costs/choose.h"
#include "ops/direct_form.h"
#include "ops/kernels.h"
#include "ops/launch_options.h"
#include "ops/registry.h"
#include "ops/workspace.h"

#include <optional>
#include <tuple>

namespace tilery::ops {

/// Option 'form', one of `forms`, or the one that takes the least for messages of `bytes`
/// (collectiveMicroseconds), in elements of `size` bytes.
FormChoice chooseCollectiveForm(Call &call, const std::vector<std::string> &forms, const char *onHost,
                                int64_t bytes, int64_t size);

/// What all ranks have agreed on.
struct Agreed {
  std::string form;
  int64_t instances; ///< wanted, 0: any number
  int64_t chunks;    ///< the same
  int64_t resident;  ///< instances that all ranks can have
  /// Of a direct form: tensors that the others use.
  PeerBuffers buffers;
};
/// Collective. `tensors` are those that direct forms use of other ranks.
Agreed agreeOn(Call &call, const FormChoice &choice, const std::vector<size_t> &tensors, int64_t total,
               int32_t dtype, int64_t root = 0);

/// One collective of at most `n` elements from one rank to another.
class Collective {
public:
  Collective(Call &call, const Agreed &agreed, int64_t n, int32_t dtype);

  /// Launches ops/<op>/<op>_<form>; a failure makes the workspace unusable.
  template <typename... Args> void launch(const Args &...args) {
    launchKernel(kernel(call.op, call.op + "_" + form), {}, args...);
  }

  bool direct() const { return isDirect(form); }
  /// The same for form direct: the kernel begins with tensors of all ranks (everyones, or several of them
  /// together) and ends with how they are taken.
  template <typename Everyones, typename... Args>
  void launchDirect(const Everyones &everyones, const Args &...args) {
    std::apply([&](const auto &...each) { launch(each..., args..., call.world().size(), block, tail); },
               everyones);
  }
  /// Of a direct form: a tensor of all ranks in their order, from rank `first` on.
  PeerBuffers::Everyones everyones(size_t buffer, int first) const { return buffers.everyones(buffer, first); }
  /// The same from the next rank on, so that not all begin with the same.
  PeerBuffers::Everyones others(size_t buffer) const { return everyones(buffer, call.world().rank() + 1); }
  /// Of form direct_copies: `count` elements at `source` go to element `first` of the peer's buffer.
  void sendDirect(int peer, const void *source, int64_t count, int64_t first);
  /// Starts them beside the kernel that copies `own` to `target`, and waits for those of `senders` ranks
  /// from `first` on.
  void takeOwn(const Memory &own, const Memory &target, int64_t n, int64_t first, int64_t senders);
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
  int64_t tail = 0; ///< of a direct form: the block behind whole ones
  Workspace *ws;
  int64_t capacity; ///< elements of one rank's part of a staging buffer
  const PeerBuffers buffers;
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
