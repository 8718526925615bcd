// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// The host's processor as a device.
#include "runtime/base/error.h"
#include "runtime/hal/driver.h"

#include <cstring>
#include <sys/mman.h>

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

  void *allocate(size_t bytes) override {
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
  void copy(void *destination, const void *source, size_t bytes) override {
    if (bytes)
      std::memmove(destination, source, bytes);
  }

  void run(const GridRun &grid) override {
    tilery_instance &self = *grid.instance;
    const int32_t *extent = self.num_programs;
    for (int32_t z = 0; z < extent[2]; ++z)
      for (int32_t y = 0; y < extent[1]; ++y)
        for (int32_t x = 0; x < extent[0]; ++x) {
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
