// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Read-modify-writes. LLVM drops the scope of theirs, and without one the assembler takes that of
// the device: beside updates from other devices some would be lost. So those of the whole system
// are PTX text. Of the widths that LLVM makes of compare-and-swap, it keeps the scope.
#include "compiler/Target/Nvidia/NvidiaMachine.h"
#include "compiler/Target/Nvidia/Ptx.h"

using namespace mlir;

namespace tilery::nvidia {

static std::string integerForm(LLVM::AtomicBinOp operation, unsigned bits) {
  using B = LLVM::AtomicBinOp;
  std::string width = std::to_string(bits);
  switch (operation) {
  case B::add:
    return "add.u" + width;
  case B::_and:
    return "and.b" + width;
  case B::_or:
    return "or.b" + width;
  case B::_xor:
    return "xor.b" + width;
  case B::xchg:
    return "exch.b" + width;
  case B::max:
    return "max.s" + width;
  case B::min:
    return "min.s" + width;
  case B::umax:
    return "max.u" + width;
  case B::umin:
    return "min.u" + width;
  default:
    return "";
  }
}

/// The operation and type of the instruction; "" where there is none.
static std::string formOf(LLVM::AtomicBinOp operation, Type type, unsigned capability) {
  unsigned bits = type.getIntOrFloatBitWidth();
  bool wide = bits == 32 || bits == 64;
  if (isa<IntegerType>(type))
    return wide ? integerForm(operation, bits) : "";
  if (operation == LLVM::AtomicBinOp::xchg)
    return wide ? "exch.b" + std::to_string(bits) : "";
  if (operation != LLVM::AtomicBinOp::fadd)
    return "";
  if (wide)
    return "add.f" + std::to_string(bits);
  if (type.isF16())
    return "add.noftz.f16";
  return type.isBF16() && capability >= 90 ? "add.noftz.bf16" : "";
}

Value NvidiaMachine::atomicUpdate(OpBuilder &b, Location loc, LLVM::AtomicBinOp operation,
                                  Value address, Value value, core::MemoryScope scope) const {
  Type type = value.getType();
  std::string form = formOf(operation, type, capability);
  if (scope != core::MemoryScope::System || form.empty())
    return LLVM::AtomicRMWOp::create(b, loc, operation, address, value,
                                     LLVM::AtomicOrdering::monotonic, syncScope(scope));
  unsigned bits = type.getIntOrFloatBitWidth();
  Type integer = b.getIntegerType(bits);
  Value word =
      type == integer ? value : LLVM::BitcastOp::create(b, loc, integer, value).getResult();
  Value where = LLVM::PtrToIntOp::create(b, loc, b.getI64Type(), address);
  std::string reg = bits == 64 ? "l" : bits == 32 ? "r" : "h";
  Value before =
      emitPtx(b, loc, "atom.relaxed.sys.global." + form + " $0, [$1], $2;", "=" + reg + ",l," + reg,
              {integer}, {where, word}, /*clobbersMemory=*/true)[0];
  return type == integer ? before : LLVM::BitcastOp::create(b, loc, type, before).getResult();
}

} // namespace tilery::nvidia
