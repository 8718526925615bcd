// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Hopper's way out of shared memory: matrices that a warp writes together (stmatrix), and bulk copies of
// rows and boxes to global memory. Names and operands are those of the PTX ISA.
#include "compiler/Target/Nvidia/NvidiaMachine.h"
#include "compiler/Target/Nvidia/Ptx.h"

using namespace mlir;

namespace tilery::nvidia {

static Value sharedInteger(OpBuilder &b, Location loc, Value address) {
  return LLVM::PtrToIntOp::create(b, loc, b.getI32Type(), address);
}

void NvidiaMachine::storeMatrices(OpBuilder &b, Location loc, Value row, ValueRange words) const {
  std::string list, constraints = "r";
  SmallVector<Value> operands = {sharedInteger(b, loc, row)};
  for (Value word : words) {
    operands.push_back(word);
    list += (list.empty() ? "$" : ", $") + std::to_string(operands.size() - 1);
    constraints += ",r";
  }
  emitPtx(b, loc,
          "stmatrix.sync.aligned.m8n8.x" + std::to_string(words.size()) + ".shared.b16 [$0], {" + list +
              "};",
          constraints, {}, operands, true);
}

// Each lane's writes become visible to bulk copies, then the lanes meet ("Proxies" in the PTX ISA).
void NvidiaMachine::publishStage(OpBuilder &b, Location loc, bool global) const {
  emitPtx(b, loc,
          std::string("fence.proxy.async") + (global ? "" : ".shared::cta") +
              ";\nbar.warp.sync 0xffffffff;",
          "", {}, {}, true);
}

void NvidiaMachine::storeRow(OpBuilder &b, Location loc, Value destination, Value source,
                             Value bytes) const {
  emitPtx(b, loc,
          "{\n.reg .pred one, p;\nelect.sync _|one, 0xffffffff;\nsetp.ne.and.b32 p, $2, 0, one;\n"
          "@p cp.async.bulk.global.shared::cta.bulk_group [$0], [$1], $2;\n}",
          "l,r,r", {}, {destination, source, bytes}, true);
}

void NvidiaMachine::storeBox(OpBuilder &b, Location loc, Value map, ValueRange coordinates,
                             Value source, Value enabled) const {
  std::string list, constraints = "l,r,r";
  SmallVector<Value> operands = {map, sharedInteger(b, loc, source),
                                 arith::ExtUIOp::create(b, loc, b.getI32Type(), enabled)};
  for (Value coordinate : coordinates) {
    operands.push_back(coordinate);
    list += (list.empty() ? "$" : ", $") + std::to_string(operands.size() - 1);
    constraints += ",r";
  }
  emitPtx(b, loc,
          "{\n.reg .pred one, p;\nelect.sync _|one, 0xffffffff;\nsetp.ne.and.b32 p, $2, 0, one;\n"
          "@p cp.async.bulk.tensor." +
              std::to_string(coordinates.size()) +
              "d.global.shared::cta.tile.bulk_group [$0, {" + list + "}], [$1];\n}",
          constraints, {}, operands, true);
}

void NvidiaMachine::commitStores(OpBuilder &b, Location loc) const {
  emitPtx(b, loc, "cp.async.bulk.commit_group;", "", {}, {}, true);
}

// Whoever sees that bulk copies are complete sees what they wrote, without another fence ("Async proxy" in
// the PTX ISA).
void NvidiaMachine::awaitStores(OpBuilder &b, Location loc) const {
  emitPtx(b, loc, "cp.async.bulk.wait_group 0;", "", {}, {}, true);
}

void NvidiaMachine::awaitStage(OpBuilder &b, Location loc, unsigned pending) const {
  emitPtx(b, loc,
          "cp.async.bulk.wait_group.read " + std::to_string(pending) + ";\nbar.warp.sync 0xffffffff;",
          "", {}, {}, true);
}

} // namespace tilery::nvidia
