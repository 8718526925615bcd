// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// The host's processor as a device.
#include "runtime/base/clock.h"
#include "runtime/base/error.h"
#include "runtime/hal/driver.h"

#include <cstring>
#include <sys/mman.h>
#include <thread>

namespace tilery::rt::hal {

static size_t mappedBytes(size_t bytes) {
  constexpr size_t page = 4096;
  return bytes == 0 ? page : (bytes + page - 1) / page * page;
}

namespace {
class CpuDriver final : public Driver {
public:
  std::string_view name() const override { return "cpu"; }
  std::string unavailable() const override { return ""; }
  int deviceCount() const override { return 1; }
  const DeviceProperties &properties(int) const override {
    static const DeviceProperties known = [] {
      DeviceProperties found;
      found.name = found.target = "cpu";
      found.processors = int32_t(std::max(1u, std::thread::hardware_concurrency()));
      return found;
    }();
    return known;
  }
  int deviceOf(const void *) const override { return 0; }
  bool runsInProcess() const override { return true; }

  void *allocate(size_t bytes, int) override {
    void *memory = mmap(nullptr, mappedBytes(bytes), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
      raise(TILERY_LAUNCH_ERROR, "cannot allocate {} bytes of host memory: {}", bytes,
            std::strerror(errno));
    return memory;
  }
  void release(void *memory, size_t bytes) override {
    if (memory)
      munmap(memory, mappedBytes(bytes));
  }
  void clear(void *memory, size_t bytes) override {
    if (bytes)
      std::memset(memory, 0, bytes);
  }
  void copy(void *destination, const void *source, size_t bytes) override {
    if (bytes)
      std::memmove(destination, source, bytes);
  }

  // Work is done when a call returns, so that streams have no state.
  Stream createStream(int, bool) override { return nullptr; }
  void destroyStream(int, Stream) override {}
  void copyAsync(void *destination, const void *source, size_t bytes, int, Stream) override {
    copy(destination, source, bytes);
  }
  void fillAsync(void *memory, uint8_t byte, size_t bytes, int, Stream) override {
    if (bytes)
      std::memset(memory, byte, bytes);
  }
  void synchronize(int, Stream) override {}
  bool isIdle(int, Stream) override { return true; }
  void synchronizeDevice(int) override {}
  uint64_t recordingOf(int, Stream) override { return 0; }
  Event createEvent(int, bool) override { return new int64_t(0); }
  void destroyEvent(int, Event event) override { delete static_cast<int64_t *>(event); }
  void record(Event event, int, Stream) override { *static_cast<int64_t *>(event) = nowNs(); }
  void waitFor(Event, int, Stream) override {}
  double milliseconds(Event begin, Event end) override {
    return double(*static_cast<int64_t *>(end) - *static_cast<int64_t *>(begin)) * 1e-6;
  }

  void run(const GridRun &grid) override {
    tilery_instance &self = *grid.instance;
    const int32_t *extent = self.num_programs;
    for (int32_t z = 0; z < extent[2]; ++z)
      for (int32_t y = 0; y < extent[1]; ++y)
        for (int32_t x = 0; x < extent[0]; ++x) {
          if (grid.stop && grid.stop(grid.context))
            return;
          self.program_id[0] = x;
          self.program_id[1] = y;
          self.program_id[2] = z;
          grid.entry(&self, grid.arguments);
        }
  }
};
} // namespace

Driver &cpuDriver() {
  static CpuDriver instance;
  return instance;
}

} // namespace tilery::rt::hal
