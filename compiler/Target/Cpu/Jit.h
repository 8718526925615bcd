// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Loads a kernel's object code (fresh or from the disk cache) into this process.
#pragma once

#include "tilery/kernel_abi.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <memory>

namespace tilery::cpu {

/// Keeps loaded code alive; the entry points dangle once it is destroyed.
/// Objects may be loaded and destroyed from any thread.
class LoadedObject {
public:
  /// Links `object`. It may refer to functions of libm (for fp64 and the functions without a
  /// vector form), memcpy, memmove and memset, and to nothing else; a program that links
  /// the object itself needs the same.
  static llvm::Expected<std::unique_ptr<LoadedObject>> load(llvm::StringRef object);
  ~LoadedObject();

  /// The kernel `name`; an error when the object has none of that name.
  llvm::Expected<tilery_kernel_entry> entry(llvm::StringRef name) const;

private:
  struct Impl;
  explicit LoadedObject(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl;
};

} // namespace tilery::cpu
