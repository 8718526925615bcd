// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// What is known of a device, and of memory that is passed between processes.
#pragma once

#include <cstdint>
#include <string>

namespace tilery::rt::hal {

/// Facts about a device that choices of code and schedule depend on.
struct DeviceProperties {
  std::string name;
  /// The same in every process of the host: "GPU-3f1c..."; "" of the host itself.
  std::string identity;
  /// What the compiler calls this kind of device: "cpu", "sm_90a".
  std::string target;
  /// Newest version of the assembly language that is taken, major * 10 + minor; 0: none.
  int32_t assemblyVersion = 0;
  /// That run program instances at once.
  int32_t processors = 1;
  int64_t memoryBytes = 0;
  /// Fast memory that one program instance can have at most.
  int64_t sharedBytes = 0;
};

/// What a driver has handed out at once, to whomever in this process.
struct Allocation {
  void *begin = nullptr;
  uint64_t bytes = 0;
  /// Of no other allocation of this process, before or after, also at the same address.
  uint64_t number = 0;
};

/// What a process passes on so that another one maps memory of its devices.
struct ExportedMemory {
  uint32_t kind = 0; // the driver's
  /// An open file that has to be passed beside the rest, -1: none.
  int descriptor = -1;
  uint64_t bytes = 0;
  char owner[48] = {}; // DeviceProperties::identity
  unsigned char key[64] = {};
};

/// The same moment on the clock that a device's kernels read and on the host's (base/clock.h).
struct ClockReading {
  int64_t deviceNs = 0, hostNs = 0;
  /// The host's time may be off by so much; -1: nothing was read.
  int64_t errorNs = -1;
};

} // namespace tilery::rt::hal
