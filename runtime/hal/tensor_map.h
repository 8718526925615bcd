// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// What engines that copy tiles are told of a tensor.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace tilery::rt::hal {

/// The description of a tensor for bulk copies, dimensions from the contiguous one outwards.
struct TensorMapShape {
  static constexpr int MaxRank = 5;
  void *address = nullptr;
  std::string_view element; // "bf16"
  int rank = 0;
  std::array<uint64_t, MaxRank> extents = {};
  /// Bytes from one index to the next of dimension i + 1.
  std::array<uint64_t, MaxRank - 1> strides = {};
  std::array<uint32_t, MaxRank> box = {};
  int32_t swizzleBytes = 0;
};
struct alignas(64) TensorMap {
  uint64_t words[16];
};

} // namespace tilery::rt::hal
