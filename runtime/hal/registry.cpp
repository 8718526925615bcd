// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// The list of drivers; the one place that names the vendors' folders.
#include "runtime/base/error.h"
#include "runtime/base/nearest_name.h"
#include "runtime/hal/driver.h"

#include <charconv>

namespace tilery::rt::hal {

Driver &cpuDriver();
Driver &cudaDriver();

std::vector<Driver *> drivers() { return {&cpuDriver(), &cudaDriver()}; }

Driver &driver(std::string_view name) {
  std::vector<std::string_view> known;
  for (Driver *candidate : drivers()) {
    known.push_back(candidate->name());
    if (candidate->name() != name)
      continue;
    if (std::string reason = candidate->unavailable(); !reason.empty())
      raise(TILERY_TARGET_ERROR, "driver '{}' cannot be used here: {}", name, reason);
    return *candidate;
  }
  raise(TILERY_CONFIG_ERROR, "there is no driver '{}'{}", name, didYouMean(name, known));
}

// Numbers are asked for on each launch: the list is made once.
static const std::vector<Driver *> &loadingDrivers() {
  static const std::vector<Driver *> list = [] {
    std::vector<Driver *> found;
    for (Driver *candidate : drivers())
      if (!candidate->runsInProcess())
        found.push_back(candidate);
    return found;
  }();
  return list;
}

static int countOf(const Driver &driver) {
  return driver.unavailable().empty() ? driver.deviceCount() : 0;
}

DeviceRef deviceNumber(int32_t number) {
  if (number == 0)
    return {&cpuDriver(), 0};
  int32_t left = number - 1;
  std::string reasons;
  for (Driver *candidate : loadingDrivers()) {
    int count = countOf(*candidate);
    if (left >= 0 && left < count)
      return {candidate, left};
    left -= count;
    if (std::string reason = candidate->unavailable(); !reason.empty())
      reasons += fmt::format("\nnote: driver '{}' cannot be used here: {}", candidate->name(), reason);
  }
  raise(TILERY_LAUNCH_ERROR, "there is no device number {}{}", number, reasons);
}

int32_t numberOf(const Driver &driver, int device) {
  int32_t number = 1;
  for (Driver *candidate : loadingDrivers()) {
    if (candidate == &driver)
      return number + device;
    number += countOf(*candidate);
  }
  return 0;
}

int32_t deviceNumberNamed(std::string_view text) {
  size_t colon = text.find(':');
  Driver &found = driver(text.substr(0, colon));
  if (found.runsInProcess())
    return 0;
  int device = 0;
  std::string_view digits = colon == text.npos ? "0" : text.substr(colon + 1);
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), device);
  if (error != std::errc() || end != digits.data() + digits.size() || device < 0 ||
      device >= found.deviceCount())
    raise(TILERY_CONFIG_ERROR, "there is no device '{}': the driver '{}' has {} devices", text,
          found.name(), found.deviceCount());
  return numberOf(found, device);
}

int32_t deviceNumberOf(const void *address) {
  for (Driver *candidate : loadingDrivers()) {
    if (!candidate->inUse())
      continue;
    if (int device = candidate->deviceOf(address); device >= 0)
      return numberOf(*candidate, device);
  }
  return 0;
}

void Driver::refuse(const char *what) const {
  raise(TILERY_TARGET_ERROR, "driver '{}' cannot {}", name(), what);
}

void Driver::run(const GridRun &) { refuse("run functions of this process"); }
static constexpr const char *Share = "share memory between devices and processes";
void *Driver::allocateReachable(size_t, int) { refuse(Share); }
std::string Driver::unreachable(int device, int owner) const {
  return device == owner ? "" : fmt::format("the driver '{}' cannot {}", name(), Share);
}
void Driver::reach(void *, int) { refuse(Share); }
ExportedMemory Driver::exportMemory(void *) { refuse(Share); }
void *Driver::importMemory(std::span<const ExportedMemory>, int) { refuse(Share); }
LoadedKernel *Driver::load(int, std::string_view, const std::string &, const KernelShape &) {
  refuse("load code");
}
void Driver::unload(LoadedKernel *) {}
int64_t Driver::residentInstances(const LoadedKernel &) { refuse("load code"); }
void Driver::beginRecording(int, Stream) { refuse("record"); }
Recording Driver::endRecording(int, Stream) { refuse("record"); }
void Driver::replay(Recording, int, Stream) { refuse("record"); }
void Driver::destroyRecording(int, Recording) {}
void Driver::launch(const DeviceLaunch &) { refuse("launch loaded code"); }
ClockReading Driver::readClock(int) { refuse("launch loaded code"); }
std::string Driver::encodeTensorMap(const TensorMapShape &, TensorMap &) {
  return "the device has no bulk tensor copies";
}

} // namespace tilery::rt::hal
