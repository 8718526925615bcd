// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// The side of the rendezvous that comes to rank 0, and the name of the meeting place.
#include "runtime/world/rendezvous_protocol.h"

#include "runtime/base/clock.h"
#include "runtime/base/error.h"
#include "runtime/world/idle_wait.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace tilery::rt {

using rendezvous::Answer;
using rendezvous::Entry;
using rendezvous::Hello;
using rendezvous::MemoryRecord;
using rendezvous::Verdict;

template <size_t Size> static void putText(char (&field)[Size], const std::string &text) {
  std::memcpy(field, text.data(), std::min(text.size(), Size - 1));
}

MemoryRecord rendezvous::recordOf(const RankMemory &memory) {
  MemoryRecord record;
  record.device = memory.device;
  putText(record.deviceText, memory.deviceText);
  return record;
}

Hello rendezvous::makeHello(const Job &job, const Admission &admission) {
  const WorldShape &shape = admission.shape;
  Hello hello;
  hello.rank = job.rank;
  hello.size = job.size;
  hello.pid = getpid();
  hello.heapBytes = shape.heapBytes;
  hello.meshAxes = int32_t(shape.mesh.size());
  for (size_t i = 0; i < std::min<size_t>(shape.mesh.size(), 8); ++i)
    hello.mesh[i] = shape.mesh[i];
  hello.onDevice = shape.onDevice;
  hello.shareDevice = shape.shareDevice;
  if (job.token.size() >= sizeof(hello.token))
    raise(TILERY_CONFIG_ERROR, "the job token has {} characters, at most {} are possible",
          job.token.size(), sizeof(hello.token) - 1);
  putText(hello.token, job.token);
  hello.memory = recordOf(admission.memory);
  hello.problemKind = admission.problem.kind;
  putText(hello.problem, admission.problem.message);
  return hello;
}

std::vector<int> rendezvous::descriptorsOf(const PeerDescriptors &peer) {
  std::vector<int> list = {peer.memory.host.get(), peer.process.get()};
  if (peer.memory.deviceFile.open())
    list.push_back(peer.memory.deviceFile.get());
  return list;
}

bool rendezvous::takePeer(const MemoryRecord &record, int pid, std::vector<Descriptor> &descriptors,
                          PeerDescriptors &peer) {
  bool hasFile = record.device.descriptor >= 0;
  if (descriptors.size() != size_t(hasFile ? 3 : 2))
    return false;
  peer.memory = {std::move(descriptors[0]), record.device, Descriptor(), record.deviceText};
  peer.process = std::move(descriptors[1]);
  peer.pid = pid;
  if (hasFile)
    peer.memory.deviceFile = std::move(descriptors[2]);
  peer.memory.device.descriptor = peer.memory.deviceFile.get();
  return true;
}

static uint64_t hashText(const std::string &text, uint64_t hash) {
  for (unsigned char c : text)
    hash = (hash ^ c) * 0x100000001b3ull;
  return hash;
}

std::string rendezvousName(const Job &job, int sequence) {
  std::string text = fmt::format("{}|{}|{}", geteuid(), job.name, sequence);
  return fmt::format("tilery-{:016x}{:016x}", hashText(text, 0xcbf29ce484222325ull),
                     hashText(text, 0x84222325cbf29ce4ull));
}

static Descriptor connectInTime(const Job &job, const std::string &name, double timeoutSeconds) {
  Deadline deadline = Deadline::after(timeoutSeconds);
  while (!deadline.passed(nowNs())) {
    Descriptor socket = connectTo(name);
    if (socket.open()) {
      if (!sameUser(socket))
        raise(TILERY_CONFIG_ERROR, "the job's rendezvous belongs to another user");
      return socket;
    }
    usleep(5000);
    raiseIfInterrupted();
  }
  raise(TILERY_PEER_ERROR,
        "rank {} did not find rank 0 within {} s ({}, MASTER_ADDR '{}', MASTER_PORT '{}', "
        "interfaces: {})\nhint: all ranks must run on one host, as one user, with the same "
        "MASTER_ADDR and MASTER_PORT; a slow start needs a larger TILERY_TIMEOUT_S",
        job.rank, timeoutSeconds, job.launcher, job.masterAddress, job.masterPort,
        listInterfaces());
}

static void awaitMessage(const Descriptor &socket) {
  pollfd event{socket.get(), POLLIN, 0};
  while (poll(&event, 1, 100) <= 0)
    raiseIfInterrupted();
}

static Rendezvous joinHost(const Job &job, const Admission &admission, const std::string &name,
                           const PeerDescriptors &self, double timeoutSeconds) {
  Descriptor socket = connectInTime(job, name, timeoutSeconds);
  Hello hello = rendezvous::makeHello(job, admission);
  bool good = sendMessage(socket, &hello, sizeof(hello), rendezvous::descriptorsOf(self));
  // Rank 0 keeps the deadline, and its death ends the wait.
  Verdict verdict;
  std::vector<Descriptor> none;
  awaitMessage(socket);
  good = good && receiveMessage(socket, &verdict, sizeof(verdict), none, -1);
  if (!good)
    raise(TILERY_PEER_ERROR, "rank 0 died while the world was set up");
  if (verdict.answer != Answer::Welcome)
    raise(verdict.answer == Answer::Refused ? TILERY_CONFIG_ERROR : TILERY_PEER_ERROR, "{}",
          verdict.text);
  Rendezvous result;
  result.peers.resize(size_t(job.size));
  for (int i = 0; i <= job.size; ++i) {
    Entry entry;
    std::vector<Descriptor> descriptors;
    bool whole = receiveMessage(socket, &entry, sizeof(entry), descriptors, -1);
    if (whole && i > 0)
      whole = rendezvous::takePeer(entry.memory, entry.pid, descriptors,
                                   result.peers[size_t(entry.rank)]);
    else if (whole && (whole = descriptors.size() == 1))
      result.control = std::move(descriptors[0]);
    if (!whole)
      raise(TILERY_PEER_ERROR, "rank 0 died while the world was set up");
  }
  result.links.push_back(std::move(socket));
  return result;
}

Rendezvous meet(const Job &job, Admission admission, double timeoutSeconds) {
  static std::atomic<int> sequence = 0;
  std::string name = rendezvousName(job, sequence++);
  int process = int(syscall(SYS_pidfd_open, getpid(), 0));
  if (process < 0)
    raise(TILERY_CONFIG_ERROR, "pidfd_open does not work here: {}\nhint: it needs Linux 5.3 and no "
          "seccomp filter against it", std::strerror(errno));
  Error problem = admission.problem;
  PeerDescriptors self{std::move(admission.memory), Descriptor(process), getpid()};
  // The record of the own memory goes into the first message.
  admission.memory.device = self.memory.device;
  admission.memory.deviceText = self.memory.deviceText;
  try {
    if (job.rank == 0)
      return rendezvous::gather(job, name, std::move(admission), std::move(self), timeoutSeconds);
    return joinHost(job, admission, name, self, timeoutSeconds);
  } catch (const Error &) {
    if (problem.kind != TILERY_OK)
      throw problem;
    throw;
  }
}

} // namespace tilery::rt
