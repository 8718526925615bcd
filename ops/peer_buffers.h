// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Tensors of a call that the other ranks use where they are.
#pragma once

#include "tilery/tilery.hpp"

#include <array>
#include <optional>
#include <string>
#include <vector>

namespace tilery::ops {

class PeerBuffers {
public:
  static constexpr size_t Most = 2;
  /// That a kernel has arguments for.
  static constexpr size_t MostRanks = 8;
  using Everyones = std::array<std::optional<Memory>, MostRanks>;
  struct Buffer {
    std::string name;
    Memory memory;
    /// In elements, the same on all ranks; of contiguous ones 0.
    std::array<int64_t, 2> strides = {};
  };
  /// What the other ranks have to know of a buffer.
  struct Described {
    tilery_place place;
    int64_t dtype;
    std::array<int64_t, 2> strides;
  };
  PeerBuffers() = default;
  explicit PeerBuffers(std::vector<Buffer> own) : own(std::move(own)) {}

  size_t count() const { return own.size(); }
  /// This rank's, of which there are `count`.
  std::array<Described, Most> described(World &world) const;
  /// All ranks' descriptions, `count` of each.
  void hear(std::vector<Described> all) { everyonesDescribed = std::move(all); }
  /// Collective when somebody's are new. All ranks have heard.
  void open(World &world);
  /// "", or which tensor cannot be used by others, of which rank, and why; alike on all ranks.
  const std::string &problem() const { return unreachable; }
  /// This rank's address of a rank's buffer.
  char *at(int rank, size_t buffer) const {
    return static_cast<char *>(addresses[size_t(rank) * count() + buffer]);
  }
  /// Arguments of a kernel: all ranks' buffer, from rank `first` on around.
  Everyones everyones(size_t buffer, int first) const;

private:
  std::string differenceOf(size_t at) const;

  std::vector<Buffer> own;
  std::vector<Described> everyonesDescribed;
  std::vector<void *> addresses;
  std::string unreachable;
};

} // namespace tilery::ops
