// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// `tilery profile`: where program instances waited, from a timeline.
#include "tools/tilery/commands.h"
#include "tools/tilery/run.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>
#include <unistd.h>

namespace tilery::cli {

using Json = nlohmann::json;

namespace {

/// One kernel on one rank; times in microseconds.
struct KernelTime {
  int64_t launches = 0, instances = 0;
  double launchTime = 0, instanceTime = 0, waitTime = 0;
};

/// One place of a kernel where program instances of a rank wait.
struct WaitTime {
  std::string signal;
  int64_t count = 0;
  double total = 0, longest = 0;
};

using KernelKey = std::pair<int, std::string>; // rank, kernel
/// rank, kernel, place, whether copying warps wait, which does not keep the others from computing.
using WaitKey = std::tuple<int, std::string, std::string, bool>;

struct Profile {
  std::map<KernelKey, KernelTime> kernels;
  std::map<WaitKey, WaitTime> waits;

  void add(const Json &event);
  double share(const WaitKey &key, const WaitTime &wait) const;
  std::vector<std::pair<WaitKey, WaitTime>> longestWaits(size_t count) const;
};

} // namespace

// "wait 'ready'[3] (ring.py:12)" is one of the waits for "ready" there.
static std::string signalOf(const std::string &name) {
  constexpr size_t Prefix = std::string_view("wait ").size();
  std::string signal = name.substr(std::min(Prefix, name.size()));
  if (signal.starts_with('\''))
    return signal.substr(1, signal.find('\'', 1) - 1);
  return signal.substr(0, signal.rfind(" ("));
}

void Profile::add(const Json &event) {
  if (event.value("ph", "") != "X")
    return;
  std::string category = event.value("cat", ""), name = event.value("name", "");
  const Json arguments = event.value("args", Json::object());
  int rank = event.value("pid", 0);
  double time = event.value("dur", 0.0);
  std::string kernel = category == "wait" ? arguments.value("kernel", "") : name;
  if (category == "launch") {
    KernelTime &of = kernels[{rank, kernel}];
    ++of.launches;
    of.launchTime += time;
  } else if (category == "instance") {
    KernelTime &of = kernels[{rank, kernel}];
    ++of.instances;
    of.instanceTime += time;
  } else if (category == "wait") {
    bool copies = arguments.value("copies", false);
    WaitTime &wait = waits[{rank, kernel, arguments.value("at", ""), copies}];
    wait.signal = signalOf(name);
    ++wait.count;
    wait.total += time;
    wait.longest = std::max(wait.longest, time);
    if (!copies)
      kernels[{rank, kernel}].waitTime += time;
  }
}

double Profile::share(const WaitKey &key, const WaitTime &wait) const {
  auto kernel = kernels.find({std::get<0>(key), std::get<1>(key)});
  bool known = kernel != kernels.end() && kernel->second.instanceTime > 0;
  return known ? wait.total / kernel->second.instanceTime : 0;
}

std::vector<std::pair<WaitKey, WaitTime>> Profile::longestWaits(size_t count) const {
  std::vector<std::pair<WaitKey, WaitTime>> sorted(waits.begin(), waits.end());
  std::sort(sorted.begin(), sorted.end(), [](const auto &a, const auto &b) {
    return std::pair(-a.second.total, a.first) < std::pair(-b.second.total, b.first);
  });
  if (sorted.size() > count)
    sorted.resize(count);
  return sorted;
}

static Json toJson(const Profile &profile, size_t top) {
  Json kernels = Json::array(), waits = Json::array();
  for (const auto &[key, of] : profile.kernels)
    kernels.push_back({{"rank", key.first},
                       {"kernel", key.second},
                       {"launches", of.launches},
                       {"instances", of.instances},
                       {"launch_us", of.launchTime},
                       {"instance_us", of.instanceTime},
                       {"wait_us", of.waitTime}});
  for (const auto &[key, wait] : profile.longestWaits(top))
    waits.push_back({{"rank", std::get<0>(key)},
                     {"kernel", std::get<1>(key)},
                     {"at", std::get<2>(key)},
                     {"copies", std::get<3>(key)},
                     {"signal", wait.signal},
                     {"waits", wait.count},
                     {"total_us", wait.total},
                     {"longest_us", wait.longest},
                     {"share", profile.share(key, wait)}});
  return {{"kernels", kernels}, {"waits", waits}};
}

static void print(const Profile &profile, size_t top) {
  fmt::print("{:>4} {:>9} {:>12} {:>10}  {}\n", "rank", "launches", "time ms", "waiting", "kernel");
  for (const auto &[key, of] : profile.kernels)
    fmt::print("{:>4} {:>9} {:>12.3f} {:>8.1f} %  {}\n", key.first, of.launches,
               of.launchTime * 1e-3, of.instanceTime > 0 ? 100 * of.waitTime / of.instanceTime : 0,
               key.second);
  fmt::print("\nwhere program instances waited, as a share of their kernel's time\n"
             "{:>4} {:>8} {:>12} {:>8} {:>11}  {}\n",
             "rank", "share", "total ms", "waits", "longest us", "kernel: signal (place)");
  for (const auto &[key, wait] : profile.longestWaits(top)) {
    const auto &[rank, kernel, at, copies] = key;
    fmt::print("{:>4} {:>6.1f} % {:>12.3f} {:>8} {:>11.1f}  {}: {}{}{}\n", rank,
               100 * profile.share(key, wait), wait.total * 1e-3, wait.count, wait.longest, kernel,
               wait.signal, at.empty() ? "" : fmt::format(" ({})", at),
               copies ? ", copying warp" : "");
  }
  if (profile.waits.empty())
    fmt::print("  nobody waited\n");
}

static int report(const std::string &path, const ProfileRequest &request) {
  std::ifstream file(path);
  if (!file) {
    fmt::print(stderr, "tilery: ConfigError: there is no timeline '{}'\n", path);
    return 1;
  }
  Json timeline = Json::parse(file, nullptr, false);
  if (timeline.is_discarded() || !timeline.contains("traceEvents")) {
    fmt::print(stderr, "tilery: ConfigError: '{}' is not a timeline\n", path);
    return 1;
  }
  Profile profile;
  for (const Json &event : timeline["traceEvents"])
    profile.add(event);
  if (request.json)
    fmt::print("{}\n", toJson(profile, size_t(request.top)).dump(2));
  else
    print(profile, size_t(request.top));
  return 0;
}

int profileCommand(const ProfileRequest &request, const std::vector<std::string> &words) {
  if (words[0].ends_with(".json")) {
    if (words.size() == 1)
      return report(words[0], request);
    fmt::print(stderr,
               "tilery: ConfigError: '{}' stands behind the timeline; options come before it\n",
               words[1]);
    return 1;
  }
  std::string path = request.output;
  if (path.empty())
    path =
        std::filesystem::temp_directory_path() / fmt::format("tilery-timeline-{}.json", getpid());
  setenv("TILERY_TRACE", std::filesystem::absolute(path).c_str(), 1);
  std::filesystem::remove(path);
  int status = tools::runCommand({request.ranks}, words);
  if (status == 0)
    status = report(path, request);
  if (request.output.empty())
    std::filesystem::remove(path);
  return status;
}

} // namespace tilery::cli
