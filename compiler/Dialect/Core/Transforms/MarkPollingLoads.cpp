// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Loads that decide whether a while loop goes on are made volatile; Passes.td shows it.
#include "compiler/Dialect/Core/IR/Core.h"
#include "compiler/Dialect/Core/Transforms/Passes.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace tilery::core {
#define GEN_PASS_DEF_MARKPOLLINGLOADS
#include "compiler/Dialect/Core/Transforms/Passes.h.inc"

namespace {

struct MarkPollingLoads : impl::MarkPollingLoadsBase<MarkPollingLoads> {
  void runOnOperation() override {
    getOperation()->walk([](scf::WhileOp loop) {
      loop.getBefore().walk([](LoadOp load) { load.setIsVolatile(true); });
    });
  }
};

} // namespace
} // namespace tilery::core
