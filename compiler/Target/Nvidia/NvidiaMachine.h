// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// NVIDIA's form of threads, warps and matrix units.
#pragma once

#include "compiler/Target/Simt/Machine.h"

namespace tilery::nvidia {

class NvidiaMachine : public simt::Machine {
public:
  /// `capability`: 80, 89, 90, ...; `ptxVersion`: 84 is 8.4.
  explicit NvidiaMachine(unsigned capability, unsigned ptxVersion = 85)
      : capability(capability), ptxVersion(ptxVersion) {}

  unsigned laneBits() const override { return 5; }
  int64_t sharedBytes() const override;
  void declareKernel(mlir::LLVM::LLVMFuncOp function, unsigned firstMap,
                     unsigned maps) const override;
  std::optional<simt::MatrixInstruction>
  matrixInstruction(mlir::Type operand, mlir::Type acc,
                    core::InputPrecision precision) const override;
  llvm::SmallVector<mlir::Value> emitMatrix(mlir::OpBuilder &b, mlir::Location loc,
                                            const simt::MatrixInstruction &instruction,
                                            mlir::ValueRange lhs, mlir::ValueRange rhs,
                                            mlir::ValueRange acc) const override;
  mlir::Value thread(mlir::OpBuilder &b, mlir::Location loc) const override;
  mlir::Value programId(mlir::OpBuilder &b, mlir::Location loc, unsigned axis) const override;
  mlir::Value numPrograms(mlir::OpBuilder &b, mlir::Location loc, unsigned axis) const override;
  mlir::Value shuffleXor(mlir::OpBuilder &b, mlir::Location loc, mlir::Value value,
                         unsigned mask) const override;
  mlir::Value shuffle(mlir::OpBuilder &b, mlir::Location loc, mlir::Value value,
                      mlir::Value lane) const override;
  void barrier(mlir::OpBuilder &b, mlir::Location loc, unsigned threads) const override;
  mlir::Value barrierOr(mlir::OpBuilder &b, mlir::Location loc, mlir::Value condition,
                        unsigned threads) const override;
  llvm::StringRef syncScope(core::MemoryScope scope) const override;
  mlir::Value atomicUpdate(mlir::OpBuilder &b, mlir::Location loc, mlir::LLVM::AtomicBinOp operation,
                           mlir::Value address, mlir::Value value,
                           core::MemoryScope scope) const override;
  mlir::Value instance(mlir::OpBuilder &b, mlir::Location loc) const override;
  mlir::Value processor(mlir::OpBuilder &b, mlir::Location loc) const override;
  mlir::Value clock(mlir::OpBuilder &b, mlir::Location loc) const override;
  mlir::Value cycles(mlir::OpBuilder &b, mlir::Location loc) const override;
  void pauseFor(mlir::OpBuilder &b, mlir::Location loc, mlir::Value time) const override;
  void exit(mlir::OpBuilder &b, mlir::Location loc) const override;
  mlir::Value keepWord(mlir::OpBuilder &b, mlir::Location loc, mlir::Value word) const override;
  void print(mlir::OpBuilder &b, mlir::Location loc, llvm::StringRef format,
             mlir::ValueRange values) const override;
  mlir::Value emitMath(mlir::OpBuilder &b, mlir::Operation *op,
                       mlir::ValueRange operands) const override;

  bool copiesAtOnce(unsigned bytes) const override;
  void copyAsync(mlir::OpBuilder &b, mlir::Location loc, mlir::Value destination,
                 mlir::Value source, unsigned bytes, mlir::Value enabled,
                 mlir::Value kept) const override;
  void commitCopies(mlir::OpBuilder &b, mlir::Location loc) const override;
  void awaitCopies(mlir::OpBuilder &b, mlir::Location loc, unsigned pending) const override;
  bool loadsMatrices() const override { return true; }
  llvm::SmallVector<mlir::Value> loadMatrices(mlir::OpBuilder &b, mlir::Location loc,
                                              mlir::Value row, unsigned count,
                                              bool transposed) const override;
  void storeMatrices(mlir::OpBuilder &b, mlir::Location loc, mlir::Value row,
                     mlir::ValueRange words) const override;

  bool copiesStores() const override { return capability == 90; }
  void publishStage(mlir::OpBuilder &b, mlir::Location loc, bool global) const override;
  void storeRow(mlir::OpBuilder &b, mlir::Location loc, mlir::Value destination, mlir::Value source,
                mlir::Value bytes) const override;
  void storeBox(mlir::OpBuilder &b, mlir::Location loc, mlir::Value map,
                mlir::ValueRange coordinates, mlir::Value source,
                mlir::Value enabled) const override;
  void commitStores(mlir::OpBuilder &b, mlir::Location loc) const override;
  void awaitStores(mlir::OpBuilder &b, mlir::Location loc) const override;
  void awaitStage(mlir::OpBuilder &b, mlir::Location loc, unsigned pending) const override;

  void initSlotBarrier(mlir::OpBuilder &b, mlir::Location loc, mlir::Value address,
                       unsigned arrivals) const override;
  void publishBarriers(mlir::OpBuilder &b, mlir::Location loc) const override;
  void arrive(mlir::OpBuilder &b, mlir::Location loc, mlir::Value barrier) const override;
  void meetWarp(mlir::OpBuilder &b, mlir::Location loc) const override;
  void expectBytes(mlir::OpBuilder &b, mlir::Location loc, mlir::Value barrier,
                   int64_t bytes) const override;
  llvm::SmallVector<mlir::Value> waitBarrier(mlir::OpBuilder &b, mlir::Location loc,
                                             mlir::Value barrier, mlir::Value phase,
                                             mlir::ValueRange carried,
                                             const simt::BrokenFlag &broken) const override;
  void orderCopies(mlir::OpBuilder &b, mlir::Location loc) const override;
  mlir::Value operandStart(mlir::OpBuilder &b, mlir::Location loc,
                           mlir::Value address) const override;
  void copyTile(mlir::OpBuilder &b, mlir::Location loc, mlir::Value destination, mlir::Value map,
                mlir::ValueRange coordinates, mlir::Value barrier) const override;
  void fetchMap(mlir::OpBuilder &b, mlir::Location loc, mlir::Value map) const override;
  bool makesMaps() const override { return capability == 90 && ptxVersion >= 85; }
  void makeMap(mlir::OpBuilder &b, mlir::Location loc, mlir::Value place, mlir::Value stage,
               const simt::TensorMapParts &parts) const override;
  llvm::SmallVector<mlir::Value> emitAsyncDot(mlir::OpBuilder &b, mlir::Location loc,
                                              const simt::AsyncDot &dot) const override;
  llvm::SmallVector<mlir::Value> waitDots(mlir::OpBuilder &b, mlir::Location loc, unsigned pending,
                                          mlir::ValueRange accumulators) const override;
  void limitRegisters(mlir::OpBuilder &b, mlir::Location loc, unsigned count,
                      bool more) const override;

private:
  unsigned capability, ptxVersion;
};

/// Neighbouring registers packed to words of 32 bits.
llvm::SmallVector<mlir::Value> packedWords(mlir::OpBuilder &b, mlir::Location loc,
                                           mlir::ValueRange list);

} // namespace tilery::nvidia
