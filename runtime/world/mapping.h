// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// A large range of zeroed memory that costs nothing until touched: private to this process, or
// a nameless shared file that peers map from its descriptor. Or memory of a device.
#pragma once

#include "runtime/hal/driver.h"

#include <cstddef>

namespace tilery::rt {

class Mapping {
public:
  Mapping() = default;
  Mapping(Mapping &&other) noexcept { swap(other); }
  Mapping &operator=(Mapping &&other) noexcept {
    swap(other);
    return *this;
  }
  ~Mapping();

  static Mapping anonymous(size_t bytes);
  /// Creates a memfd; it disappears with its last descriptor and mapping, even after kill -9.
  static Mapping sharedFile(size_t bytes, const char *label);
  /// Memory of a device for that device alone, for other devices and processes too, or for it and the
  /// host.
  enum class Use { Alone, Peers, Host };
  static Mapping onDevice(hal::DeviceRef where, size_t bytes, Use use);
  /// Memory of another process, for grids of a device of this one.
  static Mapping ofPeer(hal::DeviceRef where, const hal::ExportedMemory &exported, size_t bytes);
  /// Maps a peer's memfd; takes over the descriptor.
  static Mapping fromDescriptor(int descriptor, size_t bytes);

  char *data() const { return memory; }
  size_t size() const { return bytes; }
  int descriptor() const { return file; }
  bool contains(const void *pointer) const {
    auto *byte = static_cast<const char *>(pointer);
    return byte >= memory && byte < memory + bytes;
  }
  /// Gives the pages of a page-aligned range back; it reads as zeros afterwards.
  void discard(size_t offset, size_t length);
  /// Never gives the memory back: a grid that does not end may write it.
  void abandon();

private:
  void swap(Mapping &other);
  char *memory = nullptr;
  size_t bytes = 0;
  int file = -1;
  hal::DeviceRef where;
  bool shared = false;
};

} // namespace tilery::rt
