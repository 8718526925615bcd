// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Ampere's way through shared memory: copies that threads start (cp.async), and operands of mma.sync by
// rows of small matrices (ldmatrix). Names and operands are those of the PTX ISA.
#include "compiler/Target/Nvidia/NvidiaMachine.h"
#include "compiler/Target/Nvidia/Ptx.h"

using namespace mlir;

namespace tilery::nvidia {

static Value sharedInteger(OpBuilder &b, Location loc, Value address) {
  return LLVM::PtrToIntOp::create(b, loc, b.getI32Type(), address);
}

//===-- Copies -----------------------------------------------------------------------------------===//

bool NvidiaMachine::copiesAtOnce(unsigned bytes) const {
  return bytes == 4 || bytes == 8 || bytes == 16;
}

// 16 bytes bypass the first-level cache, which tiles that are read once would only fill.
void NvidiaMachine::copyAsync(OpBuilder &b, Location loc, Value destination, Value source,
                              unsigned bytes, Value enabled, Value kept) const {
  std::string size = std::to_string(bytes);
  std::string copy = "cp.async." + std::string(bytes == 16 ? "cg" : "ca") +
                     ".shared.global [$0], [$1], " + size;
  std::string constraints = "r,l";
  SmallVector<Value> operands = {sharedInteger(b, loc, destination), source};
  auto operand = [&](Value value) {
    operands.push_back(value);
    constraints += ",r";
    return "$" + std::to_string(operands.size() - 1);
  };
  auto number = [&](int64_t value) -> Value {
    return arith::ConstantIntOp::create(b, loc, value, 32);
  };
  if (kept) // so many bytes are read, zeros follow
    copy += ", " + operand(arith::SelectOp::create(b, loc, kept, number(bytes), number(0)));
  copy += ";";
  if (enabled) {
    Value wide = arith::ExtUIOp::create(b, loc, b.getI32Type(), enabled);
    copy = "{\n.reg .pred p;\nsetp.ne.b32 p, " + operand(wide) + ", 0;\n@p " + copy + "\n}";
  }
  emitPtx(b, loc, copy, constraints, {}, operands, /*clobbersMemory=*/true);
}

void NvidiaMachine::commitCopies(OpBuilder &b, Location loc) const {
  emitPtx(b, loc, "cp.async.commit_group;", "", {}, {}, true);
}

void NvidiaMachine::awaitCopies(OpBuilder &b, Location loc, unsigned pending) const {
  emitPtx(b, loc, "cp.async.wait_group " + std::to_string(pending) + ";", "", {}, {}, true);
}

//===-- Matrices ----------------------------------------------------------------------------------===//

SmallVector<Value> NvidiaMachine::loadMatrices(OpBuilder &b, Location loc, Value row,
                                               unsigned count, bool transposed) const {
  std::string results, constraints;
  for (unsigned i = 0; i < count; ++i) {
    results += (i ? ", $" : "$") + std::to_string(i);
    constraints += "=r,";
  }
  std::string text = "ldmatrix.sync.aligned.m8n8.x" + std::to_string(count) +
                     (transposed ? ".trans" : "") + ".shared.b16 {" + results + "}, [$" +
                     std::to_string(count) + "];";
  return emitPtx(b, loc, text, constraints + "r", SmallVector<Type>(count, b.getI32Type()),
                 {sharedInteger(b, loc, row)});
}

} // namespace tilery::nvidia
