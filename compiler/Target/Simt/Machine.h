// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// What code for lanes and warps asks of a vendor's machine.
#pragma once

#include "compiler/Target/Simt/AsyncDot.h"
#include "compiler/Target/Simt/LinearLayout.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/Builders.h"

namespace tilery::simt {

/// One instruction of the matrix units that a whole warp executes: D[m, n] = A[m, k] B[k, n] + C.
/// Bases are row-major indices inside these three small tiles; the accumulator's serve C and D.
struct MatrixInstruction {
  int64_t m = 0, n = 0, k = 0;
  Bases lhsRegisters, lhsLanes, rhsRegisters, rhsLanes, accRegisters, accLanes;
  /// What the machine needs to recognise its instruction.
  std::string name;
};

/// What ends a wait in vain, because whom it is for has failed.
struct BrokenFlag {
  mlir::Value address; ///< of an i32 that is then not 0; null when nobody can fail
  /// The thread ends; else it goes on. While products are under way it must go on.
  bool leave = false;
};

/// What a tensor map says, the contiguous dimension first.
struct TensorMapParts {
  mlir::Value base; ///< a pointer to global memory
  llvm::SmallVector<mlir::Value> extents,
      strides; ///< i32; i64 in bytes, of all dimensions but the first
  llvm::SmallVector<int32_t> box;
  unsigned elementBytes, swizzleBytes;
};

class Machine {
public:
  virtual ~Machine() = default;

  /// Lanes of a warp: 2^laneBits.
  virtual unsigned laneBits() const = 0;
  /// Most shared memory of a program instance.
  virtual int64_t sharedBytes() const = 0;

  /// Gives a kernel's function what makes it one; parameters from `firstMap` on are tensor maps.
  virtual void declareKernel(mlir::LLVM::LLVMFuncOp function, unsigned firstMap,
                             unsigned maps) const = 0;

  /// For operands and accumulators of these element types; none when there is no such unit.
  virtual std::optional<MatrixInstruction> matrixInstruction(mlir::Type operand, mlir::Type acc,
                                                             core::InputPrecision precision) const = 0;
  virtual llvm::SmallVector<mlir::Value>
  emitMatrix(mlir::OpBuilder &b, mlir::Location loc, const MatrixInstruction &instruction,
             mlir::ValueRange lhs, mlir::ValueRange rhs, mlir::ValueRange acc) const = 0;

  //===-- Threads: i32 values ------------------------------------------------------------===//
  virtual mlir::Value thread(mlir::OpBuilder &b, mlir::Location loc) const = 0;
  virtual mlir::Value programId(mlir::OpBuilder &b, mlir::Location loc, unsigned axis) const = 0;
  virtual mlir::Value numPrograms(mlir::OpBuilder &b, mlir::Location loc, unsigned axis) const = 0;

