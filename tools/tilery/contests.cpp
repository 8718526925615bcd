// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
#include "tools/tilery/contests.h"

#include <algorithm>
#include <fmt/format.h>
#include <fstream>
#include <stdexcept>

namespace tilery::cli {

using Json = nlohmann::json;

Json readResults(const std::string &path) {
  std::ifstream file(path);
  if (!file.is_open())
    throw std::runtime_error(fmt::format("'{}' cannot be opened", path));
  Json read = Json::parse(file, nullptr, false);
  if (read.is_discarded())
    throw std::runtime_error(fmt::format("'{}' cannot be read as JSON", path));
  bool good = read.is_object() && read.contains("results") && read["results"].is_array() &&
              !read["results"].empty();
  for (const Json &entry : good ? read["results"] : Json::array())
    good &= entry.is_object() && entry.contains("op") &&
            (entry.contains("ours") || entry.contains("expected")) && // whose chosen form may have failed
            (entry.contains("m") || entry.contains("bytes"));
  if (!good)
    throw std::runtime_error(
        fmt::format("'{}' has no times of operators beside peers\nhint: "
                    "bench/gpu_overlap.py and bench/gpu_collectives.py write them",
                    path));
  return read;
}

// torch has several operators for some collectives: the fastest counts.
static double timeOf(const Json &times, const std::string &peer) {
  double best = 0;
  for (const auto &[name, time] : times.items())
    if (name.starts_with(peer) && time.is_number() && (best == 0 || time.get<double>() < best))
      best = time.get<double>();
  return best;
}

static void addContests(std::vector<Contest> &all, const Json &entry, const Json &times,
                        bool inGraph) {
  bool ofBytes = !entry.contains("m");
  std::string shape =
      ofBytes ? "" : fmt::format("{} x {}", entry.value("n", 0), entry.value("k", 0));
  double ours = timeOf(times, "ours");
  const std::pair<const char *, const char *> peers[] = {
      {"nccl", ofBytes ? "NCCL" : "NCCL + cuBLAS"}, {"torch", "torch"}};
  for (auto [name, shown] : peers)
    if (double theirs = timeOf(times, name); theirs > 0 && ours > 0)
      all.push_back(
          {entry["op"], shape, shown, inGraph, entry[ofBytes ? "bytes" : "m"], theirs / ours});
}

Contests contestsOf(const Json &results) {
  Contests contests;
  contests.title = fmt::format("{} x {}", results.value("ranks", 1), results.value("gpu", "GPU"));
  for (const Json &entry : results["results"]) {
    contests.ofBytes |= !entry.contains("m");
    addContests(contests.all, entry, entry, true);
    if (entry.contains("eager"))
      addContests(contests.all, entry, entry["eager"], false);
  }
  if (contests.all.empty())
    throw std::runtime_error("no peer was measured, so that there is nothing to compare with");
  return contests;
}

} // namespace tilery::cli
