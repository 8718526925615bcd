// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// The kernel's function and the order of its operations.
#include "compiler/Conversion/MathExpansion/MathExpansion.h"
#include "compiler/Target/Simt/Lowering.h"

#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

namespace tilery::simt {
#define GEN_PASS_DEF_LOWERTILES
#include "compiler/Target/Simt/Passes.h.inc"

// Symbol of the dynamic shared memory.
static constexpr llvm::StringLiteral sharedName = "tilery_shared";
static constexpr llvm::StringLiteral tensorMapsAttr = "simt.tensor_maps";
static constexpr unsigned globalSpace = 1, sharedSpace = 3;

Lowering::Lowering(func::FuncOp kernel, const Machine &machine, unsigned numWarps, bool timeline)
    : kernel(kernel), machine(machine), numWarps(numWarps), timeline(timeline), b(kernel.getContext()),
      loc(kernel.getLoc()) {}

//===-- Types and values ------------------------------------------------------------------------===//

Type Lowering::loweredElement(Type element) {
  if (isFp8(element)) // LLVM has no such types
    return b.getI8Type();
  return core::isPointerLike(element) ? pointerType(globalSpace) : element;
}

SmallVector<Type> Lowering::loweredTypes(TypeRange types) {
  SmallVector<Type> result;
  for (Type type : types) {
    size_t count = isa<RankedTensorType>(type) ? LinearLayout::of(type).numRegisters() : 1;
    result.append(count, loweredElement(getElementTypeOrSelf(type)));
  }
  return result;
}

const Elements &Lowering::elements(Value value) {
  auto found = values.find(value);
  assert(found != values.end() && "a value is lowered where it is defined");
  return found->second;
}

Elements Lowering::flattened(ValueRange list) {
  Elements flat;
  for (Value value : list)
    llvm::append_range(flat, elements(value));
  return flat;
}

void Lowering::bind(ValueRange list, ValueRange flat) {
  for (Value value : list) {
    size_t count = loweredTypes(value.getType()).size();
    define(value, Elements(flat.take_front(count)));
    flat = flat.drop_front(count);
  }
}

//===-- Small emitters ----------------------------------------------------------------------------===//

Value Lowering::andI(Value x, Value y) {
  if (!x || !y)
    return x ? x : y;
  return b.createOrFold<arith::AndIOp>(loc, x, y);
}

Value Lowering::zero(Type type) {
  if (isa<LLVM::LLVMPointerType>(type))
    return LLVM::ZeroOp::create(b, loc, type);
  return arith::ConstantOp::create(b, loc, b.getZeroAttr(type));
}

Value Lowering::bitcast(Value value, Type type) {
  return value.getType() == type ? value : arith::BitcastOp::create(b, loc, type, value);
}

Value Lowering::byteOffset(Value pointer, Value offset) {
  return LLVM::GEPOp::create(b, loc, pointer.getType(), b.getI8Type(), pointer,
                             ArrayRef<LLVM::GEPArg>{offset});
}

Value Lowering::fieldOf(Value base, int64_t offset, Type type) {
  return LLVM::LoadOp::create(b, loc, type, byteOffset(base, i64(offset)));
}

//===-- Positions ----------------------------------------------------------------------------------===//

Value Lowering::thread() { return threadValue; }

Value Lowering::lane() {
  return arith::AndIOp::create(b, loc, thread(), i32((1 << machine.laneBits()) - 1));
}

Value Lowering::warp() {
  return arith::ShRUIOp::create(b, loc, thread(), i32(machine.laneBits()));
}

// Runs of bases that are neighbouring bits move together: one shift and mask a run.
Value Lowering::selectBases(Value number, ArrayRef<int32_t> bases) {
  Value sum;
  for (size_t i = 0; i < bases.size();) {
    size_t end = i + 1;
    while (end < bases.size() && bases[i] && bases[end] == bases[end - 1] << 1)
      ++end;
    if (bases[i] && llvm::isPowerOf2_32(uint32_t(bases[i]))) {
      Value field = arith::AndIOp::create(b, loc, number, i32(((1 << (end - i)) - 1) << i));
      int shift = int(llvm::Log2_32(uint32_t(bases[i]))) - int(i);
      if (shift > 0)
        field = arith::ShLIOp::create(b, loc, field, i32(shift));
      if (shift < 0)
        field = arith::ShRUIOp::create(b, loc, field, i32(-shift));
      sum = sum ? Value(arith::XOrIOp::create(b, loc, sum, field)) : field;
    } else if (bases[i]) {
      end = i + 1;
      Value bit = arith::AndIOp::create(b, loc, arith::ShRUIOp::create(b, loc, number, i32(int64_t(i))),
                                        i32(1));
      Value term = arith::MulIOp::create(b, loc, bit, i32(bases[i]));
      sum = sum ? Value(arith::XOrIOp::create(b, loc, sum, term)) : term;
    }
    i = end;
  }
  return sum ? sum : i32(0);
}

Value Lowering::threadPart(const LinearLayout &layout) {
  LinearLayout key{{}, layout.lanes, layout.warps};
  Value &part = threadParts[key.attr(b.getContext())];
  if (!part) {
    // At the start of the function, where it dominates every use.
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointAfterValue(threadValue);
    part = arith::XOrIOp::create(b, loc, selectBases(lane(), layout.lanes),
                                 selectBases(warp(), layout.warps));
  }
  return part;
}

Value Lowering::elementIndex(const LinearLayout &layout, unsigned r) {
  Value part = threadPart(layout);
  int32_t inRegister = layout.ofRegister(r);
  if (!inRegister)
    return part;
  // Of bits that no base touches the XOR is a sum without carries, which address arithmetic can fold.
  int32_t touched = 0;
  for (int32_t base : layout.lanes)
    touched |= base;
  for (int32_t base : layout.warps)
    touched |= base;
  if (int32_t shared = touched & inRegister)
    part = arith::XOrIOp::create(b, loc, part, i32(shared));
  auto flags = arith::IntegerOverflowFlags::nsw | arith::IntegerOverflowFlags::nuw;
  if (int32_t own = inRegister & ~touched)
    part = arith::AddIOp::create(b, loc, part, i32(own), flags);
  return part;
}

Value Lowering::isFirstCopy(const LinearLayout &layout) {
  auto none = [&](Value number, unsigned bits) -> Value {
    if (!bits)
      return {};
    Value masked = arith::AndIOp::create(b, loc, number, i32(bits));
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, masked, i32(0));
  };
  return andI(none(lane(), layout.replicatedLanes()), none(warp(), layout.replicatedWarps()));
}