  //===-- Between threads ------------------------------------------------------------------===//
  /// `value` (i32) of the lane whose number differs in the bits of `mask`.
  virtual mlir::Value shuffleXor(mlir::OpBuilder &b, mlir::Location loc, mlir::Value value,
                                 unsigned mask) const = 0;
  /// `value` (i32) of lane `lane` (i32).
  virtual mlir::Value shuffle(mlir::OpBuilder &b, mlir::Location loc, mlir::Value value,
                              mlir::Value lane) const = 0;
  /// Threads of the program instance meet; their writes before are visible after. `threads`: the
  /// first so many only; 0 for all.
  virtual void barrier(mlir::OpBuilder &b, mlir::Location loc, unsigned threads) const = 0;
  /// The same, and whether `condition` (i1) is true on any thread.
  virtual mlir::Value barrierOr(mlir::OpBuilder &b, mlir::Location loc, mlir::Value condition,
                                unsigned threads) const = 0;
  /// LLVM's name of a scope of synchronisation.
  virtual llvm::StringRef syncScope(core::MemoryScope scope) const = 0;
  /// Updates global memory atomically within the scope, in no order; what it was before.
  virtual mlir::Value atomicUpdate(mlir::OpBuilder &b, mlir::Location loc,
                                   mlir::LLVM::AtomicBinOp operation, mlir::Value address,
                                   mlir::Value value, core::MemoryScope scope) const = 0;
  // For rare use: read where they stand, so that no register holds them elsewhere.
  /// Number of the program instance, x fastest.
  virtual mlir::Value instance(mlir::OpBuilder &b, mlir::Location loc) const = 0;
  /// Number of the multiprocessor that runs this thread.
  virtual mlir::Value processor(mlir::OpBuilder &b, mlir::Location loc) const = 0;
  /// Nanoseconds, i64.
  virtual mlir::Value clock(mlir::OpBuilder &b, mlir::Location loc) const = 0;
  /// Of this processor, i32; cheaper than the clock.
  virtual mlir::Value cycles(mlir::OpBuilder &b, mlir::Location loc) const = 0;
  /// Lets others run for about so many nanoseconds (i32).
  virtual void pauseFor(mlir::OpBuilder &b, mlir::Location loc, mlir::Value time) const = 0;
  /// Ends this thread.
  virtual void exit(mlir::OpBuilder &b, mlir::Location loc) const = 0;
  /// The same word (i32) by an instruction that stays where it is: what is computed of it comes after.
  virtual mlir::Value keepWord(mlir::OpBuilder &b, mlir::Location loc, mlir::Value word) const = 0;
  /// C's printf; `format` and the values follow its promotions.
  virtual void print(mlir::OpBuilder &b, mlir::Location loc, llvm::StringRef format,
                     mlir::ValueRange values) const = 0;

  //===-- Copies to shared memory that threads start -----------------------------------------------===//
  /// Whether one copy may have so many bytes, at an address that divides by them.
  virtual bool copiesAtOnce(unsigned bytes) const = 0;
  /// Starts a copy and goes on. `destination` is in shared memory. It does nothing where `enabled` (i1,
  /// may be null) does not hold, and writes zeros where `kept` (i1, may be null) does not.
  virtual void copyAsync(mlir::OpBuilder &b, mlir::Location loc, mlir::Value destination,
                         mlir::Value source, unsigned bytes, mlir::Value enabled,
                         mlir::Value kept) const = 0;
  /// The copies that this thread started since the last commit are one group.
  virtual void commitCopies(mlir::OpBuilder &b, mlir::Location loc) const = 0;
  /// Until all but the last `pending` groups of this thread have come.
  virtual void awaitCopies(mlir::OpBuilder &b, mlir::Location loc, unsigned pending) const = 0;

  //===-- Matrices in shared memory (MatrixRows) -------------------------------------------------------===//
  virtual bool loadsMatrices() const = 0;
  /// `count` words (i32) a lane, one of each matrix; `row` (in shared memory) is this lane's.
  virtual llvm::SmallVector<mlir::Value> loadMatrices(mlir::OpBuilder &b, mlir::Location loc,
                                                      mlir::Value row, unsigned count,
                                                      bool transposed) const = 0;

  /// Words (i32) of one, two or four matrices, as loadMatrices gives them; `row` is this lane's.
  virtual void storeMatrices(mlir::OpBuilder &b, mlir::Location loc, mlir::Value row,
                             mlir::ValueRange words) const = 0;

  //===-- Copies from shared to global memory that run by themselves ------------------------------------===//
  virtual bool copiesStores() const = 0;
  /// What this warp has written to shared memory is there for its copies; with `global`, they also come
  /// behind what was stored to global memory, which takes far longer.
  virtual void publishStage(mlir::OpBuilder &b, mlir::Location loc, bool global) const = 0;
  /// Starts a copy of `bytes` (i32, a multiple of 16) from `source` (in shared memory, i32) to global memory,
  /// a peer's too (i64), on one lane; none for 0.
  virtual void storeRow(mlir::OpBuilder &b, mlir::Location loc, mlir::Value destination,
                        mlir::Value source, mlir::Value bytes) const = 0;
  /// Starts a copy to the array that `map` describes, on one lane, where `enabled` (i1) holds.
  virtual void storeBox(mlir::OpBuilder &b, mlir::Location loc, mlir::Value map,
                        mlir::ValueRange coordinates, mlir::Value source,
                        mlir::Value enabled) const = 0;
  /// The copies that this thread started since the last commit are one group.
  virtual void commitStores(mlir::OpBuilder &b, mlir::Location loc) const = 0;
  /// Until all copies of this thread are done.
  virtual void awaitStores(mlir::OpBuilder &b, mlir::Location loc) const = 0;
  /// Until all but the last `pending` groups of this warp have read what they copy, for all its lanes.
  virtual void awaitStage(mlir::OpBuilder &b, mlir::Location loc, unsigned pending) const = 0;

