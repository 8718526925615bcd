// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Hopper's engines: barriers in shared memory, bulk copies by tensor map (TMA), and products by
// four warps (wgmma). Names and operands are those of the PTX ISA.
#include "compiler/Target/Nvidia/NvidiaMachine.h"
#include "compiler/Target/Nvidia/Ptx.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace tilery::simt;

namespace tilery::nvidia {

//===-- Barriers ---------------------------------------------------------------------------------===//

void NvidiaMachine::initSlotBarrier(OpBuilder &b, Location loc, Value address,
                                    unsigned arrivals) const {
  emitPtx(b, loc, "mbarrier.init.shared::cta.b64 [$0], " + std::to_string(arrivals) + ";", "r", {},
          {address}, true);
}

void NvidiaMachine::publishBarriers(OpBuilder &b, Location loc) const {
  emitPtx(b, loc, "fence.mbarrier_init.release.cluster;\nfence.proxy.async.shared::cta;", "", {}, {},
          true);
}

void NvidiaMachine::arrive(OpBuilder &b, Location loc, Value barrier) const {
  emitPtx(b, loc, "mbarrier.arrive.shared::cta.b64 _, [$0];", "r", {}, {barrier}, true);
}

/// The instruction on one lane of a warp whose lanes run together.
static std::string onOneLane(const std::string &instruction) {
  return "{\n.reg .pred one;\nelect.sync _|one, 0xffffffff;\n@one " + instruction + "\n}";
}

void NvidiaMachine::expectBytes(OpBuilder &b, Location loc, Value barrier, int64_t bytes) const {
  emitPtx(b, loc,
          onOneLane("mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], " + std::to_string(bytes) + ";"),
          "r", {}, {barrier}, true);
}

SmallVector<Value> NvidiaMachine::waitBarrier(OpBuilder &b, Location loc, Value barrier,
                                              Value phase, ValueRange carried,
                                              const BrokenFlag &broken) const {
  std::string constraints, ties;
  for (size_t i = 0; i < carried.size(); ++i) {
    constraints += "=r,";
    ties += "," + std::to_string(i);
  }
  auto operand = [&](size_t i) { return "$" + std::to_string(carried.size() + i); };
  SmallVector<Value> operands = {barrier, phase};
  std::string again = "@!done bra AGAIN;\n";
  if (broken.address) {
    // It may lie in the host's memory, which all waiting warps together read a few million times a
    // second at most: looked at after many vain tries only.
    operands.push_back(broken.address);
    again = "@done bra READY;\nadd.u32 tries, tries, 1;\nand.b32 kind, tries, 0xfff;\n"
            "setp.ne.u32 done, kind, 0;\n@done bra AGAIN;\n"
            "ld.volatile.global.u32 kind, [" + operand(2) +
            "];\nsetp.eq.u32 done, kind, 0;\n@done bra AGAIN;\n" + (broken.leave ? "exit;\n" : "") +
            "READY:\n";
  }
  operands.append(carried.begin(), carried.end());
  return emitPtx(b, loc,
                 "{\n.reg .pred done;\n.reg .b32 kind, tries;\nmov.u32 tries, 0;\nAGAIN:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [" +
                     operand(0) + "], " + operand(1) + ";\n" + again + "}",
                 constraints + (broken.address ? "r,r,l" : "r,r") + ties,
                 SmallVector<Type>(carried.getTypes()), operands, true);
}

void NvidiaMachine::meetWarp(OpBuilder &b, Location loc) const {
  emitPtx(b, loc, "bar.warp.sync 0xffffffff;", "", {}, {}, true);
}

// The lanes meet, which orders their memory; "Proxies" in the PTX ISA: bulk copies are not ordered behind
// other accesses by that alone.
void NvidiaMachine::orderCopies(OpBuilder &b, Location loc) const {
  emitPtx(b, loc, "bar.warp.sync 0xffffffff;\nfence.proxy.async;", "", {}, {}, true);
}

// The start address of a matrix descriptor, in units of 16 bytes.
Value NvidiaMachine::operandStart(OpBuilder &b, Location loc, Value address) const {
  auto constant = [&](int64_t value) { return arith::ConstantIntOp::create(b, loc, value, 32); };
  return arith::ShRUIOp::create(b, loc, arith::AndIOp::create(b, loc, address, constant(0x3FFFF)),
                                constant(4));
}

//===-- Copies ---------------------------------------------------------------------------------------===//

void NvidiaMachine::copyTile(OpBuilder &b, Location loc, Value destination, Value map,
                             ValueRange coordinates, Value barrier) const {
  std::string text = "cp.async.bulk.tensor." + std::to_string(coordinates.size()) +
                     "d.shared::cluster.global.mbarrier::complete_tx::bytes [$0], [$1, {";
  std::string constraints = "r,l,r";
  for (size_t i = 0; i < coordinates.size(); ++i) {
    text += (i ? ", $" : "$") + std::to_string(3 + i);
    constraints += ",r";
  }
  SmallVector<Value> operands = {destination, map, barrier};
  operands.append(coordinates.begin(), coordinates.end());
  emitPtx(b, loc, onOneLane(text + "}], [$2];"), constraints, {}, operands, true);
}

void NvidiaMachine::fetchMap(OpBuilder &b, Location loc, Value map) const {
  emitPtx(b, loc, "prefetch.tensormap [$0];", "l", {}, {map});
}

// "tensormap.replace" in the PTX ISA, and what it says of proxies: shared memory is written as
// threads write, copied to its place with a release for the proxy of tensor maps, which acquires
// it. Elements are bits, as what lies outside reads as zero bits. Before PTX 8.5 assemblers took
// strides in units of 16 bytes.
void NvidiaMachine::makeMap(OpBuilder &b, Location loc, Value place, Value stage,
                            const TensorMapParts &parts) const {
  std::string text = "{\n.reg .pred one;\n.reg .b32 word;\nbar.warp.sync 0xffffffff;\n"
                     "mov.u32 word, %laneid;\nmad.lo.u32 word, word, 4, $1;\n"
                     "st.shared.b32 [word], 0;\nbar.warp.sync 0xffffffff;\n"
                     "elect.sync _|one, 0xffffffff;\n";
  SmallVector<Value> operands = {place, stage, parts.base};
  std::string constraints = "l,r,l";
  auto operand = [&](Value value) {
    operands.push_back(value);
    constraints += value.getType().isInteger(64) ? ",l" : ",r";
    return "$" + std::to_string(operands.size() - 1);
  };
  auto replace = [&](const std::string &field, const std::string &value, const char *bits = "b32") {
    text += "@one tensormap.replace.tile." + field + ".shared::cta.b1024." + bits + " [$1], " +
            value + ";\n";
  };
  auto number = [](auto value) { return std::to_string(value); };
  replace("global_address", "$2", "b64");
  replace("rank", number(parts.box.size() - 1));
  for (auto [i, box] : llvm::enumerate(parts.box)) {
    auto replaceDim = [&](const char *field, const std::string &value) {
      text += std::string("@one tensormap.replace.tile.") + field +
              ".shared::cta.b1024.b32 [$1], " + number(i) + ", " + value + ";\n";
    };
    replaceDim("box_dim", number(box));
    replaceDim("global_dim", operand(parts.extents[i]));
    replaceDim("element_stride", "1");
  }
  for (auto [i, stride] : llvm::enumerate(parts.strides))
    text += "@one tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [$1], " + number(i) +
            ", " + operand(stride) + ";\n";
  replace("elemtype", number(parts.elementBytes / 2)); // .u8, .u16, .u32
  replace("interleave_layout", "0");
  replace("swizzle_mode", number(parts.swizzleBytes == 128 ? 3 : parts.swizzleBytes / 32));
  replace("fill_mode", "0");
  text += "bar.warp.sync 0xffffffff;\n"
          "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned "
          "[$0], "
          "[$1], 128;\nfence.proxy.tensormap::generic.acquire.gpu [$0], 128;\n}";
  emitPtx(b, loc, text, constraints, {}, operands, true);
}

void NvidiaMachine::limitRegisters(OpBuilder &b, Location loc, unsigned count, bool more) const {
  emitPtx(b, loc,
          std::string("setmaxnreg.") + (more ? "inc" : "dec") + ".sync.aligned.u32 " +
              std::to_string(count) + ";",
          "", {}, {}, true);
}

//===-- Products ----------------------------------------------------------------------------------------===//

namespace {

/// Where a matrix operand lies for the descriptors of wgmma ("Matrix Descriptor" in the PTX ISA).
/// Offsets in units of 16 bytes.
struct OperandLayout {
  bool depthFastest;     ///< K-major
  int64_t panelRows;     ///< indices of the other dimension
  int64_t panelBytes, elementBytes;

