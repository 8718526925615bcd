// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// The list of drivers; the one place that names the vendors' folders.
#include "runtime/base/error.h"
#include "runtime/base/nearest_name.h"
#include "runtime/hal/driver.h"

namespace tilery::rt::hal {

Driver &cpuDriver();

std::vector<Driver *> drivers() { return {&cpuDriver()}; }

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

} // namespace tilery::rt::hal
