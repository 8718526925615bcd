// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Rank 0's side of the rendezvous: admits or refuses who comes, then introduces all to all.
#include "runtime/world/rendezvous_protocol.h"

#include "runtime/base/clock.h"
#include "runtime/base/error.h"
#include "runtime/base/log.h"
#include "runtime/world/idle_wait.h"

#include <algorithm>
#include <cstring>
#include <poll.h>

namespace tilery::rt::rendezvous {

/// In constant time, so that a wrong token does not tell how much of it is right.
static bool sameToken(const Hello &left, const Hello &right) {
  unsigned char difference = 0;
  for (size_t i = 0; i < sizeof(left.token); ++i)
    difference |= static_cast<unsigned char>(left.token[i] ^ right.token[i]);
  return difference == 0;
}

static std::string describeShape(const Hello &hello) {
  std::vector<int> mesh(hello.mesh, hello.mesh + std::clamp(hello.meshAxes, 0, 8));
  return fmt::format("rank {} has size {}, mesh [{}], heap_bytes {}{}{}", hello.rank, hello.size,
                     fmt::join(mesh, ", "), hello.heapBytes,
                     hello.onDevice ? fmt::format(" on {}", hello.memory.deviceText) : "",
                     hello.shareDevice ? ", share_device" : "");
}

static bool sameShape(const Hello &left, const Hello &right) {
  return left.size == right.size && left.heapBytes == right.heapBytes &&
         left.meshAxes == right.meshAxes && left.onDevice == right.onDevice &&
         left.shareDevice == right.shareDevice &&
         std::memcmp(left.mesh, right.mesh, sizeof(left.mesh)) == 0;
}

namespace {
struct Guest {
  Descriptor socket;
  int rank = -1;
};

/// Rank 0's side.
class Host {
public:
  Host(const Job &job, const Admission &admission, const std::string &name, double timeoutSeconds)
      : job(job), mine(makeHello(job, admission)), deadline(Deadline::after(timeoutSeconds)),
        timeoutSeconds(timeoutSeconds), listener(listenAt(name)) {
    if (!listener.open())
      raise(TILERY_CONFIG_ERROR,
            "another rank 0 of this job ({}, MASTER_ADDR '{}', MASTER_PORT '{}') waits already\n"
            "hint: give each job on this host its own MASTER_PORT",
            job.launcher, job.masterAddress, job.masterPort);
    result.peers.resize(size_t(job.size));
    result.links.resize(size_t(job.size));
  }

  Rendezvous gather(Descriptor control, PeerDescriptors self) {
    result.peers[0] = std::move(self);
    result.control = std::move(control);
    noteProblem(mine);
    while (joined < job.size)
      waitForEvent();
    listener = Descriptor();
    if (problem.kind != TILERY_OK)
      failAll(TILERY_PEER_ERROR, problem.message);
    checkSharing();
    welcomeAll();
    return std::move(result);
  }

private:
  void waitForEvent() {
    std::vector<pollfd> events = {{listener.get(), POLLIN, 0}};
    for (const Guest &guest : guests)
      events.push_back({guest.socket.get(), POLLIN, 0});
    for (int rank = 1; rank < job.size; ++rank)
      events.push_back({result.links[size_t(rank)].get(), POLLIN, 0});
    poll(events.data(), events.size(), 100);
    raiseIfInterrupted();
    if (deadline.passed(nowNs()))
      failAll(TILERY_PEER_ERROR, describeLate());
    for (int rank = 1; rank < job.size; ++rank)
      if (events[1 + guests.size() + size_t(rank) - 1].revents & (POLLHUP | POLLERR))
        failAll(TILERY_PEER_ERROR, fmt::format("rank {} died while the world was set up", rank));
    for (size_t i = guests.size(); i-- > 0;)
      if (events[1 + i].revents)
        readHello(i);
    if (events[0].revents & POLLIN)
      guests.push_back({acceptFrom(listener)});
  }

  void readHello(size_t index) {
    Descriptor socket = std::move(guests[index].socket);
    guests.erase(guests.begin() + std::ptrdiff_t(index));
    Hello hello;
    std::vector<Descriptor> descriptors;
    bool sane = receiveMessage(socket, &hello, sizeof(hello), descriptors, 0) &&
                hello.magic == Magic && hello.version == Version;
    if (!sane)
      return;
    if (!sameUser(socket) || !sameToken(hello, mine)) {
      refuse(socket, "rank 0 refused this process: its job token is not the job's\nhint: start all "
                     "ranks by one `tilery run`, or give all the same TILERY_JOB_TOKEN");
      warn(fmt::format("refused a process (pid {}) that presented a wrong job token", hello.pid));
      return;
    }
    admit(hello, std::move(socket), descriptors);
  }

