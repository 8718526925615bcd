// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Rewrites one-lane masked stores after LLVM's optimiser, which is what makes masks constant.
#include "compiler/Target/Cpu/OneLaneStores.h"

#include "llvm/IR/Constants.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"

#include <optional>

using namespace llvm;

namespace tilery::cpu {

// The only lane that is on; lanes without a defined value may count as off.
static std::optional<unsigned> onlyLane(Value *mask) {
  auto *constant = dyn_cast<Constant>(mask);
  if (!constant)
    return std::nullopt;
  std::optional<unsigned> found;
  unsigned lanes = cast<FixedVectorType>(mask->getType())->getNumElements();
  for (unsigned lane = 0; lane < lanes; ++lane) {
    Constant *element = constant->getAggregateElement(lane);
    if (!element)
      return std::nullopt;
    if (isa<UndefValue>(element) || element->isNullValue())
      continue;
    if (found)
      return std::nullopt;
    found = lane;
  }
  return found;
}

static void storeLane(IntrinsicInst &store, unsigned lane) {
  IRBuilder<> builder(&store);
  Value *vector = store.getArgOperand(0);
  Value *element = builder.CreateExtractElement(vector, uint64_t(lane));
  Value *address = builder.CreateConstGEP1_64(element->getType(), store.getArgOperand(1), lane);
  builder.CreateAlignedStore(element, address, Align(1));
}

void scalariseOneLaneStores(Module &module) {
  SmallVector<std::pair<IntrinsicInst *, unsigned>> stores;
  for (Function &function : module)
    for (Instruction &instruction : instructions(function))
      if (auto *call = dyn_cast<IntrinsicInst>(&instruction);
          call && call->getIntrinsicID() == Intrinsic::masked_store)
        if (std::optional<unsigned> lane = onlyLane(call->getArgOperand(call->arg_size() - 1)))
          stores.emplace_back(call, *lane);
  for (auto [store, lane] : stores) {
    storeLane(*store, lane);
    store->eraseFromParent();
  }
}

} // namespace tilery::cpu
