// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Keeps the disk cache below its size: the least recently used entries go first.
#pragma once

#include <cstdint>
#include <filesystem>

namespace tilery::capi {

/// Marks an entry as used now.
void touchEntry(const std::filesystem::path &path);

/// Call after an entry of `bytes` was written. Looks at the directory now and then only, so that it
/// may hold a sixteenth more than TILERY_CACHE_BYTES for a while.
void limitCache(const std::filesystem::path &directory, int64_t bytes);

} // namespace tilery::capi
