// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Target/Nvidia/NvidiaMachine.h"

#include "compiler/Target/Nvidia/Ptx.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/BuiltinOps.h"

using namespace mlir;
using tilery::simt::Bases;
using tilery::simt::MatrixInstruction;

namespace tilery::nvidia {

// CUDA C++ Programming Guide, table of technical specifications: most for one block.
int64_t NvidiaMachine::sharedBytes() const {
  switch (capability) {
  case 80: return 163 * 1024;
  case 86:
  case 89:
  case 120: return 99 * 1024;
  default: return capability < 80 ? 64 * 1024 : 227 * 1024;
  }
}

// Tensor maps are 128 bytes of constant parameter memory each, which the copy engine reads itself.
void NvidiaMachine::declareKernel(LLVM::LLVMFuncOp function, unsigned firstMap,
                                  unsigned maps) const {
  Builder b(function.getContext());
  function->setAttr("nvvm.kernel", b.getUnitAttr());
  for (unsigned i = firstMap; i < firstMap + maps; ++i) {
    auto bytes = LLVM::LLVMArrayType::get(b.getI8Type(), 128);
    function.setArgAttr(i, "llvm.byval", TypeAttr::get(bytes));
    function.setArgAttr(i, "llvm.align", b.getI64IntegerAttr(64));
    function.setArgAttr(i, "nvvm.grid_constant", b.getUnitAttr());
  }
}

//===-- Threads ----------------------------------------------------------------------------------===//

// Special registers, with the ranges that let LLVM drop sign extensions.
static Value special(OpBuilder &b, Location loc, StringRef intrinsic) {
  return LLVM::CallIntrinsicOp::create(b, loc, b.getI32Type(),
                                       b.getStringAttr(("llvm.nvvm.read.ptx.sreg." + intrinsic).str()),
                                       ValueRange())
      .getResult(0);
}

static constexpr StringLiteral axisNames[] = {"x", "y", "z"};

Value NvidiaMachine::thread(OpBuilder &b, Location loc) const { return special(b, loc, "tid.x"); }

Value NvidiaMachine::programId(OpBuilder &b, Location loc, unsigned axis) const {
  return special(b, loc, ("ctaid." + axisNames[axis]).str());
}

Value NvidiaMachine::numPrograms(OpBuilder &b, Location loc, unsigned axis) const {
  return special(b, loc, ("nctaid." + axisNames[axis]).str());
}

static Value number(OpBuilder &b, Location loc, int64_t value) {
  return arith::ConstantIntOp::create(b, loc, value, 32);
}

Value NvidiaMachine::shuffleXor(OpBuilder &b, Location loc, Value value, unsigned mask) const {
  return NVVM::ShflOp::create(b, loc, b.getI32Type(), number(b, loc, -1), value,
                              number(b, loc, mask), number(b, loc, 31), NVVM::ShflKind::bfly,
                              UnitAttr());
}

Value NvidiaMachine::shuffle(OpBuilder &b, Location loc, Value value, Value lane) const {
  return NVVM::ShflOp::create(b, loc, b.getI32Type(), number(b, loc, -1), value, lane,
                              number(b, loc, 31), NVVM::ShflKind::idx, UnitAttr());
}

// Barrier 0 is the whole block's, 1 that of its first warps.
static std::string barrierName(unsigned threads) {
  return threads ? "1, " + std::to_string(threads) : "0";
}

void NvidiaMachine::barrier(OpBuilder &b, Location loc, unsigned threads) const {
  emitPtx(b, loc, "bar.sync " + barrierName(threads) + ";", "", {}, {}, /*clobbersMemory=*/true);
}

Value NvidiaMachine::barrierOr(OpBuilder &b, Location loc, Value condition, unsigned threads) const {
  Value wide = arith::ExtUIOp::create(b, loc, b.getI32Type(), condition);
  Value any = emitPtx(b, loc,
                      "{\n.reg .pred p, q;\nsetp.ne.u32 p, $1, 0;\nbar.red.or.pred q, " +
                          barrierName(threads) + ", p;\nselp.u32 $0, 1, 0, q;\n}",
                      "=r,r", {b.getI32Type()}, {wide}, /*clobbersMemory=*/true)[0];
  return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, any, number(b, loc, 0));
}

StringRef NvidiaMachine::syncScope(core::MemoryScope scope) const {
  switch (scope) {
  case core::MemoryScope::Instance: return "block";
  case core::MemoryScope::Device: return "device";
  case core::MemoryScope::System: return "";
  }
  llvm_unreachable("all scopes are listed");
}

Value NvidiaMachine::clock(OpBuilder &b, Location loc) const {
  return emitPtx(b, loc, "mov.u64 $0, %globaltimer;", "=l", {b.getI64Type()}, {}, true)[0];
}

Value NvidiaMachine::instance(OpBuilder &b, Location loc) const {
  return emitPtx(b, loc,
                 "{\n.reg .b32 n, i;\nmov.u32 $0, %ctaid.z;\n"
                 "mov.u32 n, %nctaid.y;\nmov.u32 i, %ctaid.y;\nmad.lo.u32 $0, $0, n, i;\n"
                 "mov.u32 n, %nctaid.x;\nmov.u32 i, %ctaid.x;\nmad.lo.u32 $0, $0, n, i;\n}",
                 "=r", {b.getI32Type()}, {})[0];
}

