// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Plans of transfers.
#include "ops/copies.h"
#include "ops/launch_options.h"

namespace tilery::ops {

// Behind the last chunk its consumer works alone, so chunks are small; each costs the copy engine a
// pause, so they are not smaller.
int64_t chooseChunks(int64_t bytes) {
  constexpr int64_t chunkBytes = 8 << 20, most = 32;
  return std::clamp<int64_t>(bytes / chunkBytes, 1, most);
}

template <typename T> static T *at(const Memory &memory, int64_t bytes) {
  return reinterpret_cast<T *>(static_cast<char *>(const_cast<void *>(memory.data)) + bytes);
}

void Copies::add(int peer, const void *source, int64_t offset, int64_t bytes, int64_t slot) {
  add(peer, source, at<void>(ws.stage(TILERY_INT8), offset), bytes, slot, false);
}

void Copies::addDirect(int peer, const void *source, void *destination, int64_t bytes,
                       int64_t slot) {
  add(peer, source, destination, bytes, slot, true);
}

void Copies::add(int peer, const void *source, void *destination, int64_t bytes, int64_t slot,
                 bool opened) {
  transfers.push_back({destination, source, size_t(bytes), peer, at<uint64_t>(ws.ready, slot * 8),
                       at<uint64_t>(ws.epochs, 0), opened});
}

void Copies::open() {
  sharedKernel("open_call")
      .launch(call.world(), {.options = launchOptions(call.device(), 1)}, ws.entered, ws.epochs);
}

} // namespace tilery::ops
