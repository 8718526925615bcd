// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Target/Nvidia/RingPlan.h"

#include "compiler/Dialect/Core/Analysis/UnusedElements.h"
#include "compiler/Target/Nvidia/ProgramOrder.h"
#include "compiler/Target/Nvidia/TensorMaps.h"
#include "compiler/Target/Simt/Accesses.h"
#include "compiler/Target/Simt/AsyncDot.h"
#include "compiler/Target/Simt/LayoutChoice.h"
#include "llvm/ADT/DenseSet.h"

using namespace tilery::simt;

namespace tilery::nvidia {

Operand operandOf(Value value) {
  if (auto trans = value.getDefiningOp<core::TransOp>())
    if (auto load = trans.getSource().getDefiningOp<core::LoadOp>();
        load && trans.getOrder() == ArrayRef<int32_t>{1, 0})
      return {load, true};
  return {value.getDefiningOp<core::LoadOp>(), false};
}

bool RingPlan::isCandidate() {
  if (numWarps % 4 != 0)
    return false;
  SmallVector<Value> stored;
  bool fits = true;
  kernel.walk([&](Operation *op) {
    if (auto dot = dyn_cast<core::DotOp>(op))
      dots.push_back(dot);
    // Copies would be ahead of the checks of what they copy.
    auto check = dyn_cast<core::CheckBoundsOp>(op);
    if (waitsForMemory(op) || (check && isa<RankedTensorType>(check.getInside().getType())))
      fits = false;
  });
  return fits && !dots.empty();
}

bool RingPlan::isSupported(core::DotOp dot) {
  auto lhs = cast<RankedTensorType>(dot.getLhs().getType());
  auto acc = cast<RankedTensorType>(dot.getAccumulator().getType());
  Type element = lhs.getElementType(), sum = acc.getElementType();
  bool floats = (isHalf(element) || isa<Float8E4M3FNType, Float8E5M2Type>(element)) && sum.isF32();
  return lhs.getRank() == 2 && (floats || (element.isInteger(8) && sum.isInteger(32)));
}

// What the instruction takes: groups of 64 rows, columns in steps of 8 up to 256, depth of 32 bytes.
bool RingPlan::fitsInstruction(core::DotOp dot, const BufferType &rhs) {
  auto acc = cast<RankedTensorType>(dot.getAccumulator().getType());
  int64_t m = acc.getDimSize(0), n = acc.getDimSize(1), k = rhs.getShape()[0];
  if (m < GroupRows || k * rhs.elementBytes() < 32)
    return false;
  GroupGrid grid = GroupGrid::of(m, n, numWarps);
  bool columnsFastest = rhs.getFastest() == 1;
  return grid.columns >= (columnsFastest ? 64 : 8);
}

BufferType RingPlan::bufferType(core::LoadOp load, const AffineAccess &access) {
  int64_t shape[2];
  shape[access.fastest] = access.dims[0].box;
  shape[1 - access.fastest] = access.dims[1].box;
  return BufferType::get(load.getContext(), shape, access.element, access.fastest);
}

BufferType RingPlan::transposed(BufferType type) {
  SmallVector<int64_t> shape = {type.getShape()[1], type.getShape()[0]};
  return BufferType::get(type.getContext(), shape, type.getElement(), 1 - type.getFastest());
}

bool RingPlan::dropUnused(core::DotOp dot, AffineAccess &access, unsigned dim, bool isRhs) {
  bool alongFastest = access.fastest == dim;
  AccessDim &outer = access.dims[alongFastest ? 0 : 1], &depth = access.dims[alongFastest ? 1 : 0];
  auto leavesOut = [&](Value mask, int along) {
    std::optional<int64_t> stored = keptByMask(mask, along);
    return stored && *stored <= outer.kept;
  };
  if (depth.kept || !core::areUnused(dot.getResult(), isRhs ? 1 : 0, leavesOut))
    return false;
  auto acc = cast<RankedTensorType>(dot.getAccumulator().getType());
  GroupGrid grid = GroupGrid::of(acc.getDimSize(0), acc.getDimSize(1), numWarps);
  bool fits = isRhs ? grid.columnGroups == 1 && grid.columns <= 256 && outer.kept % 16 == 0
                    : acc.getDimSize(0) == GroupRows && outer.kept % 8 == 0;
  // Columns that are contiguous lie in panels of 128 bytes, of which no part is left out.
  bool wholePanels =
      !alongFastest || (isRhs && outer.kept * access.element.getIntOrFloatBitWidth() % 1024 == 0);
  if (!fits || outer.kept <= 0 || !wholePanels)
    return true; // more is copied and multiplied than is used
  outer.box = std::min(outer.box, outer.kept);
  if (isRhs)
    usedColumns[dot] = outer.kept;
  return true;
}

// A load that only products use, by way of a transposition at most.
bool RingPlan::feedsOnlyDots(core::LoadOp load) {
  return llvm::all_of(load->getUsers(), [](Operation *user) {
    if (isa<core::TransOp>(user))
      return llvm::all_of(user->getUsers(), llvm::IsaPred<core::DotOp>);
    return isa<core::DotOp>(user);
  });
}

bool RingPlan::fitsCopies(const Load &load) {
  int64_t fast = load.type.getShape()[load.type.getFastest()] * load.type.elementBytes();
  int64_t slow = load.type.getShape()[1 - load.type.getFastest()];
  return fast >= 32 && slow <= 256 && slow >= 8;
}

std::optional<AffineAccess> RingPlan::accessOf(core::LoadOp load) {
  auto access = affineAccess(load);
  if (access && tensorMapAttr(*access, bufferType(load, *access)))
    return access;
  return kernelMakesMaps ? affineAccess(load, MadeBy::Kernel) : std::nullopt;
}

bool RingPlan::addOperand(core::DotOp dot, Value value, bool isRhs) {
  Operand operand = operandOf(value);
  if (!operand.load || !feedsOnlyDots(operand.load))
    return !isRhs && !operand.load; // the left operand may come in registers
  auto access = accessOf(operand.load);
  Value array = access ? argumentBehind(access->base) : Value();
  // Copies run ahead of stores to the same memory.
  if (!array || isWrittenBefore(kernel, array, dot))
    return false;
  if (llvm::any_of(access->dims, [](const AccessDim &dim) { return dim.kept != 0; }) &&
      !dropUnused(dot, *access, isRhs != operand.transposed ? 1 : 0, isRhs))
    return false;
  Load load{operand.load, *access, bufferType(operand.load, *access)};
  BufferType seen = operand.transposed ? transposed(load.type) : load.type;
  // Rows (columns) that lie contiguously need whole panels of 128 bytes, and 16-bit elements.
  bool depthFastest = seen.getFastest() == (isRhs ? 0u : 1u);
  if (!depthFastest && (!isHalf(load.type.getElement()) || load.type.panelBytes() != 128))
    return false;
  if (!fitsCopies(load) ||
      (isRhs && !fitsInstruction(dot, seen)))
    return false;
  if (!groupOf.contains(operand.load)) {
    Group &group = groupFor(dot, operand.load->getBlock());
    groupOf[operand.load] = unsigned(&group - groups.data());
    group.loads.push_back(load);
  }
  return true;
}

Group &RingPlan::groupFor(core::DotOp dot, Block *block) {
  for (Group &group : groups)
    if (group.dot == dot && group.block == block)
      return group;
  groups.push_back({{}, block, dot, 0, {}});
  return groups.back();
}

bool RingPlan::findGroups() {
  for (core::DotOp dot : dots)
    if (!isSupported(dot) || !addOperand(dot, dot.getRhs(), true) ||
        !addOperand(dot, dot.getLhs(), false))
      return false;
  // Rings outside of every loop are filled once.
  return llvm::any_of(groups, [](Group &group) { return isLoop(group); });
}

bool RingPlan::isLoop(const Group &group) {
  return isa<scf::ForOp>(group.block->getParentOp());
}

unsigned RingPlan::depthOf(const Group &group) {
  unsigned depth = 0;
  for (Operation *op = group.block->getParentOp(); op; op = op->getParentOp())
    depth += isa<scf::ForOp>(op);
  return depth;
}

// Loops one after the other use the same ring for tiles of the same kind, in turn.
void RingPlan::chooseRings() {
  for (Group &group : groups) {
    SmallVector<BufferType> tiles;
    for (const Load &load : group.loads)
      tiles.push_back(load.type);
    auto sharable = [&](unsigned ring) {
      return rings[ring].tiles == tiles && llvm::all_of(groups, [&](const Group &other) {
               return &other >= &group || other.ring != ring || areSuccessive(other, group);
             });
    };
    unsigned ring = 0;
    while (ring < rings.size() && !sharable(ring))
      ++ring;
    if (ring == rings.size())
      rings.push_back({tiles});
    group.ring = ring;
    rings[ring].depth = std::max(rings[ring].depth, depthOf(group));
  }
}

// Different loops of one block: all of the first is over when the second begins.
bool RingPlan::areSuccessive(const Group &a, const Group &b) {
  Operation *one = a.block->getParentOp(), *other = b.block->getParentOp();
  return one != other && isa<scf::ForOp>(one) && isa<scf::ForOp>(other) &&
         one->getBlock() == other->getBlock();
}

// Rings of the innermost loops get all stages that fit; those outside hold one tile.
bool RingPlan::chooseStages() {
  chooseRings();
  unsigned innermost = 0;
  for (const Ring &ring : rings)
    innermost = std::max(innermost, ring.depth);
  int64_t reserve = 2048, behind = 0; // barriers, small exchanges
  for (const Ring &ring : rings)
    for (BufferType tile : ring.tiles)
      behind = std::max(behind, bytesBehind(tile));
  reserve += behind;
  for (unsigned stages = std::max(2u, numStages); stages >= 2; --stages) {
    int64_t total = reserve;
    for (Ring &ring : rings) {
      ring.stages = ring.depth == innermost ? stages : 1;
      total += ring.bytes() * ring.stages;
    }
    if (total <= sharedBytes)
      return true;
  }
  return false;
}

bool RingPlan::makeMaps() {
  Builder b(kernel.getContext());
  for (Group &group : groups)
    for (const Load &load : group.loads) {
      if (load.access.maker == MadeBy::Kernel) {
        group.maps.push_back(kernelMaps.addForRing(load.access, load.type, group.ring));
        continue;
      }
      Attribute map = tensorMapAttr(load.access, load.type);
      if (!map)
        return false;
      auto known = llvm::find(mapAttrs, map);
      group.maps.push_back(int32_t(known - mapAttrs.begin()));
      if (known == mapAttrs.end())
        mapAttrs.push_back(map);
    }
  for (const Ring &ring : rings) {
    SmallVector<Attribute> tiles;
    for (BufferType tile : ring.tiles)
      tiles.push_back(TypeAttr::get(tile));
    ringAttrs.push_back(b.getDictionaryAttr(
        {b.getNamedAttr("stages", b.getI32IntegerAttr(int32_t(ring.stages))),
         b.getNamedAttr("tiles", b.getArrayAttr(tiles))}));
  }
  return true;
}

// 64 K registers of a multiprocessor: the copying warps need few, the others take the rest.
void RingPlan::limitRegisters() {
  Builder b(kernel.getContext());
  if (numWarps != 8)
    return; // with one group of four warps no limit binds, with more there is nothing to give
  kernel->setAttr("simt.producer_registers", b.getI32IntegerAttr(24));
  kernel->setAttr("simt.consumer_registers", b.getI32IntegerAttr(240));
}

} // namespace tilery::nvidia
