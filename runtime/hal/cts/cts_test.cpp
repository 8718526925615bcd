// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// The conformance suite of drivers; README.md says in which order to make it pass.
#include "runtime/base/clock.h"
#include "runtime/base/error.h"
#include "runtime/hal/cts/kernel_texts.h"
#include "runtime/hal/driver.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <gtest/gtest.h>
#include <thread>
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
class Work : public DriverTest {};
class Run : public DriverTest {
protected:
  void SetUp() override {
    DriverTest::SetUp();
    if (!IsSkipped() && !driver.runsInProcess())
      GTEST_SKIP() << driver.name() << ": loads code, and runs no functions of this process";
  }
};
class Code : public DriverTest {
protected:
  void SetUp() override {
    DriverTest::SetUp();
    if (!IsSkipped() && driver.runsInProcess())
      GTEST_SKIP() << driver.name() << ": runs functions of this process, and loads no code";
  }
};

TEST_P(Registry, FindsTheDriverByName) {
  EXPECT_EQ(&hal::driver(driver.name()), &driver);
  EXPECT_GE(driver.deviceCount(), 1);
}

TEST_P(Registry, DescribesItsDevices) {
  for (int device = 0; device < driver.deviceCount(); ++device) {
    const DeviceProperties &properties = driver.properties(device);
    EXPECT_FALSE(properties.name.empty());
    EXPECT_FALSE(properties.target.empty());
    EXPECT_GE(properties.processors, 1);
  }
}