Value Lowering::isFirstThread() {
  return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, thread(), i32(0));
}

//===-- The function -----------------------------------------------------------------------------------===//

static Type parameterType(Type lowered) {
  return lowered.isInteger(1) ? IntegerType::get(lowered.getContext(), 8) : lowered;
}

void Lowering::defineArguments() {
  Block &entry = function.getBody().front();
  for (auto [old, parameter] : llvm::zip(kernel.getArguments(), entry.getArguments())) {
    Value value = parameter;
    communicates |= isa<device::SymmType, device::SignalType>(old.getType());
    if (old.getType().isInteger(1))
      value = arith::TruncIOp::create(b, loc, old.getType(), value);
    define(old, {value});
  }
  kernel.walk([&](Operation *op) { // known before the first print
    communicates |= isa<device::DeviceDialect>(op->getDialect());
  });
  contextPointer = entry.getArguments().back();
  threadValue = machine.thread(b, loc);
}

static void declareShared(ModuleOp module, OpBuilder &b) {
  if (module.lookupSymbol(sharedName))
    return;
  b.setInsertionPointToStart(module.getBody());
  auto bytes = LLVM::LLVMArrayType::get(b.getI8Type(), 0);
  LLVM::GlobalOp::create(b, module.getLoc(), bytes, false, LLVM::Linkage::External, sharedName,
                         Attribute(), 1024, sharedSpace);
}

