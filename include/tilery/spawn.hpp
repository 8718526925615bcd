// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Ranks as threads of this process.
#pragma once

#include "tilery/world.hpp"

#include <exception>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace tilery {

/// Options of an in-process world; see tilery_group_create.
struct SpawnOptions {
  std::optional<int64_t> seed; // reproducible schedule
  bool delay = false;          // remote writes and signals arrive late and reordered
  int residency = 0;           // program instances a rank can hold, 0: no limit
  double timeoutSeconds = 60;
  std::string trace; // file of the timeline, empty: none

  std::string json(int ranks) const {
    std::string text =
        "{\"ranks\":" + std::to_string(ranks) + ",\"timeout_s\":" + std::to_string(timeoutSeconds) +
        ",\"delay\":" + (delay ? "true" : "false") + ",\"residency\":" + std::to_string(residency);
    if (seed)
      text += ",\"seed\":" + std::to_string(*seed);
    if (!trace.empty())
      text += ",\"trace\":\"" + escaped(trace) + "\"";
    return text + "}";
  }

private:
  static std::string escaped(const std::string &text) {
    std::string result;
    for (char c : text)
      result += (c == '"' || c == '\\') ? std::string{'\\', c} : std::string{c};
    return result;
  }
};

/// Ranks of one process, as a handle; `spawn` is the usual way to use it.
class Group {
public:
  explicit Group(int ranks, const SpawnOptions &options = {}) : ranks(ranks) {
    check(tilery_group_create(options.json(ranks).c_str(), &handle));
  }
  Group(const Group &) = delete;
  ~Group() { tilery_group_destroy(handle); }
  /// Binds `rank` to the calling thread.
  World world(int rank) {
    tilery_world *world = nullptr;
    check(tilery_group_rank(handle, rank, &world));
    return World(world);
  }
  void abort(int rank, const char *reason) { tilery_group_abort(handle, rank, reason); }
  int size() const { return ranks; }

private:
  tilery_group *handle = nullptr;
  int ranks;
};

/// Calls `body(World &)` once a rank, each on a thread of its own. Throws what the first
/// failing rank threw; the others' waits end with Kind::Peer.
template <typename Body> void spawn(int ranks, Body &&body, const SpawnOptions &options = {}) {
  Group group(ranks, options);
  std::mutex mutex;
  std::exception_ptr cause, consequence;
  auto drive = [&](int rank) {
    auto failed = [&](std::exception_ptr &kept, const char *reason) {
      group.abort(rank, reason);
      std::lock_guard lock(mutex);
      if (!kept)
        kept = std::current_exception();
    };
    try {
      World world = group.world(rank);
      body(world);
      world.finalize();
    } catch (const Error &error) {
      failed(error.kind() == Kind::Peer ? consequence : cause, error.what());
    } catch (const std::exception &error) {
      failed(cause, error.what());
    } catch (...) {
      failed(cause, "unknown exception");
    }
  };
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back(drive, rank);
  for (std::thread &thread : threads)
    thread.join();
  if (cause || consequence)
    std::rethrow_exception(cause ? cause : consequence);
}

} // namespace tilery
