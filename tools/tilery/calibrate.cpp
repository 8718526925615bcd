// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// `tilery calibrate`: starts itself once for each GPU, and as a rank measures.
#include "tools/tilery/commands.h"
#include "tools/tilery/run.h"

#include "tilery/tilery.h"

#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

namespace tilery::cli {

using Json = nlohmann::json;

static std::string sizeText(int64_t bytes) {
  return bytes >= 1 << 20 ? fmt::format("{} MiB", bytes >> 20) : fmt::format("{} KiB", bytes >> 10);
}

// Points of curves: "all_gather.push.1024".
static void print(const Json &figures) {
  std::map<std::string, std::map<int64_t, double>> curves;
  for (const auto &[key, value] : figures.items()) {
    std::string last = key.substr(key.rfind('.') + 1);
    if (key.find('.') != key.npos && last.find_first_not_of("0123456789") == last.npos)
      curves[key.substr(0, key.rfind('.'))][std::stoll(last)] = value;
  }
  fmt::print("{} ranks, measured in {:.1f} s; us for so many bytes sent\n", figures.value("ranks", 0),
             figures.value("seconds", 0.0));
  for (const auto &[name, points] : curves) {
    fmt::print("{:<24}", name);
    for (auto [bytes, time] : points)
      fmt::print("  {}: {:.1f}", sizeText(bytes), time);
    fmt::print("\n");
  }
}

static int write(const std::string &path, const char *text) {
  std::ofstream file(path);
  file << text;
  if (file.close(); file)
    return 0;
  fmt::print(stderr, "tilery: ConfigError: cannot write '{}'\n", path);
  return 1;
}

static int measureAsRank(const CalibrateRequest &request) {
  tilery_world *world = nullptr;
  const char *figures = nullptr;
  int status = tilery_world_init(R"({"device": "cuda"})", &world);
  if (!status)
    status = tilery_calibrate(world, &figures);
  if (status)
    status = reportFailure(status);
  else if (tilery_world_rank(world) == 0) {
    print(Json::parse(figures));
    status = request.output.empty() ? 0 : write(request.output, figures);
  }
  tilery_world_finalize(world);
  return status;
}

int calibrateCommand(const CalibrateRequest &request) {
  if (getenv("RANK") || getenv("OMPI_COMM_WORLD_RANK") || getenv("PMI_RANK"))
    return measureAsRank(request);
  std::string self = std::filesystem::read_symlink("/proc/self/exe");
  std::vector<std::string> command = {self, "calibrate"};
  if (!request.output.empty())
    command.insert(command.end(), {"--output", request.output});
  return tools::runCommand({request.ranks}, command);
}

} // namespace tilery::cli