LogicalResult Lowering::run() {
  if (!kernel.getBody().hasOneBlock())
    return kernel.emitError("a kernel must have structured control flow only");
  declareShared(kernel->getParentOfType<ModuleOp>(), b);
  SmallVector<Type> parameters;
  for (Type type : kernel.getArgumentTypes())
    parameters.push_back(parameterType(loweredElement(type)));
  auto maps = kernel->getAttrOfType<ArrayAttr>(tensorMapsAttr);
  parameters.append(maps ? maps.size() : 0, pointerType(0));
  parameters.push_back(pointerType(globalSpace)); // the context
  auto type = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(b.getContext()), parameters);
  b.setInsertionPoint(kernel);
  std::string name = kernel.getName().str();
  function = LLVM::LLVMFuncOp::create(b, kernel.getLoc(), name + ".lowered", type);
  b.setInsertionPointToStart(function.addEntryBlock(b));
  machine.declareKernel(function, kernel.getNumArguments(), maps ? unsigned(maps.size()) : 0);
  sharedBase = LLVM::AddressOfOp::create(b, loc, pointerType(sharedSpace), sharedName);
  allocateRings();
  defineArguments();
  beginInstanceEvent();
  if (failed(lowerBlock(kernel.getBody().front())))
    return failure();
  endInstanceEvent();
  LLVM::ReturnOp::create(b, kernel.getLoc(), ValueRange());
  describe();
  kernel.erase();
  function.setSymName(name);
  return success();
}

void Lowering::describe() {
  auto *context = b.getContext();
  function->setAttr("core.scratch_bytes", b.getI64IntegerAttr(kernelMapBytes));
  function->setAttr("simt.threads", b.getI32IntegerAttr(int32_t((numWarps + extraWarps) << machine.laneBits())));
  for (StringRef name : {StringRef(tensorMapsAttr), StringRef("core.extents"), StringRef("device.peers")})
    if (Attribute kept = kernel->getAttr(name))
      function->setAttr(name, kept);
  function->setAttr("simt.shared_bytes", b.getI64IntegerAttr(sharedBytes));
  for (auto [set, name] : {std::pair(suspends, "core.suspends"),
                           std::pair(communicates, "core.communicates"),
                           std::pair(canFail, "simt.can_fail")})
    if (set)
      function->setAttr(name, UnitAttr::get(context));
  SmallVector<Attribute> places, texts;
  for (auto &[file, line, column] : sites)
    places.push_back(b.getArrayAttr(
        {b.getStringAttr(file), b.getI64IntegerAttr(line), b.getI64IntegerAttr(column)}));
  for (const std::string &text : messages)
    texts.push_back(b.getStringAttr(text));
  function->setAttr("core.sites", b.getArrayAttr(places));
  function->setAttr("simt.messages", b.getArrayAttr(texts));
}

//===-- Operations -----------------------------------------------------------------------------------------===//

LogicalResult Lowering::lowerBlock(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(block)) {
    if (op.hasTrait<OpTrait::IsTerminator>())
      break;
    loc = op.getLoc();
    if (failed(lowerOp(&op)))
      return failure();
  }
  if (!block.empty())
    loc = block.back().getLoc();
  return success();
}