Value NvidiaMachine::processor(OpBuilder &b, Location loc) const {
  return emitPtx(b, loc, "mov.u32 $0, %smid;", "=r", {b.getI32Type()}, {})[0];
}

Value NvidiaMachine::cycles(OpBuilder &b, Location loc) const {
  return emitPtx(b, loc, "mov.u32 $0, %clock;", "=r", {b.getI32Type()}, {}, true)[0];
}

void NvidiaMachine::pauseFor(OpBuilder &b, Location loc, Value time) const {
  emitPtx(b, loc, "nanosleep.u32 $0;", "r", {}, {time}, true);
}

Value NvidiaMachine::keepWord(OpBuilder &b, Location loc, Value word) const {
  return emitPtx(b, loc, "mov.b32 $0, $1;", "=r,r", {b.getI32Type()}, {word})[0];
}

void NvidiaMachine::exit(OpBuilder &b, Location loc) const {
  emitPtx(b, loc, "exit;", "", {}, {}, true);
}

// vprintf of the driver's device library: a format and a packed buffer of arguments.
void NvidiaMachine::print(OpBuilder &b, Location loc, StringRef format, ValueRange values) const {
  auto module = b.getBlock()->getParentOp()->getParentOfType<ModuleOp>();
  auto pointer = LLVM::LLVMPointerType::get(b.getContext());
  auto function = module.lookupSymbol<LLVM::LLVMFuncOp>("vprintf");
  std::string name;
  for (unsigned i = 0; module.lookupSymbol(name = "tilery_format_" + std::to_string(i)); ++i)
    ;
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(module.getBody());
    if (!function)
      function = LLVM::LLVMFuncOp::create(
          b, loc, "vprintf", LLVM::LLVMFunctionType::get(b.getI32Type(), {pointer, pointer}));
    std::string text = format.str() + '\0';
    LLVM::GlobalOp::create(b, loc, LLVM::LLVMArrayType::get(b.getI8Type(), unsigned(text.size())),
                           true, LLVM::Linkage::Internal, name, b.getStringAttr(text), 1, 1);
  }
  auto global = module.lookupSymbol<LLVM::GlobalOp>(name);
  Value text = LLVM::AddrSpaceCastOp::create(b, loc, pointer,
                                             LLVM::AddressOfOp::create(b, loc, global));
  SmallVector<Type> types(values.getTypes());
  auto record = LLVM::LLVMStructType::getLiteral(b.getContext(), types);
  Value buffer;
  {
    OpBuilder::InsertionGuard guard(b);
    Operation *parent = b.getBlock()->getParentOp();
    auto owner = dyn_cast<LLVM::LLVMFuncOp>(parent);
    if (!owner)
      owner = parent->getParentOfType<LLVM::LLVMFuncOp>();
    b.setInsertionPointToStart(&owner.getBody().front());
    buffer = LLVM::AllocaOp::create(b, loc, pointer, record, number(b, loc, 1), 8);
  }
  for (auto [i, value] : llvm::enumerate(values)) {
    Value field = LLVM::GEPOp::create(b, loc, pointer, record, buffer,
                                      ArrayRef<LLVM::GEPArg>{0, int32_t(i)});
    LLVM::StoreOp::create(b, loc, value, field);
  }
  LLVM::CallOp::create(b, loc, function, ValueRange{text, buffer});
}

//===-- Mathematics --------------------------------------------------------------------------------===//

static Value intrinsic(OpBuilder &b, Location loc, StringRef name, Type type, ValueRange operands) {
  return LLVM::CallIntrinsicOp::create(b, loc, type, b.getStringAttr(name), operands).getResult(0);
}

// ex2.approx is within 2 units in the last place; results that would be subnormal are 0 (keeping
// them costs three more instructions).
static Value exponential(OpBuilder &b, Location loc, Value x) {
  Type f32 = b.getF32Type();
  auto constant = [&](double value) -> Value {
    return arith::ConstantOp::create(b, loc, b.getFloatAttr(f32, value));
  };
  Value scaled = arith::MulFOp::create(b, loc, x, constant(1.44269504088896341));
  return intrinsic(b, loc, "llvm.nvvm.ex2.approx.ftz.f32", f32, {scaled});
}

Value NvidiaMachine::emitMath(OpBuilder &b, Operation *op, ValueRange operands) const {
  if (operands.empty() || !operands[0].getType().isF32())
    return {};
  Location loc = op->getLoc();
  Type f32 = b.getF32Type();
  if (isa<math::ExpOp>(op))
    return exponential(b, loc, operands[0]);
  if (isa<math::Exp2Op>(op))
    return intrinsic(b, loc, "llvm.nvvm.ex2.approx.ftz.f32", f32, operands);
  if (isa<math::SqrtOp>(op))
    return intrinsic(b, loc, "llvm.nvvm.sqrt.rn.f", f32, operands);
  if (isa<math::RsqrtOp>(op))
    return intrinsic(b, loc, "llvm.nvvm.rsqrt.approx.f", f32, operands);
  return {};
}

