// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Which loads of a kernel bulk copies can bring, and the rings of shared memory that they fill.
#pragma once

#include "compiler/Target/Nvidia/KernelMaps.h"
#include "compiler/Target/Nvidia/Passes.h"
#include "compiler/Target/Simt/IR/Simt.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/DenseMap.h"

#include <vector>

namespace tilery::nvidia {

using namespace mlir;
using simt::BufferType;

struct Load {
  core::LoadOp op;
  AffineAccess access;
  BufferType type;
};

/// Loads that one slot of a ring holds.
struct Group {
  std::vector<Load> loads;
  Block *block;
  core::DotOp dot; ///< the first that uses it
  unsigned ring = 0;
  SmallVector<int32_t> maps;
};

struct Ring {
  SmallVector<BufferType> tiles;
  unsigned depth = 0; ///< of loops around its innermost use
  unsigned stages = 1;

  int64_t bytes() const {
    int64_t sum = 0;
    for (BufferType tile : tiles)
      sum += int64_t(llvm::alignTo(uint64_t(tile.bytes()), 1024));
    return sum;
  }
};

struct Operand {
  core::LoadOp load;
  bool transposed = false;
};

/// The load behind an operand of a product, directly or by way of a transposition.
Operand operandOf(Value value);

class RingPlan {
public:
  RingPlan(func::FuncOp kernel, const SpecialiseWarpsOptions &options)
      : kernel(kernel), numWarps(options.numWarps), numStages(options.numStages),
        sharedBytes(options.sharedBytes), kernelMakesMaps(options.kernelMakesMaps) {}

  /// False when the kernel is to stay as it is.
  bool make() { return isCandidate() && findGroups() && chooseStages() && makeMaps(); }
  static BufferType transposed(BufferType type);
  /// Of the 64 K registers of a multiprocessor the copying warps need few, the others take the rest.
  void limitRegisters();

  func::FuncOp kernel;
  unsigned numWarps, numStages;
  int64_t sharedBytes;
  bool kernelMakesMaps;
  SmallVector<core::DotOp> dots;
  std::vector<Group> groups;
  std::vector<Ring> rings;
  DenseMap<Operation *, unsigned> groupOf;
  SmallVector<Attribute> ringAttrs, mapAttrs;
  KernelMaps kernelMaps;
  DenseMap<Operation *, int64_t> usedColumns; ///< of products that need not compute all

private:
  bool isCandidate();

  static bool isSupported(core::DotOp dot);

  static bool isHalf(Type element) { return element.isBF16() || element.isF16(); }

  // What the instruction takes: groups of 64 rows, columns in steps of 8 up to 256, depth of 32 bytes.
  bool fitsInstruction(core::DotOp dot, const BufferType &rhs);

  static BufferType bufferType(core::LoadOp load, const AffineAccess &access);

  // By a map of the launcher where it can make one.
  std::optional<AffineAccess> accessOf(core::LoadOp load);

  // Rows of a left operand and columns of a right one that its mask takes away are not copied where
  // the product's result is not used there either. False when this cannot be seen.
  bool dropUnused(core::DotOp dot, AffineAccess &access, unsigned dim, bool isRhs);

  // A load that only products use, by way of a transposition at most.
  static bool feedsOnlyDots(core::LoadOp load);

  bool fitsCopies(const Load &load);

  bool addOperand(core::DotOp dot, Value value, bool isRhs);

  Group &groupFor(core::DotOp dot, Block *block);

  bool findGroups();

  static bool isLoop(const Group &group);

  static unsigned depthOf(const Group &group);

  // Loops one after the other use the same ring for tiles of the same kind, in turn.
  void chooseRings();

  // Different loops of one block: all of the first is over when the second begins.
  static bool areSuccessive(const Group &a, const Group &b);

  // Rings of the innermost loops get all stages that fit; those outside hold one tile.
  bool chooseStages();

  bool makeMaps();
};

} // namespace tilery::nvidia
