// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Tensor maps that a launch passes to a kernel: computed from the arguments, kept while the
// arguments stay the same.
#pragma once

#include "runtime/hal/driver.h"
#include "runtime/launch/kernel_image.h"

#include <array>
#include <mutex>

namespace tilery::rt {

/// A number computed from the run-time arguments, in postfix order.
struct HostStep {
  enum class Kind : uint8_t { Constant, Argument, Add, Subtract, Multiply, DivideSigned, Minimum, Maximum };
  Kind kind = Kind::Constant;
  int64_t value = 0; // of a constant; the index of an argument
};
using HostProgram = std::vector<HostStep>;

/// `arguments` are slots (kernel_abi.h). Division by zero gives zero.
int64_t evaluate(const HostProgram &program, const uint64_t *arguments);

/// As gpu_abi.h and the compiler's description of a kernel define it.
struct TensorMapPlan {
  int32_t pointer = 0;
  HostProgram offsetElements;
  std::string element;
  int32_t elementBytes = 1;
  std::vector<HostProgram> extents, strides;
  std::vector<int32_t> box;
  int32_t swizzleBytes = 0;
};

/// The map of one plan for the latest few combinations of values. From any thread.
class TensorMapCache {
public:
  explicit TensorMapCache(TensorMapPlan plan) : plan(std::move(plan)) {}

  /// A LaunchError names the argument when there can be no such map.
  void fill(hal::Driver &driver, const KernelImage &image, const uint64_t *arguments,
            hal::TensorMap &map);

private:
  /// Address, extents, strides in bytes.
  using Key = std::array<uint64_t, 1 + 2 * hal::TensorMapShape::MaxRank>;
  struct Entry {
    Key key = {};
    bool used = false;
    hal::TensorMap map;
  };
  Key evaluateKey(const uint64_t *arguments) const;
  void encode(hal::Driver &driver, const KernelImage &image, const Key &key,
              hal::TensorMap &map) const;

  const TensorMapPlan plan;
  std::mutex mutex;
  std::array<Entry, 4> entries;
  size_t next = 0;
};

} // namespace tilery::rt