  void admit(const Hello &hello, Descriptor socket, std::vector<Descriptor> &descriptors) {
    noteProblem(hello);
    // A rank with a problem does not know the whole shape.
    if (problem.kind == TILERY_OK && !sameShape(hello, mine)) {
      std::string text = fmt::format("the ranks disagree about the world:\n  {}\n  {}",
                                     describeShape(mine), describeShape(hello));
      refuse(socket, text);
      failAll(TILERY_CONFIG_ERROR, text);
    }
    bool valid = hello.rank > 0 && hello.rank < job.size;
    if (!valid || result.links[size_t(hello.rank)].open()) {
      refuse(socket, fmt::format("rank {} has joined the world already", hello.rank));
      return;
    }
    auto rank = size_t(hello.rank);
    if (!takePeer(hello.memory, hello.pid, descriptors, result.peers[rank]))
      return;
    result.links[rank] = std::move(socket);
    ++joined;
  }

  void noteProblem(const Hello &hello) {
    auto kind = static_cast<tilery_status>(hello.problemKind);
    if (kind != TILERY_OK && problem.kind == TILERY_OK)
      problem = Error(
          kind, fmt::format("rank {} failed: {}: {}", hello.rank, kindName(kind), hello.problem));
  }

  // A process may see only some devices, so that ranks with different numbers use the same one.
  void checkSharing() {
    if (!mine.onDevice || mine.shareDevice)
      return;
    for (const PeerDescriptors &peer : result.peers) {
      std::vector<int> sharing;
      for (int rank = 0; rank < job.size; ++rank)
        if (std::strcmp(result.peers[size_t(rank)].memory.device.owner, peer.memory.device.owner) ==
            0)
          sharing.push_back(rank);
      if (sharing.size() > 1)
        failAll(TILERY_CONFIG_ERROR,
                fmt::format("ranks {} use the same device, {}\nhint: start one rank a device, name "
                            "each rank's with device=\"cuda:1\", or let them share with "
                            "share_device=True or TILERY_SHARE_DEVICE=1: their kernels then take "
                            "turns",
                            fmt::join(sharing, ", "), peer.memory.deviceText));
    }
  }

  static void say(const Descriptor &socket, Answer answer, const std::string &text) {
    Verdict verdict;
    verdict.answer = answer;
    std::memcpy(verdict.text, text.data(), std::min(text.size(), sizeof(verdict.text) - 1));
    sendMessage(socket, &verdict, sizeof(verdict));
  }
  static void refuse(const Descriptor &socket, const std::string &text) {
    say(socket, Answer::Refused, text);
  }

  [[noreturn]] void failAll(tilery_status kind, const std::string &text) {
    for (const Descriptor &link : result.links)
      if (link.open())
        say(link, kind == TILERY_CONFIG_ERROR ? Answer::Refused : Answer::Failed, text);
    throw Error(kind, text);
  }

  std::string describeLate() const {
    std::string missing;
    for (int rank = 1; rank < job.size; ++rank)
      if (!result.links[size_t(rank)].open())
        missing += fmt::format("{}{}", missing.empty() ? "" : ", ", rank);
    return fmt::format("ranks {} of {} did not come within {} s ({}, MASTER_ADDR '{}', MASTER_PORT "
                       "'{}', interfaces: {})\nhint: a slow start needs a larger TILERY_TIMEOUT_S",
                       missing, job.size, timeoutSeconds, job.launcher, job.masterAddress,
                       job.masterPort, listInterfaces());
  }

  void welcomeAll() {
    for (int rank = 1; rank < job.size; ++rank) {
      const Descriptor &link = result.links[size_t(rank)];
      say(link, Answer::Welcome, "");
      Entry entry{-1, 0, {}};
      sendMessage(link, &entry, sizeof(entry), {result.control.get()});
      for (int peer = 0; peer < job.size; ++peer) {
        const PeerDescriptors &known = result.peers[size_t(peer)];
        entry = {peer, known.pid, recordOf(known.memory)};
        sendMessage(link, &entry, sizeof(entry), descriptorsOf(known));
      }
    }
  }

  const Job &job;
  const Hello mine;
  const Deadline deadline;
  const double timeoutSeconds;
  Descriptor listener;
  std::vector<Guest> guests;
  int joined = 1;
  Error problem = Error(TILERY_OK, "");
  Rendezvous result;
};
} // namespace

Rendezvous gather(const Job &job, const std::string &name, Admission admission,
                  PeerDescriptors self, double timeoutSeconds) {
  return Host(job, admission, name, timeoutSeconds)
      .gather(std::move(admission.control), std::move(self));
}

} // namespace tilery::rt::rendezvous
