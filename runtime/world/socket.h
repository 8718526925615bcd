// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Messages with file descriptors over an abstract unix socket: nothing in the file system to
// leak, unreachable from other hosts, and the kernel vouches for the peer's user.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace tilery::rt {

/// An open descriptor, closed at the end.
class Descriptor {
public:
  explicit Descriptor(int number = -1) : number(number) {}
  Descriptor(Descriptor &&other) noexcept : number(other.release()) {}
  Descriptor &operator=(Descriptor &&other) noexcept;
  ~Descriptor();
  int get() const { return number; }
  bool open() const { return number >= 0; }
  int release();

private:
  int number;
};

/// Listens at an abstract address; a closed Descriptor when another process has it.
Descriptor listenAt(const std::string &name);
/// A closed Descriptor when nobody listens.
Descriptor connectTo(const std::string &name);
Descriptor acceptFrom(const Descriptor &listener);

/// Does the other end belong to this user?
bool sameUser(const Descriptor &socket);

/// False when the peer is gone.
bool sendMessage(const Descriptor &socket, const void *data, size_t bytes,
                 const std::vector<int> &descriptors = {});
/// Waits at most `timeoutMs`. False when the peer is gone, late, or sent another size.
bool receiveMessage(const Descriptor &socket, void *data, size_t bytes,
                    std::vector<Descriptor> &descriptors, int timeoutMs);

} // namespace tilery::rt
