// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Finds a kernel in the embedded files.
#include "ops/kernels.h"

#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace tilery::ops {

static Kernel &kernelIn(const std::string &path, const std::string &name) {
  static std::mutex mutex;
  // Never destroyed: launches of other threads may outlive static destruction.
  static auto &made = *new std::map<std::string, std::unique_ptr<Kernel>>;
  std::lock_guard lock(mutex);
  std::unique_ptr<Kernel> &entry = made[path + ":" + name];
  if (!entry) {
    std::vector<SourceFile> files(kernelFiles, kernelFiles + kernelFileCount);
    for (const SourceFile &file : files)
      if (file.path == path)
        entry = std::make_unique<Kernel>(Kernel::fromText(path, file.text, name, files));
    if (!entry)
      throw Error(Kind::Internal, "the library has no kernel file " + path);
  }
  return *entry;
}

Kernel &kernel(const std::string &op, const std::string &name) {
  return kernelIn("ops/" + op + "/" + op + ".py", name);
}

Kernel &sharedKernel(const std::string &name) { return kernelIn("ops/parts.py", name); }
Kernel &peersKernel(const std::string &name) { return kernelIn("ops/peers.py", name); }

} // namespace tilery::ops
