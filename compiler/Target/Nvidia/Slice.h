// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// The part of a kernel that some of its operations depend on.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/DenseSet.h"

namespace tilery::nvidia {

/// Operations that have to run so that `roots` can, with the loops and branches around them.
class Slice {
public:
  /// Fails (isValid) when the roots depend on tiles, on loops of a kind that cannot be cut, or on what
  /// must not run twice.
  Slice(mlir::func::FuncOp kernel, llvm::ArrayRef<mlir::Operation *> roots);

  bool isValid() const { return valid; }
  /// Copies of what belongs to the slice, in order, at the builder's position.
  void clone(mlir::Block &from, mlir::OpBuilder &b);

private:
  bool canRunTwice(mlir::Operation *op);
  void need(mlir::Value value);
  void keep(mlir::Operation *op);
  void cloneFor(mlir::scf::ForOp loop, mlir::OpBuilder &b);
  void cloneIf(mlir::scf::IfOp branch, mlir::OpBuilder &b);
  void cloneWhile(mlir::scf::WhileOp loop, mlir::OpBuilder &b);
  bool needArgument(mlir::BlockArgument argument);

  mlir::func::FuncOp kernel;
  bool valid = true;
  llvm::DenseSet<mlir::Operation *> kept;
  llvm::DenseSet<mlir::Value> needed;
  mlir::IRMapping map;
};

} // namespace tilery::nvidia
