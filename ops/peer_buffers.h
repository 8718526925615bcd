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
  };
  PeerBuffers() = default;
  explicit PeerBuffers(std::vector<Buffer> own) : own(std::move(own)) {}

  size_t count() const { return own.size(); }
  /// What the other ranks have to know of this rank's.
  std::array<tilery_place, Most> places(World &world) const;
  /// Collective when somebody's are new: all ranks' places, `count` of each.
  void open(World &world, std::vector<tilery_place> all);
  /// "", or which tensor cannot be used by others, of which rank, and why; alike on all ranks.
  const std::string &problem() const { return unreachable; }
  /// This rank's address of a rank's buffer.
  char *at(int rank, size_t buffer) const {
    return static_cast<char *>(addresses[size_t(rank) * count() + buffer]);
  }
  /// Arguments of a kernel: all ranks' buffer, from rank `first` on around.
  Everyones everyones(size_t buffer, int first) const;

private:
  std::vector<Buffer> own;
  std::vector<void *> addresses;
  std::string unreachable;
};

} // namespace tilery::ops
