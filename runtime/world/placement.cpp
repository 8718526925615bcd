// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/world/placement.h"

namespace tilery::rt {

std::string deviceText(hal::DeviceRef where) {
  if (!where.driver || where.driver->runsInProcess())
    return "the host";
  return fmt::format("{}:{} ({})", where.driver->name(), where.device,
                     where.driver->properties(where.device).name);
}

static void requireOneDriver(const std::vector<int32_t> &numbers) {
  for (int32_t number : numbers)
    if (hal::deviceNumber(number).driver != hal::deviceNumber(numbers[0]).driver)
      raise(TILERY_CONFIG_ERROR,
            "the ranks of one world have their memory on devices of one kind, not "
            "on {} and {}",
            deviceText(hal::deviceNumber(numbers[0])), deviceText(hal::deviceNumber(number)));
}

std::vector<int32_t> placeRanks(const WorldOptions &options) {
  const std::vector<std::string> &names = options.deviceNames;
  auto ranks = size_t(options.ranks);
  if (names.empty())
    return std::vector<int32_t>(ranks, options.device);
  if (names.size() > ranks || (names.size() > 1 && names.size() < ranks && !options.shareDevice))
    raise(TILERY_CONFIG_ERROR,
          "{} ranks have {} devices ({})\nhint: name one a rank, or one for all; share_device=True "
          "lets ranks take fewer in turn",
          ranks, names.size(), fmt::join(names, ", "));
  std::vector<int32_t> numbers;
  for (size_t rank = 0; rank < ranks; ++rank)
    numbers.push_back(hal::deviceNumberNamed(names[rank % names.size()]));
  requireOneDriver(numbers);
  return numbers;
}

int32_t placeProcess(const WorldOptions &options, const Job &job) {
  const std::vector<std::string> &names = options.deviceNames;
  bool leavesChoice = names.size() == 1 && names[0].find(':') == std::string::npos;
  if (!leavesChoice)
    return placeRanks(options)[size_t(job.rank)];
  int32_t first = hal::deviceNumberNamed(names[0]);
  hal::Driver &driver = *hal::deviceNumber(first).driver;
  return driver.runsInProcess() ? first : first + job.localRank % driver.deviceCount();
}

} // namespace tilery::rt
