// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// The pieces that the functions of tilery_device_api share.
#pragma once

#include "runtime/launch/instance.h"

namespace tilery::rt {

/// Runs `action`; an error of it is recorded and the instance abandoned, after everything that
/// `action` held has been destroyed.
template <typename Action> void guarded(Instance &self, int32_t site, Action action) {
  try {
    action();
    return;
  } catch (const Error &error) {
    self.setError(error, site);
  }
  self.abandon();
}

struct RemoteSignal {
  uint64_t *signal; // this rank's address
  int32_t rank;
  uint64_t value;
  int32_t op;
};

/// Raises unless [address, address + bytes) is symmetric and the rank exists.
void checkRemote(const Instance &self, const void *address, int64_t bytes, int32_t rank,
                 const char *what);
/// Everything the instance wrote before arrives first.
void updateRemoteSignal(Instance &self, const RemoteSignal &update, int32_t site);
void traceTransfer(Instance &self, TraceKind kind, const char *name, int32_t peer, int64_t amount,
                   int64_t beginNs);

// Members of the table that have files of their own.
void put(tilery_instance *abi, void *destination, const void *source, int64_t bytes, int32_t rank,
         uint64_t *signal, uint64_t value, int32_t op, int32_t nbi, int32_t site);
void get(tilery_instance *abi, void *destination, const void *source, int64_t bytes, int32_t rank,
         int32_t nbi, int32_t site);
void remoteStore(tilery_instance *abi, const uint64_t *addresses, const void *values,
                 const uint8_t *mask, int64_t count, int32_t elementBytes, int32_t site);
void remoteLoad(tilery_instance *abi, const uint64_t *addresses, void *values, const uint8_t *mask,
                int64_t count, int32_t elementBytes, int32_t site);
void printTile(tilery_instance *abi, const char *prefix, int32_t kind, const void *values,
               const int64_t *shape, int32_t rank, int32_t hex, int32_t site);

} // namespace tilery::rt
