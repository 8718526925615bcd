// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Target/Simt/RingMemory.h"

#include "compiler/Target/Simt/AsyncDot.h"
#include "compiler/Target/Simt/Machine.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace tilery::simt {

static constexpr int64_t slotAlignment = 1024; // of swizzled panels of 128 bytes

int64_t slotBytes(BufferType tile) {
  return int64_t(llvm::alignTo(uint64_t(tile.bytes()), slotAlignment));
}

RingMemory ringMemory(func::FuncOp kernel) {
  RingMemory memory;
  auto list = kernel->getAttrOfType<ArrayAttr>("simt.rings");
  if (!list)
    return memory;
  int64_t offset = 0, behind = 0;
  for (Attribute entry : list) {
    auto dictionary = cast<DictionaryAttr>(entry);
    RingPlace ring;
    ring.stages = unsigned(cast<IntegerAttr>(dictionary.get("stages")).getInt());
    for (Attribute tile : cast<ArrayAttr>(dictionary.get("tiles"))) {
      auto type = cast<BufferType>(cast<TypeAttr>(tile).getValue());
      ring.tiles.push_back(type);
      ring.offsets.push_back(offset);
      ring.slotBytes += type.bytes();
      offset += slotBytes(type) * ring.stages;
      behind = std::max(behind, bytesBehind(type));
    }
    memory.rings.push_back(std::move(ring));
  }
  offset += behind;
  for (RingPlace &ring : memory.rings) {
    ring.barriers = offset;
    offset += 16 * ring.stages;
  }
  memory.mapStage = int64_t(llvm::alignTo(uint64_t(offset), uint64_t(Machine::mapBytes)));
  memory.bytes = memory.mapStage + (kernel->hasAttr("simt.kernel_maps") ? Machine::mapBytes : 0);
  return memory;
}

} // namespace tilery::simt
