// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Messages of the rendezvous. Rank k sends a Hello with its descriptors; rank 0 checks it and, when
// all have come, sends every rank a Verdict and then one Entry with descriptors for each rank,
// preceded by one for the control block.
#pragma once

#include "runtime/world/rendezvous.h"

#include <cstdint>
#include <string>

namespace tilery::rt::rendezvous {

inline constexpr uint32_t Magic = 0x544c5259; // "TLRY"
inline constexpr uint32_t Version = 3;

/// A rank's memory; descriptors go beside the message.
struct MemoryRecord {
  hal::ExportedMemory device;
  char deviceText[128] = {};
};

struct Hello {
  uint32_t magic = Magic;
  uint32_t version = Version;
  int32_t rank = 0;
  int32_t size = 0;
  int32_t pid = 0;
  int32_t meshAxes = 0;
  uint64_t heapBytes = 0;
  int32_t mesh[8] = {};
  int32_t onDevice = 0;
  int32_t shareDevice = 0;
  char token[256] = {};
  MemoryRecord memory;
  int32_t problemKind = TILERY_OK;
  char problem[1000] = {};
};

enum class Answer : int32_t { Welcome, Refused, Failed };

struct Verdict {
  Answer answer = Answer::Welcome;
  char text[1020] = {};
};

struct Entry {
  int32_t rank = 0;
  int32_t pid = 0;
  MemoryRecord memory;
};

Hello makeHello(const Job &job, const Admission &admission);
MemoryRecord recordOf(const RankMemory &memory);
/// The descriptors of a rank: memory of the host, process, and of the device's memory if it has one.
std::vector<int> descriptorsOf(const PeerDescriptors &peer);
/// False when they are not as the record says.
bool takePeer(const MemoryRecord &record, int pid, std::vector<Descriptor> &descriptors,
              PeerDescriptors &peer);

/// Rank 0's side.
Rendezvous gather(const Job &job, const std::string &name, Admission admission,
                  PeerDescriptors self, double timeoutSeconds);

} // namespace tilery::rt::rendezvous
