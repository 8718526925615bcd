// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// The conformance suite of drivers; README.md says in which order to make it pass.
#include "runtime/base/error.h"
#include "runtime/hal/driver.h"

#include <cstring>
#include <gtest/gtest.h>
#include <vector>

namespace tilery::rt::hal {
namespace {

class DriverTest : public testing::TestWithParam<Driver *> {
protected:
  void SetUp() override {
    if (std::string reason = driver.unavailable(); !reason.empty())
      GTEST_SKIP() << driver.name() << ": " << reason;
  }
  Driver &driver = *GetParam();
};

class Registry : public DriverTest {};
class Memory : public DriverTest {};
class Run : public DriverTest {};

TEST_P(Registry, FindsTheDriverByName) {
  EXPECT_EQ(&hal::driver(driver.name()), &driver);
  EXPECT_GE(driver.deviceCount(), 1);
}

TEST(RegistryErrors, UnknownNameSuggestsTheNearest) {
  try {
    hal::driver("cpus");
    FAIL();
  } catch (const Error &error) {
    EXPECT_EQ(error.kind, TILERY_CONFIG_ERROR);
    EXPECT_EQ(error.message, "there is no driver 'cpus'; did you mean 'cpu'?");
  }
}

TEST_P(Memory, IsZeroedAndAligned) {
  for (size_t bytes : {size_t(1), size_t(4096), size_t(1000003)}) {
    auto *memory = static_cast<char *>(driver.allocate(bytes));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % 4096, 0u);
    std::vector<char> host(bytes, 1);
    driver.copy(host.data(), memory, bytes);
    EXPECT_EQ(host, std::vector<char>(bytes, 0));
    driver.release(memory, bytes);
  }
}

TEST_P(Memory, OfZeroBytesHasAnAddressOfItsOwn) {
  void *first = driver.allocate(0), *second = driver.allocate(0);
  EXPECT_NE(first, nullptr);
  EXPECT_NE(first, second);
  driver.copy(first, second, 0);
  driver.release(first, 0);
  driver.release(second, 0);
  driver.release(nullptr, 0);
}

TEST_P(Memory, BeyondFourGiB) {
  size_t bytes = (size_t(1) << 32) + 4096;
  auto *memory = static_cast<char *>(driver.allocate(bytes));
  char mark = 42, seen = 0;
  driver.copy(memory + bytes - 1, &mark, 1);
  driver.copy(&seen, memory + bytes - 1, 1);
  EXPECT_EQ(seen, 42);
  driver.release(memory, bytes);
}

TEST_P(Memory, MoreThanThereIsFails) {
  try {
    driver.allocate(size_t(1) << 60);
    FAIL();
  } catch (const Error &error) {
    EXPECT_EQ(error.kind, TILERY_LAUNCH_ERROR);
    EXPECT_EQ(error.message.find("cannot allocate 1152921504606846976 bytes of"), 0u);
  }
}

TEST_P(Memory, CopiesBetweenHostAndDevice) {
  std::vector<int> source(1000), back(1000);
  for (int i = 0; i < 1000; ++i)
    source[size_t(i)] = i;
  void *memory = driver.allocate(4000), *other = driver.allocate(4000);
  driver.copy(memory, source.data(), 4000);
  driver.copy(other, memory, 4000);
  driver.copy(back.data(), other, 4000);
  EXPECT_EQ(back, source);
  driver.release(memory, 4000);
  driver.release(other, 4000);
}

struct Visits {
  std::vector<int64_t> order;
};

void visit(tilery_instance *self, const uint64_t *arguments) {
  auto &visits = *reinterpret_cast<Visits *>(arguments[0]);
  const int32_t *id = self->program_id, *extent = self->num_programs;
  visits.order.push_back((int64_t(id[2]) * extent[1] + id[1]) * extent[0] + id[0] +
                         int64_t(arguments[1]));
}

TEST_P(Run, EachInstanceOnceXFastest) {
  Visits visits;
  uint64_t arguments[] = {reinterpret_cast<uint64_t>(&visits), 100};
  tilery_instance instance = {};
  instance.num_programs[0] = 3;
  instance.num_programs[1] = 2;
  instance.num_programs[2] = 2;
  driver.run({visit, arguments, &instance});
  ASSERT_EQ(visits.order.size(), 12u);
  for (int64_t i = 0; i < 12; ++i)
    EXPECT_EQ(visits.order[size_t(i)], 100 + i);
}

TEST_P(Run, EmptyGrid) {
  Visits visits;
  uint64_t arguments[] = {reinterpret_cast<uint64_t>(&visits), 0};
  tilery_instance instance = {};
  instance.num_programs[0] = 3;
  instance.num_programs[2] = 1;
  driver.run({visit, arguments, &instance});
  EXPECT_TRUE(visits.order.empty());
}

std::string driverName(const testing::TestParamInfo<Driver *> &info) {
  return std::string(info.param->name());
}

INSTANTIATE_TEST_SUITE_P(Drivers, Registry, testing::ValuesIn(drivers()), driverName);
INSTANTIATE_TEST_SUITE_P(Drivers, Memory, testing::ValuesIn(drivers()), driverName);
INSTANTIATE_TEST_SUITE_P(Drivers, Run, testing::ValuesIn(drivers()), driverName);

} // namespace
} // namespace tilery::rt::hal