  OperandLayout(BufferType type, unsigned depthDim)
      : depthFastest(type.getFastest() == depthDim), panelRows(type.getShape()[1 - type.getFastest()]),
        panelBytes(type.panelBytes()), elementBytes(type.elementBytes()) {}

  int64_t panelStride() const { return panelRows * panelBytes / 16; }

  /// Of the element at (outer, depth): rows of A, columns of B.
  int64_t offset(int64_t outer, int64_t depth) const {
    int64_t fast = depthFastest ? depth : outer, slow = depthFastest ? outer : depth;
    int64_t perPanel = panelBytes / elementBytes;
    return fast / perPanel * panelStride() + fast % perPanel * elementBytes / 16 +
           slow * panelBytes / 16;
  }

  uint64_t descriptor() const {
    uint64_t swizzle = panelBytes == 128 ? 1 : panelBytes == 64 ? 2 : 3;
    uint64_t leading = depthFastest ? 1 : uint64_t(panelStride()), stride = uint64_t(panelBytes * 8 / 16);
    return swizzle << 62 | stride << 32 | leading << 16;
  }
};

Value constant64(OpBuilder &b, Location loc, uint64_t value) {
  return arith::ConstantIntOp::create(b, loc, int64_t(value), 64);
}

/// The descriptor of an operand; `start` is operandStart's.
Value descriptorAt(OpBuilder &b, Location loc, const OperandLayout &layout, Value start) {
  Value wide = arith::ExtUIOp::create(b, loc, b.getI64Type(), start);
  return arith::OrIOp::create(b, loc, wide, constant64(b, loc, layout.descriptor()));
}

std::string instructionTypes(Type element) {
  if (element.isBF16())
    return "f32.bf16.bf16";
  if (element.isF16())
    return "f32.f16.f16";
  if (isa<Float8E4M3FNType>(element))
    return "f32.e4m3.e4m3";
  if (isa<Float8E5M2Type>(element))
    return "f32.e5m2.e5m2";
  return element.isInteger(8) ? "s32.s8.s8" : "f32.tf32.tf32";
}

/// Text of one group of instructions and its operands, numbered as inline assembly wants them.
class WgmmaText {
public:
  WgmmaText(size_t accumulators, bool isFloat) : accumulators(accumulators) {
    for (size_t i = 0; i < accumulators; ++i)
      constraints += isFloat ? "=f," : "=r,";
  }
  // Operands that are only read follow the results; the tied accumulators come last.
  size_t addOperand(Value value, const char *constraint) {
    operands.push_back(value);
    constraints += std::string(constraint) + ",";
    return accumulators + operands.size() - 1;
  }
  void tie(ValueRange values) {
    for (auto [i, value] : llvm::enumerate(values)) {
      operands.push_back(value);
      constraints += std::to_string(i) + (i + 1 < values.size() ? "," : "");
    }
  }

