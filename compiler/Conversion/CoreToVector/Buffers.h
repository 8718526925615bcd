// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Memory for tiles that are not kept in registers: small ones on the stack, others in the
// instance's scratch memory.
#pragma once

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"

namespace tilery::vec {

/// A tile in memory. `base` dominates every use; strides are in elements.
struct Buffer {
  mlir::Value base;
  mlir::Type element; ///< as in the source program (i1, pointers)
  llvm::SmallVector<int64_t, 4> shape, strides;
};

/// Places buffers with the discipline of a stack of regions: what a region allocated is
/// free again once it is left. Fibers have small stacks, so only small buffers go there.
class BufferAllocator {
public:
  /// `builder` and the scratch pointer belong to the entry block, which ends (so far) at
  /// `before`: buffers' addresses are computed there.
  void initialise(mlir::Block *entry, mlir::Value scratch);

  mlir::Value allocate(int64_t bytes, mlir::Location loc);
  struct Mark {
    int64_t scratchTop;
    size_t active;
  };
  Mark mark() const { return {scratchTop, active.size()}; }
  void release(Mark mark);
  int64_t scratchBytes() const { return scratchHigh; }

private:
  struct Slot {
    mlir::Value address;
    int64_t bytes;
  };
  mlir::Value allocateStack(int64_t bytes, mlir::Location loc);

  mlir::Block *entry = nullptr;
  mlir::Value scratch;
  mlir::Operation *last = nullptr; ///< addresses go after it
  llvm::SmallVector<Slot> active, available;
  int64_t scratchTop = 0, scratchHigh = 0, stackBytes = 0;
};

} // namespace tilery::vec
