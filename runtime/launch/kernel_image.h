// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// What the runtime must know of a compiled kernel; the compiler makes one, whoever
// owns the code keeps it alive while launches run.
#pragma once

#include "tilery/kernel_abi.h"

#include <cstdint>
#include <string>
#include <vector>

namespace tilery::rt {

/// A place in the user's file that a run-time error can name.
struct SourceSite {
  std::string file;
  int line = 0;
  int column = 0;
  /// What stands there, in the user's words: "dl.wait(ready + owner, waitValue=8)".
  std::string text;
};

struct KernelParameter {
  enum class Kind { Scalar, Pointer, SymmetricPointer, Signal };
  std::string name;
  Kind kind = Kind::Scalar;
  /// Spelled as in a signature: "fp32", "*bf16", "i64".
  std::string type;
};

class DeviceKernel;

struct KernelImage {
  std::string name;
  /// Of a kernel that runs in this process.
  tilery_kernel_entry entry = nullptr;
  /// Of a kernel that was loaded on a device.
  DeviceKernel *device = nullptr;
  std::vector<KernelParameter> parameters;
  /// Parameters of whose memory the kernel gets the extent, behind the other arguments.
  std::vector<int32_t> extents;
  /// Parameters that are registered memory, to whose peers the kernel gets the distances, behind those.
  std::vector<int32_t> peers;
  std::vector<SourceSite> sites;
  int64_t scratchBytes = 0;
  /// May suspend (waits, barriers, polling loops): instances need fibers and residency.
  bool suspends = false;
  /// Uses ranks, symmetric memory or signals: needs a world.
  bool communicates = false;
};

} // namespace tilery::rt