  std::string body, constraints;
  SmallVector<Value> operands;

private:
  size_t accumulators;
};

std::string registerList(size_t first, size_t count) {
  std::string text = "{";
  for (size_t i = 0; i < count; ++i)
    text += (i ? ", $" : "$") + std::to_string(first + i);
  return text + "}";
}

} // namespace

// Thread groups of four warps, the same number on all lanes so that it stays in a uniform register.
static Value groupIndex(const NvidiaMachine &machine, OpBuilder &b, Location loc) {
  Value group = arith::ShRUIOp::create(b, loc, machine.thread(b, loc),
                                       arith::ConstantIntOp::create(b, loc, 7, 32));
  return machine.shuffle(b, loc, group, arith::ConstantIntOp::create(b, loc, 0, 32));
}

SmallVector<Value> NvidiaMachine::emitAsyncDot(OpBuilder &b, Location loc, const AsyncDot &dot) const {
  // Where the left operand has fewer rows, those that follow it in memory make rows that nobody uses.
  int64_t m = dot.accType.getDimSize(0), k = dot.lhsShape[1], n = dot.accType.getDimSize(1);
  GroupGrid grid = GroupGrid::of(m, n, dot.numWarps);
  int64_t bits = dot.element.getIntOrFloatBitWidth(), stepK = 256 / bits;
  int64_t columns = dot.columns ? dot.columns : grid.columns;
  int64_t instructionN = std::min<int64_t>(256, columns);
  int64_t rowBlocks = m / GroupRows / grid.rowGroups, columnBlocks = columns / instructionN;
  bool lhsInRegisters = !dot.lhsStart;
  bool isFloat = isa<FloatType>(dot.accType.getElementType());

  SmallVector<Value> accumulator(dot.accumulator), used;
  size_t ofRow = size_t(grid.columns) / 2, usedOfRow = size_t(columns) / 2;
  for (size_t row = 0; row < accumulator.size(); row += ofRow)
    used.append(accumulator.begin() + row, accumulator.begin() + row + usedOfRow);
  WgmmaText text(used.size(), isFloat);
  Value group = groupIndex(*this, b, loc);
  auto constant = [&](int64_t value) -> Value { return arith::ConstantIntOp::create(b, loc, value, 32); };
  Value rowGroup = arith::AndIOp::create(b, loc, group, constant(grid.rowGroups - 1));
  Value columnGroup = arith::ShRUIOp::create(b, loc, group,
                                             constant(llvm::Log2_64(uint64_t(grid.rowGroups))));
  OperandLayout rhs(dot.rhsType, 0);
  auto moved = [&](Value start, Value count, int64_t each) -> Value {
    return arith::AddIOp::create(b, loc, start,
                                 arith::MulIOp::create(b, loc, count, constant(each)));
  };
  Value rhsStart = dot.rhsStart;
  if (grid.columnGroups > 1)
    rhsStart = moved(rhsStart, columnGroup, rhs.offset(grid.columns, 0));
  size_t rhsOperand = text.addOperand(descriptorAt(b, loc, rhs, rhsStart), "l");
  std::optional<OperandLayout> lhs;
  size_t lhsOperand = 0;
  if (!lhsInRegisters) {
    lhs.emplace(dot.lhsType, 1);
    Value start = dot.lhsStart;
    if (grid.rowGroups > 1)
      start = moved(start, rowGroup, lhs->offset(GroupRows, 0));
    lhsOperand = text.addOperand(descriptorAt(b, loc, *lhs, start), "l");
  } else {
    SmallVector<Value> words = packedWords(b, loc, dot.lhsRegisters);
    for (auto [i, word] : llvm::enumerate(words)) {
      size_t operand = text.addOperand(word, "r");
      lhsOperand = i ? lhsOperand : operand;
    }
  }
  bool half = bits == 16;
  std::string name = "wgmma.mma_async.sync.aligned.m64n" + std::to_string(instructionN) + "k" +
                     std::to_string(stepK) + "." + instructionTypes(dot.element);
  size_t perInstruction = size_t(instructionN) / 2;
  text.body = "{\n.reg .b64 da, db;\nwgmma.fence.sync.aligned;\n";
  for (int64_t depth = 0; depth < k; depth += stepK)
    for (int64_t row = 0; row < rowBlocks; ++row)
      for (int64_t column = 0; column < columnBlocks; ++column) {
        size_t first = size_t(row * columnBlocks + column) * perInstruction;
        text.body += "add.s64 db, $" + std::to_string(rhsOperand) + ", " +
                     std::to_string(rhs.offset(column * instructionN, depth)) + ";\n";
        std::string left = "da";
        if (lhsInRegisters)
          left = registerList(lhsOperand + size_t(row * (k / stepK) + depth / stepK) * 4, 4);
        else
          text.body += "add.s64 da, $" + std::to_string(lhsOperand) + ", " +
                       std::to_string(lhs->offset(row * grid.rowGroups * GroupRows, depth)) + ";\n";
        text.body += name + " " + registerList(first, perInstruction) + ", " + left + ", db, 1";
        if (isFloat)
          text.body += ", 1, 1";
        if (half && !lhsInRegisters)
          text.body += lhs->depthFastest ? ", 0" : ", 1";
        if (half)
          text.body += rhs.depthFastest ? ", 0" : ", 1";
        text.body += ";\n";
      }
  text.body += "wgmma.commit_group.sync.aligned;\n}";
  text.tie(used);
  SmallVector<Value> results =
      emitPtx(b, loc, text.body, text.constraints,
              SmallVector<Type>(used.size(), dot.accType.getElementType()), text.operands, true);
  for (auto [i, result] : llvm::enumerate(results))
    accumulator[i / usedOfRow * ofRow + i % usedOfRow] = result;
  return accumulator;
}

// Accumulators pass through, so that nothing reads them before the wait.
SmallVector<Value> NvidiaMachine::waitDots(OpBuilder &b, Location loc, unsigned pending,
                                           ValueRange accumulators) const {
  std::string constraints;
  for (Value value : accumulators)
    constraints += value.getType().isF32() ? "=f," : "=r,";
  for (size_t i = 0; i < accumulators.size(); ++i)
    constraints += std::to_string(i) + (i + 1 < accumulators.size() ? "," : "");
  return emitPtx(b, loc, "wgmma.wait_group.sync.aligned " + std::to_string(pending) + ";",
                 constraints, SmallVector<Type>(accumulators.getTypes()), accumulators, true);
}

} // namespace tilery::nvidia
