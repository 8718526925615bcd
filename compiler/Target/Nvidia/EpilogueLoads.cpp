// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Target/Nvidia/EpilogueLoads.h"

#include "compiler/Target/Nvidia/TensorMaps.h"
#include "mlir/IR/Dominance.h"
#include "mlir/Interfaces/LoopLikeInterface.h"

using namespace mlir;

namespace tilery::nvidia {
namespace {

constexpr int64_t LeastBytes = 8192; // less is there soon

/// The first operation before `load`, in its block, that holds a loop of products; null without
/// one.
Operation *productsBefore(core::LoadOp load, const RingPlan &plan) {
  Operation *first = nullptr;
  for (const Group &group : plan.groups) {
    Operation *holder = load->getBlock()->findAncestorOpInBlock(*group.block->getParentOp());
    if (RingPlan::isLoop(group) && holder && holder->isBeforeInBlock(load) &&
        (!first || holder->isBeforeInBlock(first)))
      first = holder;
  }
  return first;
}

bool isKnownBefore(const AffineAccess &access, Operation *place, const DominanceInfo &dominance) {
  auto isKnown = [&](Value value) { return dominance.properlyDominates(value, place); };
  return llvm::all_of(access.dims, [&](const AccessDim &dim) {
    return (!dim.extent || isKnown(dim.extent)) &&
           llvm::all_of(dim.start, [&](const AffineTerm &term) {
             return llvm::all_of(term.scalars, isKnown);
           });
  });
}

/// Leaves out what the mask takes away at the tile's end, but for the rest of a panel. False when
/// only the mask says where the array ends there.
bool dropUnused(AffineAccess &access, int64_t panelElements) {
  for (auto [position, dim] : llvm::enumerate(access.dims)) {
    if (dim.kept == 0)
      continue;
    if (dim.kept < 0 || !dim.extent)
      return false;
    int64_t unit = position == 0 ? panelElements : 1;
    dim.box = std::min(dim.box, int64_t(llvm::alignTo(uint64_t(dim.kept), uint64_t(unit))));
  }
  return true;
}

std::optional<EpilogueLoad> describe(core::LoadOp load, Operation *products,
                                     const DominanceInfo &dominance) {
  auto access = affineAccess(load);
  if (!access || !isKnownBefore(*access, products, dominance))
    return std::nullopt;
  BufferType whole = RingPlan::bufferType(load, *access);
  if (!dropUnused(*access, whole.panelBytes() / whole.elementBytes()))
    return std::nullopt;
  Load tile{load, *access, RingPlan::bufferType(load, *access)};
  Attribute map = tensorMapAttr(tile.access, tile.type, /*isHint=*/true);
  if (!map || !RingPlan::fitsCopies(tile) || tile.type.bytes() < LeastBytes)
    return std::nullopt;
  return EpilogueLoad{tile, map, products};
}

} // namespace

std::vector<EpilogueLoad> epilogueLoads(const RingPlan &plan) {
  std::vector<EpilogueLoad> found;
  DominanceInfo dominance(plan.kernel);
  func::FuncOp kernel = plan.kernel;
  kernel.walk([&](core::LoadOp load) {
    Operation *products = productsBefore(load, plan);
    if (!products || !products->getParentOfType<LoopLikeOpInterface>() ||
        plan.groupOf.contains(load))
      return;
    if (auto tile = describe(load, products, dominance))
      found.push_back(*tile);
  });
  return found;
}

} // namespace tilery::nvidia
