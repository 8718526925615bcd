// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Which symmetric objects lie where on one rank. An object lies at one offset on all ranks of its
// team, which agree on it when they allocate; ranks in different teams have different layouts.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace tilery::rt {

struct SymmetricObject {
  size_t offset = 0;
  size_t bytes = 0;
  std::string label;
  /// Which of the rank's teams it belongs to (World::number).
  int team = 0;
  /// What it takes of the heap.
  size_t reserved() const;
};

class HeapLayout {
public:
  static constexpr size_t Alignment = 4096;
  static constexpr size_t NoSpace = ~size_t(0);

  explicit HeapLayout(size_t capacity = 0) : capacity(capacity) {}

  /// The first offset at or after `from` where an object fits, or NoSpace.
  size_t place(size_t bytes, size_t from = 0) const;
  void add(SymmetricObject object) { objects.emplace(object.offset, std::move(object)); }
  void free(size_t offset) { objects.erase(offset); }

  /// The object that [offset, offset + bytes) lies in, or null.
  const SymmetricObject *find(size_t offset, size_t bytes) const;
  const SymmetricObject *startingAt(size_t offset) const;
  size_t usedBytes() const;
  /// The objects of one team.
  std::vector<SymmetricObject> of(int team) const;
  size_t size() const { return objects.size(); }

private:
  size_t capacity;
  std::map<size_t, SymmetricObject> objects;
};

} // namespace tilery::rt