//===-- Matrix units -----------------------------------------------------------------------------------===//

// PTX ISA, "Matrix Fragments for mma.m16n8k*": pairs of 32-bit registers along the depth; lanes
// take four words of depth and eight rows (columns).
static MatrixInstruction mma(StringRef name, unsigned bits) {
  MatrixInstruction one;
  one.name = name.str();
  one.m = 16;
  one.n = 8;
  int32_t word = int32_t(32 / bits); // elements of 32 bits
  one.k = 8 * word;
  int32_t k = int32_t(one.k), n = 8;
  for (int32_t inWord = 1; inWord < word; inWord *= 2) {
    one.lhsRegisters.push_back(inWord);
    one.rhsRegisters.push_back(inWord * n);
  }
  one.lhsRegisters.append({8 * k, 4 * word}); // eight rows below, then half the depth on
  one.rhsRegisters.push_back(4 * word * n);
  one.lhsLanes = {word, 2 * word, k, 2 * k, 4 * k};
  one.rhsLanes = {word * n, 2 * word * n, 1, 2, 4};
  one.accRegisters = {1, 8 * n};
  one.accLanes = {2, 4, n, 2 * n, 4 * n};
  return one;
}

std::optional<MatrixInstruction>
NvidiaMachine::matrixInstruction(Type operand, Type acc, core::InputPrecision precision) const {
  if (acc.isF32() && operand.isBF16())
    return mma("m16n8k16.row.col.f32.bf16.bf16.f32", 16);
  if (acc.isF32() && operand.isF16())
    return mma("m16n8k16.row.col.f32.f16.f16.f32", 16);
  if (acc.isF32() && operand.isF32() && precision == core::InputPrecision::TF32)
    return mma("m16n8k8.row.col.f32.tf32.tf32.f32", 32);
  if (acc.isInteger(32) && operand.isInteger(8))
    return mma("m16n8k32.row.col.s32.s8.s8.s32", 8);
  if (capability < 89 || ptxVersion < 84 || !acc.isF32())
    return std::nullopt;
  if (isa<Float8E4M3FNType>(operand))
    return mma("m16n8k32.row.col.f32.e4m3.e4m3.f32", 8);
  if (isa<Float8E5M2Type>(operand))
    return mma("m16n8k32.row.col.f32.e5m2.e5m2.f32", 8);
  return std::nullopt;
}

SmallVector<Value> packedWords(OpBuilder &b, Location loc, ValueRange list) {
  unsigned bits = list[0].getType().getIntOrFloatBitWidth();
  SmallVector<Value> words;
  for (size_t i = 0; i < list.size(); i += 32 / bits) {
    Value word = list[i];
    if (bits < 32) {
      word = LLVM::PoisonOp::create(b, loc, VectorType::get({32 / bits}, list[0].getType()));
      for (unsigned j = 0; j < 32 / bits; ++j)
        word = LLVM::InsertElementOp::create(b, loc, word, list[i + j], number(b, loc, j));
    }
    words.push_back(LLVM::BitcastOp::create(b, loc, b.getI32Type(), word));
  }
  return words;
}

SmallVector<Value> NvidiaMachine::emitMatrix(OpBuilder &b, Location loc,
                                             const MatrixInstruction &one, ValueRange lhs,
                                             ValueRange rhs, ValueRange acc) const {
  SmallVector<Value> left = packedWords(b, loc, lhs), right = packedWords(b, loc, rhs);
  if (one.name.find("tf32") != std::string::npos)
    for (SmallVector<Value> *side : {&left, &right})
      for (Value &word : *side) // round to nearest instead of dropping the low bits
        word = emitPtx(b, loc, "cvt.rna.tf32.f32 $0, $1;", "=r,f", {b.getI32Type()},
                       {LLVM::BitcastOp::create(b, loc, b.getF32Type(), word).getResult()})[0];
  SmallVector<Value> operands(left);
  operands.append(right);
  operands.append(acc.begin(), acc.end());
  bool isFloat = acc[0].getType().isF32();
  StringRef type = isFloat ? "f" : "r";
  std::string constraints;
  for (size_t i = 0; i < acc.size(); ++i)
    constraints += ("=" + type + ",").str();
  for (size_t i = 0; i < left.size() + right.size(); ++i)
    constraints += "r,";
  for (size_t i = 0; i < acc.size(); ++i)
    constraints += std::to_string(i) + (i + 1 < acc.size() ? "," : "");
  unsigned next = 0;
  auto group = [&](size_t count) {
    std::string text = "{";
    for (size_t i = 0; i < count; ++i)
      text += (i ? ", $" : "$") + std::to_string(next++);
    return text + "}";
  };
  std::string d = group(acc.size()), a = group(left.size()), c = group(right.size());
  std::string text = "mma.sync.aligned." + one.name + " " + d + ", " + a + ", " + c + ", " + d + ";";
  return emitPtx(b, loc, text, constraints, SmallVector<Type>(acc.size(), acc[0].getType()),
                 operands);
}

} // namespace tilery::nvidia