TEST_P(Registry, NumbersItsDevices) {
  for (int device = 0; device < driver.deviceCount(); ++device) {
    DeviceRef found = deviceNumber(numberOf(driver, device));
    EXPECT_EQ(found.driver, &driver);
    EXPECT_EQ(found.device, device);
  }
  EXPECT_THROW(deviceNumber(1000), Error);
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

TEST_P(Memory, IsFoundByItsAddress) {
  void *memory = driver.allocate(100);
  int onStack = 0;
  EXPECT_EQ(deviceNumberOf(static_cast<char *>(memory) + 99), numberOf(driver, 0));
  EXPECT_EQ(deviceNumberOf(&onStack), 0);
  EXPECT_EQ(deviceNumberOf(nullptr), 0);
  driver.release(memory, 100);
}

TEST_P(Memory, SharedWithTheHost) {
  auto *memory = static_cast<int *>(driver.allocateShared(4096));
  EXPECT_EQ(memory[1023], 0);
  memory[1023] = 5;
  int seen = 0;
  driver.copy(&seen, memory + 1023, sizeof seen);
  EXPECT_EQ(seen, 5);
  driver.releaseShared(memory, 4096);
}

TEST_P(Work, HappensInTheOrderOfAStream) {
  Stream stream = driver.createStream(0);
  auto *memory = static_cast<char *>(driver.allocate(1 << 20));
  std::vector<char> host(1 << 20, 3);
  driver.fillAsync(memory, 7, 1 << 20, 0, stream);
  driver.fillAsync(memory + 10, 8, 1, 0, stream);
  driver.copyAsync(host.data(), memory, 1 << 20, 0, stream);
  driver.copyAsync(host.data(), memory, 0, 0, stream);
  driver.synchronize(0, stream);
  EXPECT_EQ(host[9], 7);
  EXPECT_EQ(host[10], 8);
  EXPECT_EQ(host.back(), 7);
  EXPECT_EQ(driver.recordingOf(0, stream), 0u);
  driver.destroyStream(0, stream);
  driver.synchronizeDevice(0);
  driver.release(memory, 1 << 20);
}

TEST_P(Work, EventsOrderStreamsAndTellTime) {
  Stream first = driver.createStream(0), second = driver.createStream(0);
  Event begin = driver.createEvent(0), end = driver.createEvent(0);
  auto *memory = static_cast<char *>(driver.allocate(64));
  char seen = 0;
  driver.record(begin, 0, first);
  driver.fillAsync(memory, 9, 64, 0, first);
  driver.record(end, 0, first);
  driver.waitFor(end, 0, second);
  driver.copyAsync(&seen, memory + 63, 1, 0, second);
  driver.synchronize(0, second);
  EXPECT_EQ(seen, 9);
  EXPECT_GE(driver.milliseconds(begin, end), 0.0);
  driver.destroyEvent(0, begin);
  driver.destroyEvent(0, end);
  driver.destroyStream(0, first);
  driver.destroyStream(0, second);
  driver.release(memory, 64);
}

TEST_P(Work, ManyThreadsUseOneDevice) {
  std::vector<std::thread> threads;
  std::atomic<int> right = 0;
  for (int number = 1; number <= 4; ++number)
    threads.emplace_back([&, number] {
      auto *memory = static_cast<char *>(driver.allocate(1000));
      driver.fillAsync(memory, uint8_t(number), 1000, 0, nullptr);
      driver.synchronize(0, nullptr);
      char seen = 0;
      driver.copy(&seen, memory + 999, 1);
      right += seen == number;
      driver.release(memory, 1000);
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(right, 4);
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

/// The kernel of kernel_texts.h, loaded.
struct Counter {
  explicit Counter(Driver &driver, KernelShape shape = {32, 0, {1, 1, 1}})
      : driver(driver), kernel(driver.load(0, countingKernel(driver.name()), "cts_count", shape)) {}
  ~Counter() { driver.unload(kernel); }

  void launch(void *out, uint64_t first, std::array<uint32_t, 3> grid, Stream stream) {
    void *parameters[] = {&out, &first};
    driver.launch({kernel, grid, parameters, stream});
  }
  Driver &driver;
  LoadedKernel *kernel;
};

TEST_P(Code, LaunchesEachInstanceWithItsParameters) {
  Counter counter(driver);
  Stream stream = driver.createStream(0);
  std::vector<uint32_t> host(24);
  void *memory = driver.allocate(host.size() * 4);
  for (Stream used : {stream, Stream(nullptr)}) {
    counter.launch(memory, 100, {4, 3, 2}, used);
    driver.copyAsync(host.data(), memory, host.size() * 4, 0, used);
    driver.synchronize(0, used);
    for (uint32_t i = 0; i < 24; ++i)
      EXPECT_EQ(host[i], 100 + i);
  }
  driver.destroyStream(0, stream);
  driver.release(memory, host.size() * 4);
}

TEST_P(Code, LoadsAgain) {
  Counter first(driver);
  LoadedKernel *kernel =
      driver.load(0, countingKernel(driver.name()), "cts_count", {64, 0, {1, 1, 1}});
  driver.unload(kernel);
  driver.unload(nullptr);
}

TEST_P(Code, UsesAsMuchSharedMemoryAsThereIs) {
  int64_t most = driver.properties(0).sharedBytes;
  Counter counter(driver, {32, int32_t(most), {1, 1, 1}});
  EXPECT_GE(driver.residentInstances(*counter.kernel), 1);
  try {
    Counter tooLarge(driver, {32, int32_t(most) + 1, {1, 1, 1}});
    FAIL();
  } catch (const Error &error) {
    EXPECT_EQ(error.kind, TILERY_LAUNCH_ERROR);
    EXPECT_EQ(error.message.find("kernel 'cts_count' needs " + std::to_string(most + 1) +
                                 " bytes of shared memory"), 0u) << error.message;
  }
}

TEST_P(Code, SaysHowManyInstancesAreResident) {
  Counter counter(driver);
  int64_t resident = driver.residentInstances(*counter.kernel);
  EXPECT_GE(resident, driver.properties(0).processors);
}

TEST_P(Code, TextThatDoesNotAssembleIsAnError) {
  try {
    driver.load(0, "nonsense", "broken", {});
    FAIL();
  } catch (const Error &error) {
    EXPECT_EQ(error.kind, TILERY_INTERNAL_ERROR);
    EXPECT_NE(error.message.find("kernel 'broken'"), std::string::npos) << error.message;
  }
}

TEST_P(Code, ASecondNameIsAnError) {
  EXPECT_THROW(driver.load(0, countingKernel(driver.name()), "absent", {}), Error);
}

// A rank's grid may wait for a grid that another rank has yet to launch (Driver::holdMemory). What a
// launch does must go on beside it; what is done before a world starts is only measured.
TEST_P(Code, OtherWorkGoesOnBesideAGridThatWaits) {
  constexpr uint64_t LimitNs = 1'500'000'000;
  constexpr double Most = 0.5;
  LoadedKernel *spin =
      driver.load(0, spinningKernel(driver.name()), "cts_spin", {32, 0, {1, 1, 1}});
  Counter counter(driver);
  Stream waiting = driver.createStream(0), other = driver.createStream(0);
  driver.destroyStream(0, driver.createStream(0));
  auto *flag = static_cast<volatile uint32_t *>(driver.allocateHost(4096));
  driver.holdMemory(0);
  void *memory = driver.allocate(1 << 20), *unused = driver.allocate(3 << 20);
  std::vector<char> host(1 << 20);
  // Each action starts beside a grid of its own, which ends by itself when the action waits for it.
  auto seconds = [&](auto action) {
    *flag = 0;
    auto address = reinterpret_cast<uint64_t>(flag), limit = LimitNs;
    void *parameters[] = {&address, &limit};
    driver.launch({spin, {1, 1, 1}, parameters, waiting});
    int64_t begin = nowNs();
    action();
    double taken = double(nowNs() - begin) * 1e-9;
    *flag = 1;
    driver.synchronize(0, waiting);
    return taken;
  };
  std::pair<const char *, double> required[] = {
      {"launch", seconds([&] {
         counter.launch(memory, 1, {4, 1, 1}, other);
         driver.synchronize(0, other);
       })},
      {"copy from the host", seconds([&] { driver.copy(memory, host.data(), host.size()); })},
      {"copy to the host", seconds([&] { driver.copy(host.data(), memory, host.size()); })},
      {"copy within", seconds([&] { driver.copy(unused, memory, host.size()); })},
      {"clear", seconds([&] { driver.clear(memory, host.size()); })},
      {"small allocation", seconds([&] { driver.release(driver.allocate(5000), 5000); })},
      {"held release", seconds([&] { driver.release(unused, 3 << 20); })},
      {"kept stream", seconds([&] { driver.destroyStream(0, driver.createStream(0)); })}};
  for (auto [what, taken] : required)
    EXPECT_LT(taken, Most) << what;
  LoadedKernel *again = nullptr;
  std::pair<const char *, double> measured[] = {
      {"loading", seconds([&] {
         again = driver.load(0, countingKernel(driver.name()), "cts_count", {});
       })},
      {"large allocation", seconds([&] { driver.release(driver.allocate(64 << 20), 64 << 20); })},
      {"shared allocation", seconds([&] { driver.releaseShared(driver.allocateShared(4 << 20), 4 << 20); })},
      {"host allocation", seconds([&] { driver.allocateHost(4096); })}};
  for (auto [what, taken] : measured)
    std::printf("%s beside a grid that waits: %.1f ms%s\n", what, taken * 1e3,
                taken > Most ? " (waits for it)" : "");
  driver.letGoMemory(0);
  driver.release(memory, 1 << 20);
  driver.destroyStream(0, waiting);
  driver.destroyStream(0, other);
  driver.unload(spin);
  driver.unload(again);
}

std::string driverName(const testing::TestParamInfo<Driver *> &info) {
  return std::string(info.param->name());
}

INSTANTIATE_TEST_SUITE_P(Drivers, Registry, testing::ValuesIn(drivers()), driverName);
INSTANTIATE_TEST_SUITE_P(Drivers, Memory, testing::ValuesIn(drivers()), driverName);
INSTANTIATE_TEST_SUITE_P(Drivers, Work, testing::ValuesIn(drivers()), driverName);
INSTANTIATE_TEST_SUITE_P(Drivers, Code, testing::ValuesIn(drivers()), driverName);
INSTANTIATE_TEST_SUITE_P(Drivers, Run, testing::ValuesIn(drivers()), driverName);

} // namespace
} // namespace tilery::rt::hal
