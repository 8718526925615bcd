// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// What the programs in bench/ that measure beside peers write, as ratios, and their plot.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace tilery::cli {

/// An operator of one shape beside one peer.
struct Contest {
  std::string op;
  std::string shape;   ///< "8192 x 28672", N x K; empty for collectives
  std::string peer;    ///< "NCCL + cuBLAS"
  bool inGraph = true; ///< or launched call by call
  double at = 0;       ///< M, or bytes of one rank
  double ratio = 0;    ///< the peer's time of ours: above 1, ours is faster
};

struct Contests {
  std::string title; ///< "2 x NVIDIA H200"
  bool ofBytes = false;
  std::vector<Contest> all;
};

/// The results in a file of bench/gpu_overlap.py or bench/gpu_collectives.py. Throws a
/// std::runtime_error in the user's words.
nlohmann::json readResults(const std::string &path);
Contests contestsOf(const nlohmann::json &results);

/// Ratios over M, or over bytes: a panel for each operator, both axes logarithmic, in colours for
/// light and for dark pages.
std::string plotOf(const Contests &contests);

} // namespace tilery::cli
