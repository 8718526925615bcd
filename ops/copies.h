// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Calls whose data copy engines bring into the peers' staging buffers, beside the kernel that takes
// it from there.
#pragma once

#include "ops/kernels.h"
#include "ops/workspace.h"

#include <vector>

namespace tilery::ops {

/// How `bytes` are cut: a chunk is there for use when all of it is.
int64_t chooseChunks(int64_t bytes);

/// The copies of one call on one rank. A signal's value is the call's epoch, which is in device
/// memory, so that a recorded call can be replayed.
class Copies {
public:
  Copies(Call &call, const Workspace &ws) : call(call), ws(ws) {}
  /// `bytes` at `source` to `offset` bytes behind the begin of staging on `peer`, where then
  /// ready[slot] is the epoch.
  void add(int peer, const void *source, int64_t offset, int64_t bytes, int64_t slot);
  /// The same to a buffer of the peer's, by the address that PeerBuffers has.
  void addDirect(int peer, const void *source, void *destination, int64_t bytes, int64_t slot);
  /// Begins the call: no rank reads any more what the call before has brought.
  void open();
  std::span<const tilery_transfer> list() const { return transfers; }

private:
  void add(int peer, const void *source, void *destination, int64_t bytes, int64_t slot, bool opened);
  Call &call;
  const Workspace &ws;
  std::vector<tilery_transfer> transfers;
};

} // namespace tilery::ops
