// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Conformance of memory that several devices and several processes use. Of the second process the
// body is a test too, which is skipped unless the first one starts it.
#include "runtime/base/error.h"
#include "runtime/hal/cts/kernel_texts.h"
#include "runtime/hal/driver.h"

#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <gtest/gtest.h>
#include <optional>
#include <spawn.h>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace tilery::rt::hal {
namespace {

class Reachable : public testing::TestWithParam<Driver *> {
protected:
  void SetUp() override {
    if (std::string reason = driver.unavailable(); !reason.empty())
      GTEST_SKIP() << driver.name() << ": " << reason;
    if (driver.runsInProcess())
      GTEST_SKIP() << driver.name() << ": its memory is the process's own";
  }
  Driver &driver = *GetParam();
};

class TwoDevices : public Reachable {
protected:
  void SetUp() override {
    Reachable::SetUp();
    if (IsSkipped())
      return;
    if (driver.deviceCount() < 2)
      GTEST_SKIP() << driver.name() << ": there is one device";
    if (std::string reason = driver.unreachable(0, 1); !reason.empty())
      GTEST_SKIP() << reason;
  }
};

constexpr size_t Bytes = 5 << 20;

template <typename T> T valueAt(Driver &driver, const void *memory) {
  T value = {};
  driver.copy(&value, memory, sizeof value);
  return value;
}

TEST_P(Reachable, IsZeroedAlignedAndFound) {
  auto *memory = static_cast<char *>(driver.allocateReachable(Bytes, 0));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % 4096, 0u);
  for (size_t at : {size_t(0), Bytes / 2, Bytes - 8})
    EXPECT_EQ(valueAt<uint64_t>(driver, memory + at), 0u);
  EXPECT_EQ(deviceNumberOf(memory + Bytes - 1), numberOf(driver, 0));
  driver.release(memory, Bytes);
  EXPECT_EQ(deviceNumberOf(memory), 0);
}

TEST_P(Reachable, MoreThanThereIsFails) {
  try {
    driver.allocateReachable(size_t(1) << 50, 0);
    FAIL();
  } catch (const Error &error) {
    EXPECT_EQ(error.kind, TILERY_LAUNCH_ERROR);
    EXPECT_EQ(error.message.find("cannot allocate 1125899906842624 bytes of memory on device 0"),
              0u)
        << error.message;
  }
  driver.release(driver.allocateReachable(1, 0), 1);
}

TEST_P(Reachable, StaysWhileMemoryIsHeld) {
  driver.holdMemory(0);
  void *memory = driver.allocateReachable(Bytes, 0);
  driver.release(memory, Bytes);
  driver.letGoMemory(0);
}

TEST_P(Reachable, MemoryOfTheHostIsNotExported) {
  std::vector<char> memory(Bytes);
  EXPECT_THROW(driver.exportMemory(memory.data()), Error);
}

/// This binary again, running one test; the descriptor has the same number there.
int runInSecondProcess(const std::string &test, const ExportedMemory &exported) {
  std::string bytes(reinterpret_cast<const char *>(&exported), sizeof exported), text;
  for (unsigned char byte : bytes)
    text += "0123456789abcdef"[byte / 16], text += "0123456789abcdef"[byte % 16];
  setenv("CTS_IMPORT", text.c_str(), 1);
  if (exported.descriptor >= 0)
    fcntl(exported.descriptor, F_SETFD, 0);
  std::string path = std::filesystem::read_symlink("/proc/self/exe"),
              filter = "--gtest_filter=" + test;
  char *arguments[] = {path.data(), filter.data(), nullptr};
  pid_t child = -1;
  int status = posix_spawn(&child, path.c_str(), nullptr, nullptr, arguments, environ);
  if (status == 0)
    waitpid(child, &status, 0);
  unsetenv("CTS_IMPORT");
  return status;
}

std::optional<ExportedMemory> importedFromFirstProcess() {
  const char *text = std::getenv("CTS_IMPORT");
  if (!text)
    return std::nullopt;
  ExportedMemory exported;
  auto *bytes = reinterpret_cast<unsigned char *>(&exported);
  for (size_t i = 0; i < sizeof exported; ++i)
    bytes[i] = static_cast<unsigned char>(std::stoi(std::string(text + 2 * i, 2), nullptr, 16));
  return exported;
}

// Each process reads what the other has written; the second one uses the last device.
TEST_P(Reachable, AnotherProcessMapsIt) {
  if (importedFromFirstProcess())
    GTEST_SKIP() << "this is the second process";
  auto *memory = static_cast<char *>(driver.allocateReachable(Bytes, 0));
  uint64_t mark = 42;
  driver.copy(memory + Bytes - 8, &mark, sizeof mark);
  ExportedMemory exported = driver.exportMemory(memory);
  EXPECT_EQ(exported.owner, driver.properties(0).identity);
  EXPECT_GE(exported.bytes, Bytes);
  std::string suite = testing::UnitTest::GetInstance()->current_test_info()->test_suite_name();
  int status = runInSecondProcess(suite + ".SecondProcess/" + std::string(driver.name()), exported);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(valueAt<uint64_t>(driver, memory), 43u);
  if (exported.descriptor >= 0)
    close(exported.descriptor);
  driver.release(memory, Bytes);
}

