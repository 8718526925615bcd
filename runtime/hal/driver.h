// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// What the runtime asks of a kind of device: memory, copies, and running a grid of program
// instances. One folder below this one implements it for each vendor.
#pragma once

#include "tilery/kernel_abi.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tilery::rt::hal {

/// A grid whose instances never suspend.
struct GridRun {
  tilery_kernel_entry entry = nullptr;
  const uint64_t *arguments = nullptr;
  /// The driver sets `program_id` of this object before each call of `entry`.
  tilery_instance *instance = nullptr;
};

class Driver {
public:
  virtual ~Driver() = default;

  virtual std::string_view name() const = 0;
  /// Why the driver cannot be used on this machine, "" when it can.
  virtual std::string unavailable() const = 0;
  virtual int deviceCount() const = 0;

  /// Zeroed device memory, aligned to 4096 bytes; 0 bytes give a unique address too.
  virtual void *allocate(size_t bytes) = 0;
  virtual void release(void *memory, size_t bytes) = 0;
  virtual void copy(void *destination, const void *source, size_t bytes) = 0;

  /// Runs all instances of `num_programs`, x fastest; returns when they have finished.
  virtual void run(const GridRun &grid) = 0;
};

/// All drivers that this build contains, available or not.
std::vector<Driver *> drivers();

/// A ConfigError names the nearest driver when there is none of that name, a TargetError says
/// why it cannot be used here.
Driver &driver(std::string_view name);

} // namespace tilery::rt::hal