  //===-- Engines that run by themselves; addresses in shared memory are i32 -----------------===//
  virtual void initSlotBarrier(mlir::OpBuilder &b, mlir::Location loc, mlir::Value address,
                               unsigned arrivals) const = 0;
  /// Makes initialised barriers visible to copies.
  virtual void publishBarriers(mlir::OpBuilder &b, mlir::Location loc) const = 0;
  virtual void arrive(mlir::OpBuilder &b, mlir::Location loc, mlir::Value barrier) const = 0;
  /// The lanes of a warp meet, which orders their memory.
  virtual void meetWarp(mlir::OpBuilder &b, mlir::Location loc) const = 0;
  /// Arrives, and lets the barrier wait for so many bytes of copies. Once for a warp, whose lanes
  /// are all here; copyTile too.
  virtual void expectBytes(mlir::OpBuilder &b, mlir::Location loc, mlir::Value barrier,
                           int64_t bytes) const = 0;
  /// Until the phase of parity `phase` (i32) is complete. What is `carried` (i32) passes through, so
  /// that it is computed before the wait and used only after it.
  virtual llvm::SmallVector<mlir::Value> waitBarrier(mlir::OpBuilder &b, mlir::Location loc,
                                                     mlir::Value barrier, mlir::Value phase,
                                                     mlir::ValueRange carried,
                                                     const BrokenFlag &broken) const = 0;
  /// Copies that any lane of this warp starts after this see what threads wrote that one of its lanes has
  /// synchronised with.
  virtual void orderCopies(mlir::OpBuilder &b, mlir::Location loc) const = 0;
  /// What the matrix units want to know of a tile at `address`: i32.
  virtual mlir::Value operandStart(mlir::OpBuilder &b, mlir::Location loc,
                                   mlir::Value address) const = 0;
  /// One box of the tensor that `map` describes.
  virtual void copyTile(mlir::OpBuilder &b, mlir::Location loc, mlir::Value destination,
                        mlir::Value map, mlir::ValueRange coordinates,
                        mlir::Value barrier) const = 0;
  /// Has a map fetched that copies will soon ask for.
  virtual void fetchMap(mlir::OpBuilder &b, mlir::Location loc, mlir::Value map) const = 0;
  /// Whether this machine makes tensor maps while it runs, of how many bytes each.
  virtual bool makesMaps() const = 0;
  static constexpr int64_t mapBytes = 128;
  /// Writes a map to global memory, by way of as much shared memory (`stage`, i32), for the copies
  /// of this warp, whose lanes are all here. Copies by what was there before are over.
  virtual void makeMap(mlir::OpBuilder &b, mlir::Location loc, mlir::Value place, mlir::Value stage,
                       const TensorMapParts &parts) const = 0;
  virtual llvm::SmallVector<mlir::Value> emitAsyncDot(mlir::OpBuilder &b, mlir::Location loc,
                                                      const AsyncDot &dot) const = 0;
  virtual llvm::SmallVector<mlir::Value> waitDots(mlir::OpBuilder &b, mlir::Location loc,
                                                  unsigned pending,
                                                  mlir::ValueRange accumulators) const = 0;
  /// Gives registers back, or takes `more`, a thread of this group of warps.
  virtual void limitRegisters(mlir::OpBuilder &b, mlir::Location loc, unsigned count,
                              bool more) const = 0;

  /// The machine's own form of an operation on scalars; null when it has none.
  virtual mlir::Value emitMath(mlir::OpBuilder &b, mlir::Operation *op,
                               mlir::ValueRange operands) const = 0;
};

} // namespace tilery::simt
