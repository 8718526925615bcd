// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Targets by name and launch options, kept for the life of the process.
#include "capi/targets.h"

#include "runtime/base/error.h"
#include "runtime/base/knobs.h"
#include "runtime/base/log.h"
#include "llvm/ADT/STLExtras.h"

#include <map>
#include <mutex>

using namespace tilery;
using namespace tilery::capi;

static TargetOptions optionsOf(const tilery_options &given, bool timeline, int32_t assemblyVersion) {
  TargetOptions options;
  options.numWarps = int32_t(given.numWarps);
  options.numStages = int32_t(given.numStages);
  options.numCtas = int32_t(given.numCtas);
  options.maxRegisters = int32_t(given.maxRegisters);
  options.fpFusion = given.fpFusion;
  options.debug = given.debug;
  options.timeline = timeline;
  options.assemblyVersion = assemblyVersion;
  options.cpu = rt::knobs().cpu;
  return options;
}

// num_warps and num_stages are hints that any target may take as it likes; these two promise
// something that a CPU does not have.
static void warnUnusable(const tilery_options &options) {
  if (options.numCtas != 1)
    rt::warn(fmt::format("num_ctas={} has no effect on a CPU, which has no thread-block clusters",
                         options.numCtas));
  if (options.maxRegisters != 0)
    rt::warn(fmt::format("maxnreg={} has no effect on a CPU, whose registers are fixed",
                         options.maxRegisters));
}

static std::unique_ptr<Target> make(const std::string &name, const TargetOptions &options) {
  auto target = makeTarget(name, options);
  if (target)
    return std::move(*target);
  bool known = llvm::is_contained(targetNames(), name);
  throw rt::Error(known ? TILERY_TARGET_ERROR : TILERY_CONFIG_ERROR,
                  llvm::toString(target.takeError()));
}

const Target &capi::targetNamed(const std::string &name, const tilery_options *options,
                                bool timeline, int32_t assemblyVersion) {
  static std::mutex mutex;
  static std::map<std::string, std::unique_ptr<Target>> known;
  static const tilery_options defaults;
  const tilery_options &given = options ? *options : defaults;
  std::string key = fmt::format("{} {} {} {} {} {} {} {} {}", name, timeline, assemblyVersion, given.numWarps,
                                given.numStages, given.numCtas, given.maxRegisters,
                                given.fpFusion, given.debug);
  std::lock_guard lock(mutex);
  std::unique_ptr<Target> &target = known[key];
  if (!target) {
    target = make(name, optionsOf(given, timeline, assemblyVersion));
    if (name == "cpu")
      warnUnusable(given);
  }
  return *target;
}

Machine capi::machineFor(int32_t deviceNumber, const tilery_options *options, bool timeline) {
  std::string named = options ? options->target : "";
  frontend::Checks checks;
  if (options)
    checks = {options->assertions, options->debug};
  checks.bounds = rt::knobs().check || (options && options->checkBounds);
  if (named == "cpu" || (named.empty() && deviceNumber == 0))
    return {targetNamed("cpu", options), {}, true, checks};
  if (!named.empty())
    return {targetNamed(named, options, timeline), {}, false, checks};
  rt::hal::DeviceRef where = rt::hal::deviceNumber(deviceNumber);
  const rt::hal::DeviceProperties &device = where.driver->properties(where.device);
  return {targetNamed(device.target, options, timeline, device.assemblyVersion), where, false, checks,
          timeline};
}