TEST_P(Reachable, SecondProcess) {
  std::optional<ExportedMemory> exported = importedFromFirstProcess();
  if (!exported)
    GTEST_SKIP() << "AnotherProcessMapsIt starts this one";
  int last = driver.deviceCount() - 1;
  if (std::string reason = driver.unreachable(last, 0); !reason.empty())
    last = 0;
  auto *memory = static_cast<char *>(driver.importMemory({&*exported, 1}, last));
  EXPECT_EQ(valueAt<uint64_t>(driver, memory + Bytes - 8), 42u);
  EXPECT_EQ(deviceNumberOf(memory), numberOf(driver, last)) << "who can use it here";
  uint64_t mark = 43;
  driver.copy(memory, &mark, sizeof mark);
  driver.release(memory, exported->bytes);
}

TEST_P(Reachable, DevicesOutOfReachAreRefused) {
  EXPECT_EQ(driver.unreachable(0, 0), "");
  std::string reason = driver.deviceCount() > 1 ? driver.unreachable(0, 1) : "";
  if (reason.empty())
    GTEST_SKIP() << "all devices reach each other";
  bool known = reason.find(") has no peer access to the memory of ") != std::string::npos ||
               reason.find(") has no atomic operations on the memory of ") != std::string::npos;
  EXPECT_TRUE(known) << reason;
  void *memory = driver.allocateReachable(Bytes, 1);
  try {
    driver.reach(memory, 0);
    FAIL();
  } catch (const Error &error) {
    EXPECT_EQ(error.kind, TILERY_TARGET_ERROR);
    EXPECT_EQ(error.message.find(reason + "\nhint: take devices that NVLink connects"), 0u)
        << error.message;
  }
  driver.release(memory, Bytes);
}

TEST_P(Reachable, NonsenseIsNotImported) {
  ExportedMemory exported;
  exported.kind = 1;
  exported.descriptor = open("/dev/null", O_RDONLY | O_CLOEXEC);
  exported.bytes = 2 << 20;
  close(exported.descriptor);
  try {
    driver.importMemory({&exported, 1}, 0);
    FAIL();
  } catch (const Error &error) {
    EXPECT_EQ(error.kind, TILERY_TARGET_ERROR);
    EXPECT_NE(error.message.find("cannot map memory of"), std::string::npos) << error.message;
    EXPECT_NE(error.message.find("in another process"), std::string::npos) << error.message;
  }
}

TEST_P(TwoDevices, AGridUsesTheOthersMemory) {
  auto *memory = static_cast<uint32_t *>(driver.allocateReachable(Bytes, 1));
  driver.reach(memory, 0);
  driver.reach(memory, 1);
  LoadedKernel *kernel =
      driver.load(0, countingKernel(driver.name()), "cts_count", {32, 0, {1, 1, 1}});
  uint64_t first = 7;
  void *address = memory, *parameters[] = {&address, &first};
  driver.launch({kernel, {4, 1, 1}, parameters, nullptr});
  driver.synchronizeDevice(0);
  EXPECT_EQ(valueAt<uint32_t>(driver, memory + 3), 10u);
  driver.unload(kernel);
  driver.release(memory, Bytes);
}

TEST_P(TwoDevices, CopiesBetweenThem) {
  auto *left = static_cast<char *>(driver.allocateReachable(Bytes, 0));
  auto *right = static_cast<char *>(driver.allocateReachable(Bytes, 1));
  driver.reach(left, 1);
  driver.reach(right, 0);
  std::vector<char> host(Bytes, 5);
  driver.copy(left, host.data(), Bytes);
  driver.copy(right, left, Bytes);
  std::vector<char> back(Bytes);
  driver.copy(back.data(), right, Bytes);
  EXPECT_EQ(back, host);
  driver.release(left, Bytes);
  driver.release(right, Bytes);
}

TEST_P(TwoDevices, SharedWithTheHost) {
  auto *memory = static_cast<uint32_t *>(driver.allocateShared(Bytes, 1));
  driver.reach(memory, 0);
  LoadedKernel *kernel =
      driver.load(0, countingKernel(driver.name()), "cts_count", {32, 0, {1, 1, 1}});
  uint64_t first = 7;
  void *address = memory, *parameters[] = {&address, &first};
  driver.launch({kernel, {4, 1, 1}, parameters, nullptr});
  driver.synchronizeDevice(0);
  EXPECT_EQ(memory[3], 10u);
  driver.unload(kernel);
  driver.releaseShared(memory, Bytes);
}

std::string driverName(const testing::TestParamInfo<Driver *> &info) {
  return std::string(info.param->name());
}
INSTANTIATE_TEST_SUITE_P(Drivers, Reachable, testing::ValuesIn(drivers()), driverName);
INSTANTIATE_TEST_SUITE_P(Drivers, TwoDevices, testing::ValuesIn(drivers()), driverName);

} // namespace
} // namespace tilery::rt::hal
