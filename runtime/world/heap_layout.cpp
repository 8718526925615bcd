// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// First-fit placement of symmetric objects.
#include "runtime/world/heap_layout.h"

#include <algorithm>

namespace tilery::rt {

size_t SymmetricObject::reserved() const {
  size_t pages = bytes / HeapLayout::Alignment + (bytes % HeapLayout::Alignment != 0);
  return (pages == 0 ? 1 : pages) * HeapLayout::Alignment;
}

size_t HeapLayout::place(size_t bytes, size_t from) const {
  if (bytes > capacity || from > capacity)
    return NoSpace;
  size_t needed = SymmetricObject{0, bytes, ""}.reserved(), at = from;
  for (const auto &[offset, other] : objects) {
    if (offset >= at && offset - at >= needed)
      break;
    at = std::max(at, offset + other.reserved());
  }
  return at <= capacity && needed <= capacity - at ? at : NoSpace;
}

std::vector<SymmetricObject> HeapLayout::of(int team) const {
  std::vector<SymmetricObject> found;
  for (const auto &[offset, object] : objects)
    if (object.team == team)
      found.push_back(object);
  return found;
}

const SymmetricObject *HeapLayout::find(size_t offset, size_t bytes) const {
  auto next = objects.upper_bound(offset);
  if (next == objects.begin())
    return nullptr;
  const SymmetricObject &object = std::prev(next)->second;
  size_t inside = offset - object.offset;
  bool fits = inside <= object.bytes && bytes <= object.bytes - inside;
  return fits ? &object : nullptr;
}

const SymmetricObject *HeapLayout::startingAt(size_t offset) const {
  auto found = objects.find(offset);
  return found == objects.end() ? nullptr : &found->second;
}

size_t HeapLayout::usedBytes() const {
  size_t total = 0;
  for (const auto &[offset, object] : objects)
    total += object.reserved();
  return total;
}

} // namespace tilery::rt
