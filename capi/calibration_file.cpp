// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Where the measured costs of operators are kept: a file beside the compiled kernels for each set of
// devices, number of ranks, driver and build, or the file that TILERY_CALIBRATION names.
#include "capi/error.h"
#include "capi/kernel_cache.h"
#include "capi/world.h"
#include "runtime/base/knobs.h"
#include "runtime/base/log.h"
#include "runtime/hal/driver.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/SHA256.h"

#include <array>
#include <cstring>
#include <fstream>
#include <sstream>

using namespace tilery;
using namespace tilery::capi;
namespace fs = std::filesystem;

static std::string readFile(const fs::path &path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

namespace {
/// A rank's device, by what tells its links: two of one kind may be joined in another way.
struct DeviceName {
  std::array<char, 64> identity{};
  int32_t assembly = 0, ranks = 0;
};
} // namespace

// Collective. The driver's version shows in the assembly that it takes.
static std::string machineOf(rt::World &world) {
  auto [driver, device] = rt::hal::deviceNumber(world.deviceNumber());
  const rt::hal::DeviceProperties &known = driver->properties(device);
  DeviceName own;
  std::string name = known.identity.empty() ? known.name : known.identity;
  std::memcpy(own.identity.data(), name.data(), std::min(name.size(), own.identity.size() - 1));
  own.assembly = known.assemblyVersion;
  own.ranks = world.ranksOnDevice();
  std::vector<DeviceName> all(size_t(world.size()));
  world.allGather(&own, all.data(), sizeof(own));
  std::string text = buildId();
  for (const DeviceName &each : all)
    text += fmt::format("\n{} {} {}", each.identity.data(), each.assembly, each.ranks);
  return text;
}

// Collective.
static fs::path keptPath(rt::World &world) {
  auto hash = llvm::SHA256::hash(llvm::arrayRefFromStringRef(machineOf(world)));
  return cacheDirectory() / (llvm::toHex(hash, true).substr(0, 40) + ".calibration.json");
}

namespace {
struct Figures {
  std::string text;
  bool isNamed = false; ///< by TILERY_CALIBRATION
};
} // namespace

// Collective: rank 0's, so that all ranks choose by the same ones.
static Figures shared(rt::World &world, Figures own) {
  struct Header {
    uint64_t bytes, isNamed;
  };
  std::vector<Header> headers(size_t(world.size()));
  Header header{own.text.size(), own.isNamed};
  world.allGather(&header, headers.data(), sizeof(header));
  auto [bytes, isNamed] = headers[0];
  own.text.resize(bytes);
  std::string all(bytes * headers.size(), '\0');
  if (bytes > 0)
    world.allGather(own.text.data(), all.data(), bytes);
  return {all.substr(0, bytes), isNamed != 0};
}

static std::string chosenText() {
  const std::string &chosen = rt::knobs().calibration;
  if (chosen == "off")
    return chosen;
  std::string text = readFile(chosen);
  if (text.empty())
    rt::raise(TILERY_CONFIG_ERROR,
              "TILERY_CALIBRATION names '{}', which cannot be read\nhint: leave it empty to measure "
              "this machine, or set it to off",
              chosen);
  return text;
}

static Figures load(rt::World &world) {
  if (!rt::knobs().calibration.empty())
    return shared(world, {chosenText(), true});
  fs::path path = keptPath(world);
  bool reads = world.rank() == 0 && isPrivate(cacheDirectory());
  return shared(world, {reads ? readFile(path) : "", false});
}

static void store(rt::World &world, const char *text) {
  fs::path path = keptPath(world);
  if (world.rank() == 0 && prepareDirectory() && !replaceFile(path, text))
    rt::warn("the calibration cannot be written to " + path.string() +
             "; set TILERY_CACHE_DIR to a directory that can");
}

extern "C" {

tilery_status tilery_calibration_load(tilery_world *world, const char **json, int32_t *is_named) {
  static thread_local Figures figures;
  return guarded([&] {
    figures = load(*WorldUse(require(world, "the world")).get());
    require(json, "the result") = figures.text.c_str();
    require(is_named, "the result") = figures.isNamed;
  });
}

tilery_status tilery_calibration_store(tilery_world *world, const char *json) {
  return guarded(
      [&] { store(*WorldUse(require(world, "the world")).get(), &require(json, "the text")); });
}

void tilery_log_warning(const char *text) {
  if (text)
    rt::warn(text);
}

} // extern "C"
