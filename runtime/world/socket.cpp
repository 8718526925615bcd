// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// SOCK_SEQPACKET unix sockets and SCM_RIGHTS.
#include "runtime/world/socket.h"

#include <cstring>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <utility>

namespace tilery::rt {

static constexpr size_t MaxDescriptors = 4;

Descriptor &Descriptor::operator=(Descriptor &&other) noexcept {
  std::swap(number, other.number);
  return *this;
}
Descriptor::~Descriptor() {
  if (number >= 0)
    close(number);
}
int Descriptor::release() { return std::exchange(number, -1); }

static socklen_t abstractAddress(const std::string &name, sockaddr_un &address) {
  address = {};
  address.sun_family = AF_UNIX;
  // A leading zero byte: not a file.
  size_t length = std::min(name.size(), sizeof(address.sun_path) - 1);
  std::memcpy(address.sun_path + 1, name.data(), length);
  return socklen_t(offsetof(sockaddr_un, sun_path) + 1 + length);
}

static Descriptor makeSocket() {
  return Descriptor(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
}

Descriptor listenAt(const std::string &name) {
  Descriptor socket = makeSocket();
  sockaddr_un address;
  socklen_t length = abstractAddress(name, address);
  if (bind(socket.get(), reinterpret_cast<sockaddr *>(&address), length) != 0 ||
      listen(socket.get(), 1024) != 0)
    return Descriptor();
  return socket;
}

Descriptor connectTo(const std::string &name) {
  Descriptor socket = makeSocket();
  sockaddr_un address;
  socklen_t length = abstractAddress(name, address);
  if (!socket.open() || connect(socket.get(), reinterpret_cast<sockaddr *>(&address), length) != 0)
    return Descriptor();
  return socket;
}

Descriptor acceptFrom(const Descriptor &listener) {
  return Descriptor(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
}

bool sameUser(const Descriptor &socket) {
  ucred credentials = {};
  socklen_t length = sizeof(credentials);
  return getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &credentials, &length) == 0 &&
         credentials.uid == geteuid();
}

bool sendMessage(const Descriptor &socket, const void *data, size_t bytes,
                 const std::vector<int> &descriptors) {
  iovec part{const_cast<void *>(data), bytes};
  alignas(cmsghdr) char space[CMSG_SPACE(MaxDescriptors * sizeof(int))] = {};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!descriptors.empty()) {
    size_t length = descriptors.size() * sizeof(int);
    message.msg_control = space;
    message.msg_controllen = CMSG_SPACE(length);
    cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(length);
    std::memcpy(CMSG_DATA(header), descriptors.data(), length);
  }
  return sendmsg(socket.get(), &message, MSG_NOSIGNAL) == ssize_t(bytes);
}

static void takeDescriptors(msghdr &message, std::vector<Descriptor> &descriptors) {
  for (cmsghdr *header = CMSG_FIRSTHDR(&message); header; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
      continue;
    size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int number;
      std::memcpy(&number, CMSG_DATA(header) + i * sizeof(int), sizeof(int));
      descriptors.emplace_back(number);
    }
  }
}

bool receiveMessage(const Descriptor &socket, void *data, size_t bytes,
                    std::vector<Descriptor> &descriptors, int timeoutMs) {
  pollfd event{socket.get(), POLLIN, 0};
  if (poll(&event, 1, timeoutMs) <= 0)
    return false;
  iovec part{data, bytes};
  alignas(cmsghdr) char space[CMSG_SPACE(MaxDescriptors * sizeof(int))];
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = space;
  message.msg_controllen = sizeof(space);
  ssize_t received = recvmsg(socket.get(), &message, MSG_CMSG_CLOEXEC);
  if (received > 0)
    takeDescriptors(message, descriptors);
  return received == ssize_t(bytes);
}

} // namespace tilery::rt
