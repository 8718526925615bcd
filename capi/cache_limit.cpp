// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Eviction by time of last use, which is the file's time of modification: directories are often mounted
// so that reading leaves no trace. Several processes may evict at once; a file that is gone already is
// no error, and one that is in use stays readable to its user.
#include "capi/cache_limit.h"

#include "runtime/base/knobs.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <vector>

namespace tilery::capi {

namespace fs = std::filesystem;

namespace {
struct File {
  fs::path path;
  int64_t bytes;
  fs::file_time_type used;
};
} // namespace

void touchEntry(const fs::path &path) {
  std::error_code error;
  fs::last_write_time(path, fs::file_time_type::clock::now(), error);
}

// Files of processes that ended while they wrote count as entries once nobody can be writing them.
static bool isEntry(const fs::path &path, fs::file_time_type used) {
  if (path.extension() == ".kernel")
    return true;
  bool unfinished = path.filename().string().find(".kernel.") != std::string::npos;
  return unfinished && fs::file_time_type::clock::now() - used > std::chrono::hours(1);
}

static std::vector<File> entriesOf(const fs::path &directory) {
  std::vector<File> files;
  std::error_code error;
  for (const auto &entry : fs::directory_iterator(directory, error)) {
    std::error_code gone;
    auto bytes = int64_t(entry.file_size(gone));
    fs::file_time_type used = entry.last_write_time(gone);
    if (!gone && isEntry(entry.path(), used))
      files.push_back({entry.path(), bytes, used});
  }
  return files;
}

static void evict(const fs::path &directory, int64_t limit) {
  std::vector<File> files = entriesOf(directory);
  int64_t total = 0;
  for (const File &file : files)
    total += file.bytes;
  if (total <= limit)
    return;
  std::sort(files.begin(), files.end(),
            [](const File &a, const File &b) { return a.used < b.used; });
  // Some room, so that the next few entries need no eviction. The newest entry always stays.
  for (size_t i = 0; i + 1 < files.size() && total > limit - limit / 10; ++i) {
    std::error_code gone;
    fs::remove(files[i].path, gone);
    total -= files[i].bytes;
  }
}

void limitCache(const fs::path &directory, int64_t bytes) {
  static std::atomic<int64_t> unseen = -1; // bytes written since the last look; -1: none yet
  int64_t limit = rt::knobs().cacheBytes;
  if (limit == 0)
    return;
  int64_t before = unseen.fetch_add(bytes);
  if (before >= 0 && before + bytes <= limit / 16)
    return;
  unseen = 0;
  evict(directory, limit);
}

} // namespace tilery::capi
