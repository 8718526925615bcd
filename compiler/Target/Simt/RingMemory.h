// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Where the rings of a kernel with roles lie in shared memory.
#pragma once

#include "compiler/Target/Simt/IR/Simt.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tilery::simt {

struct RingPlace {
  unsigned stages = 0;
  llvm::SmallVector<BufferType> tiles;
  llvm::SmallVector<int64_t> offsets; ///< of each tile's first slot
  int64_t slotBytes = 0; ///< that copies bring
  int64_t barriers = 0;  ///< offset of `full` for each slot, then `empty`
};

struct RingMemory {
  llvm::SmallVector<RingPlace> rings;
  int64_t mapStage = 0; ///< where tensor maps are put together, where the kernel makes any
  int64_t bytes = 0;
};

/// From the attribute `simt.rings`: one dictionary a ring with `stages` and `tiles`.
RingMemory ringMemory(mlir::func::FuncOp kernel);
/// What a slot takes for a tile.
int64_t slotBytes(BufferType tile);

} // namespace tilery::simt
