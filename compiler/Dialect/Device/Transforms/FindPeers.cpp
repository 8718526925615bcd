// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Tables of distances for uses of registered memory on other ranks; Passes.td shows it.
#include "compiler/Dialect/Device/Transforms/Passes.h"

#include "compiler/Dialect/Core/Analysis/PointerOrigins.h"
#include "compiler/Dialect/Device/IR/Device.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;

namespace tilery::device {
#define GEN_PASS_DEF_FINDPEERS
#include "compiler/Dialect/Device/Transforms/Passes.h.inc"

namespace {

class Finder {
public:
  explicit Finder(func::FuncOp kernel) : kernel(kernel) {}

  LogicalResult run() {
    WalkResult walked = kernel.walk([&](Operation *op) {
      LogicalResult found = success();
      if (auto at = dyn_cast<SymmAtOp>(op))
        found = use(op, at.getSource(), at.getPeersMutable(), "dl.symm_at");
      else if (auto put = dyn_cast<PutOp>(op))
        found = use(op, put.getDestination(), put.getPeersMutable(), "dl.put");
      else if (auto get = dyn_cast<GetOp>(op))
        found = use(op, get.getSource(), get.getPeersMutable(), "dl.get");
      return found.succeeded() ? WalkResult::advance() : WalkResult::interrupt();
    });
    if (!tableOf.empty())
      kernel->setAttr("device.peers", DenseI32ArrayAttr::get(kernel.getContext(),
                                                             llvm::to_vector(llvm::make_first_range(tableOf))));
    return failure(walked.wasInterrupted());
  }

private:
  func::FuncOp kernel;
  llvm::MapVector<int32_t, Value> tableOf; ///< i64 argument with the address of an argument's table

  bool isRegistered(Value origin) {
    auto argument = dyn_cast<BlockArgument>(origin);
    return argument && argument.getOwner()->getParentOp() == kernel &&
           kernel.getArgAttr(argument.getArgNumber(), "device.registered");
  }

  Value table(unsigned argument) {
    Value &found = tableOf[int32_t(argument)];
    if (!found) {
      unsigned last = kernel.getNumArguments();
      (void)kernel.insertArgument(last, IntegerType::get(kernel.getContext(), 64), {}, kernel.getLoc());
      found = kernel.getArgument(last);
    }
    return found;
  }

  std::string nameOf(Value origin) {
    auto argument = dyn_cast<BlockArgument>(origin);
    auto names = kernel->getAttrOfType<ArrayAttr>("core.parameters");
    if (!argument || !names || argument.getArgNumber() >= names.size())
      return "another pointer";
    return "'" + cast<StringAttr>(names[argument.getArgNumber()]).str() + "'";
  }

  LogicalResult use(Operation *op, Value pointer, MutableOperandRange peers, StringRef what) {
    SmallVector<Value> origins = core::pointerOrigins(pointer);
    auto *registered = llvm::find_if(origins, [&](Value origin) { return isRegistered(origin); });
    if (registered == origins.end())
      return success();
    if (origins.size() > 1) {
      Value other = registered == origins.begin() ? origins[1] : origins[0];
      return op->emitError(what) << ": the pointer comes from " << nameOf(*registered) << " or from "
                                 << nameOf(other) << ", which lie at different distances on other ranks, since "
                                 << nameOf(*registered)
                                 << " is registered memory\nhint: use each of them in a branch of its own";
    }
    peers.assign(table(cast<BlockArgument>(*registered).getArgNumber()));
    return success();
  }
};

struct FindPeers : impl::FindPeersBase<FindPeers> {
  using FindPeersBase::FindPeersBase;

  void runOnOperation() override {
    for (auto kernel : getOperation().getOps<func::FuncOp>())
      if (Finder(kernel).run().failed())
        return signalPassFailure();
  }
};

} // namespace
} // namespace tilery::device
