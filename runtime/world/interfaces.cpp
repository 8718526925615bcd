// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Finds out whether the job's address is this host.
#include "runtime/base/error.h"
#include "runtime/world/job.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <memory>
#include <netdb.h>
#include <vector>

namespace tilery::rt {

static std::string addressText(const sockaddr *address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address->sa_family == AF_INET)
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in *>(address)->sin_addr, text,
              sizeof(text));
  else if (address->sa_family == AF_INET6)
    inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6 *>(address)->sin6_addr, text,
              sizeof(text));
  return text;
}

namespace {
struct Interface {
  std::string name;
  std::string address;
};
} // namespace

static std::vector<Interface> interfaces() {
  std::vector<Interface> result;
  ifaddrs *list = nullptr;
  if (getifaddrs(&list) != 0)
    return result;
  for (ifaddrs *entry = list; entry; entry = entry->ifa_next)
    if (entry->ifa_addr)
      if (std::string text = addressText(entry->ifa_addr); !text.empty())
        result.push_back({entry->ifa_name, text});
  freeifaddrs(list);
  return result;
}

std::string listInterfaces() {
  std::string text;
  for (const Interface &interface : interfaces())
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", interface.name, interface.address);
  return text.empty() ? "none" : text;
}

/// Addresses of a host name; empty when it cannot be resolved, as in many containers.
static std::vector<std::string> resolve(const std::string &host) {
  addrinfo *list = nullptr;
  std::vector<std::string> result;
  if (getaddrinfo(host.c_str(), nullptr, nullptr, &list) != 0)
    return result;
  for (addrinfo *entry = list; entry; entry = entry->ai_next)
    result.push_back(addressText(entry->ai_addr));
  freeaddrinfo(list);
  return result;
}

static bool isThisHost(const std::string &host) {
  std::vector<std::string> addresses = resolve(host);
  if (addresses.empty())
    return true;
  for (const std::string &address : addresses) {
    if (address.starts_with("127.") || address == "::1")
      return true;
    for (const Interface &interface : interfaces())
      if (interface.address == address)
        return true;
  }
  return false;
}

void requireOneHost(const Job &job) {
  if (job.localSize > 0 && job.localSize < job.size)
    raise(TILERY_CONFIG_ERROR,
          "the world has {} ranks, {} of them on this host; ranks on other hosts are not reachable "
          "by shared memory, the only transport of this build",
          job.size, job.localSize);
  bool knownLocal = job.localSize == job.size || job.masterAddress.empty();
  if (!knownLocal && !isThisHost(job.masterAddress))
    raise(TILERY_CONFIG_ERROR,
          "MASTER_ADDR '{}' is not an address of this host (interfaces: {}); ranks on other hosts "
          "are not reachable by shared memory, the only transport of this build\nhint: for ranks on "
          "one host set MASTER_ADDR=127.0.0.1",
          job.masterAddress, listInterfaces());
}

} // namespace tilery::rt