LogicalResult Lowering::lowerOp(Operation *op) {
  return llvm::TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](scf::ForOp loop) { return lowerFor(loop); })
      .Case([&](scf::IfOp branch) { return lowerIf(branch); })
      .Case([&](scf::WhileOp loop) { return lowerWhile(loop); })
      .Case([&](arith::ConstantOp constant) { return lowerConstant(constant); })
      .Case([&](core::ProgramIdOp id) {
        define(id, {machine.programId(b, loc, id.getAxis())});
        return success();
      })
      .Case([&](core::NumProgramsOp extent) {
        define(extent, {machine.numPrograms(b, loc, extent.getAxis())});
        return success();
      })
      .Case([&](core::LoadOp load) { return lowerLoad(load); })
      .Case([&](core::StoreOp store) { return lowerStore(store); })
      .Case([&](core::AtomicRMWOp atomic) { return lowerAtomicRMW(atomic); })
      .Case([&](core::AtomicCASOp atomic) { return lowerAtomicCAS(atomic); })
      .Case([&](core::ReduceOp reduce) { return lowerReduce(reduce); })
      .Case([&](core::ScanOp scan) { return lowerScan(scan); })
      .Case([&](core::DotOp dot) { return lowerDot(dot); })
      .Case([&](core::GatherOp gather) { return lowerGather(gather); })
      .Case([&](core::PrintOp print) { return lowerPrint(print); })
      .Case([&](core::AssertOp check) { return lowerAssert(check); })
      .Case([&](core::CheckBoundsOp check) { return lowerCheckBounds(check); })
      .Case([&](core::AssumeOp promise) {
        LLVM::AssumeOp::create(b, loc, elements(promise.getCondition()).front());
        return success();
      })
      .Case([&](core::DebugBarrierOp) {
        barrier();
        return success();
      })
      .Case([&](RolesOp roles) { return lowerRoles(roles); })
      .Case([&](MakeMapOp map) { return lowerMakeMap(map); })
      .Case([&](ProduceOp produce) { return lowerProduce(produce); })
      .Case([&](ConsumeOp consume) { return lowerConsume(consume); })
      .Case([&](ReleaseOp release) { return lowerRelease(release); })
      .Case([&](AsyncDotOp dot) { return lowerAsyncDot(dot); })
      .Case([&](DotWaitOp wait) { return lowerDotWait(wait); })
      .Case([&](StoreTileOp store) { return lowerStoreTile(store); })
      .Case([&](StoreRowsOp store) { return lowerStoreRows(store); })
      .Case([&](TransposedOp view) {
        define(view, {scalar(view.getSource())});
        return success();
      })
      .Case([&](AllocSlotsOp slots) { return lowerAllocSlots(slots); })
      .Case([&](FreeSlotsOp slots) { return lowerFreeSlots(slots); })
      .Case([&](CopySlotOp copy) { return lowerCopySlot(copy); })
      .Case([&](CommitCopiesOp) {
        machine.commitCopies(b, loc);
        return success();
      })
      .Case([&](AwaitCopiesOp await) { return lowerAwaitCopies(await); })
      .Case([&](ReadSlotOp read) { return lowerReadSlot(read); })
      .Case([&](KeepWordsOp keep) { return lowerKeepWords(keep); })
      .Case([&](ConvertLayoutOp conversion) { return lowerConvert(conversion); })
      .Case<core::RangeOp, core::SplatOp, core::BroadcastOp, core::ExpandDimsOp, core::ReshapeOp,
            core::TransOp, core::JoinOp, core::SplitOp, core::CatOp>(
          [&](Operation *shape) { return lowerShape(shape); })
      .Default([&](Operation *other) {
        if (isa<device::DeviceDialect>(other->getDialect()) &&
            !isa<device::LocalOp, device::SymmAtOp>(other))
          return lowerDevice(other);
        return lowerElementwise(other);
      });
}

//===-- The pass --------------------------------------------------------------------------------------------===//

namespace {
struct LowerTiles : impl::LowerTilesBase<LowerTiles> {
  using LowerTilesBase::LowerTilesBase;

  void runOnOperation() override {
    for (auto kernel : llvm::make_early_inc_range(getOperation().getOps<func::FuncOp>()))
      if (failed(Lowering(kernel, *machine, numWarps, timeline).run()))
        return signalPassFailure();
  }

  const Machine *machine = nullptr;
};
} // namespace

std::unique_ptr<Pass> createLowerTiles(const Machine &machine, unsigned numWarps, bool timeline) {
  LowerTilesOptions options;
  options.numWarps = numWarps;
  options.timeline = timeline;
  auto pass = std::make_unique<LowerTiles>(options);
  pass->machine = &machine;
  return pass;
}

} // namespace tilery::simt
