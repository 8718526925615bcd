// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Which job this process is a rank of, from explicit options or the launcher's variables.
#pragma once

#include <optional>
#include <string>

namespace tilery::rt {

struct Job {
  int rank = 0;
  int size = 1;
  /// The number among the ranks of this host.
  int localRank = 0;
  /// Ranks on this host when the launcher says so, else 0.
  int localSize = 0;
  std::string masterAddress;
  std::string masterPort;
  /// Tells jobs of one user on one host apart; the same text on all ranks.
  std::string name;
  /// What every rank has to present; "" when the launcher gives none.
  std::string token;
  /// For messages: "torchrun (RANK, WORLD_SIZE)".
  std::string launcher;
};

/// What a program states itself; unset members come from the environment.
struct JobOptions {
  std::optional<int> rank;
  std::optional<int> size;
  std::string masterAddress;
  std::string masterPort;
  std::string token;
};

/// Nothing when no launcher is recognised. ConfigError for contradictions.
std::optional<Job> findJob(const JobOptions &options);

/// Raises a ConfigError when the ranks are on several hosts, listing this host's interfaces.
void requireOneHost(const Job &job);

/// "lo 127.0.0.1, eth0 10.0.0.5".
std::string listInterfaces();

} // namespace tilery::rt
