// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// What code for lanes and warps asks of a vendor's machine.
#pragma once

#include "compiler/Target/Simt/LinearLayout.h"
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

class Machine {
public:
  virtual ~Machine() = default;

  /// Lanes of a warp: 2^laneBits.
  virtual unsigned laneBits() const = 0;
  /// Most shared memory of a program instance.
  virtual int64_t sharedBytes() const = 0;

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
  /// Threads of the program instance meet; their writes before are visible after.
  virtual void barrier(mlir::OpBuilder &b, mlir::Location loc) const = 0;
  /// The same, and whether `condition` (i1) is true on any thread.
  virtual mlir::Value barrierOr(mlir::OpBuilder &b, mlir::Location loc,
                                mlir::Value condition) const = 0;
  /// LLVM's name of a scope of synchronisation.
  virtual llvm::StringRef syncScope(core::MemoryScope scope) const = 0;
  /// Nanoseconds, i64.
  virtual mlir::Value clock(mlir::OpBuilder &b, mlir::Location loc) const = 0;
  /// Ends this thread.
  virtual void exit(mlir::OpBuilder &b, mlir::Location loc) const = 0;
  /// C's printf; `format` and the values follow its promotions.
  virtual void print(mlir::OpBuilder &b, mlir::Location loc, llvm::StringRef format,
                     mlir::ValueRange values) const = 0;

  /// The machine's own form of an operation on scalars; null when it has none.
  virtual mlir::Value emitMath(mlir::OpBuilder &b, mlir::Operation *op,
                               mlir::ValueRange operands) const = 0;
};

} // namespace tilery::simt
