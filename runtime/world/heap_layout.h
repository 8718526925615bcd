// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Which symmetric objects lie where. Every rank keeps its own copy and makes the same calls, so
// all copies agree without communication.
#pragma once

#include <cstddef>
#include <map>
#include <string>

namespace tilery::rt {

struct SymmetricObject {
  size_t offset = 0;
  size_t bytes = 0;
  std::string label;
  /// What it takes of the heap.
  size_t reserved() const;
};

class HeapLayout {
public:
  static constexpr size_t Alignment = 4096;
  static constexpr size_t NoSpace = ~size_t(0);

  explicit HeapLayout(size_t capacity = 0) : capacity(capacity) {}

  /// Offset of a new object in the first gap that fits, or NoSpace.
  size_t allocate(size_t bytes, std::string label);
  void free(size_t offset) { objects.erase(offset); }

  /// The object that [offset, offset + bytes) lies in, or null.
  const SymmetricObject *find(size_t offset, size_t bytes) const;
  const SymmetricObject *startingAt(size_t offset) const;
  size_t usedBytes() const;
  size_t size() const { return objects.size(); }

private:
  size_t capacity;
  std::map<size_t, SymmetricObject> objects;
};

} // namespace tilery::rt
