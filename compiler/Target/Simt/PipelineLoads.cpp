// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Software pipelines of loads: Passes.td says what becomes of a loop.
//
// Algorithm, for each innermost loop:
//  1) find the loads that only matrix products use (in loops that say how many stages, all loads), and
//     whose addresses and masks can be computed ahead (the ahead slice: pure operations, and the carried
//     values that they need);
//  2) choose how many slots fit, one of them for what each iteration loads again;
//  3) start the first copies before the loop, running the slice once for each;
//  4) carry the slice's values a second time, that many iterations ahead, and start copies from them;
//  5) each product reads its operand from the slot of its iteration, others the whole tile at once.
#include "compiler/Dialect/Device/IR/Device.h"
#include "compiler/Target/Simt/Accesses.h"
#include "compiler/Target/Simt/DotLayout.h"
#include "compiler/Target/Simt/Passes.h"
#include "compiler/Target/Simt/SharedMemory.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace tilery::simt {
#define GEN_PASS_DEF_PIPELINELOADS
#include "compiler/Target/Simt/Passes.h.inc"

namespace {

//===-- Which loads -------------------------------------------------------------------------------===//

/// An operand of a product that is a load in another layout, perhaps transposed.
struct ProductUse {
  OpOperand *operand;
  bool transposed;
};

struct Copy {
  core::LoadOp load;
  unsigned width; ///< elements of one copy
  SlotsType slots;
  SmallVector<ProductUse, 1> uses; ///< none: it is read where the load stands, as it was laid out
  bool stays = false;              ///< all iterations load the same: one slot, filled once

  int64_t bytes() const { return int64_t(llvm::alignTo(uint64_t(slots.bytes()), 128)); }
};

bool isZero(Value value) {
  if (auto splat = value.getDefiningOp<core::SplatOp>())
    return isZero(splat.getSource());
  return matchPattern(value, m_Zero()) || matchPattern(value, m_PosZeroFloat());
}

/// What must be known of a loop's values one or more iterations ahead.
class AheadSlice {
public:
  explicit AheadSlice(scf::ForOp loop) : loop(loop) {}

  /// False when `value` needs more than pure operations.
  bool add(Value value) {
    if (!value || loop.isDefinedOutsideOfLoop(value) || !seen.insert(value).second)
      return true;
    if (auto argument = dyn_cast<BlockArgument>(value)) {
      if (argument == loop.getInductionVar())
        return true;
      carried.insert(argument.getArgNumber() - 1);
      return add(loop.getYieldedValues()[argument.getArgNumber() - 1]);
    }
    Operation *op = value.getDefiningOp();
    if (op->getBlock() != loop.getBody() || op->getNumRegions() || !isPure(op))
      return false;
    ops.insert(op);
    return llvm::all_of(op->getOperands(), [&](Value operand) { return add(operand); });
  }

  void cloneAll(OpBuilder &b, IRMapping &map) {
    for (Operation &op : *loop.getBody())
      if (ops.contains(&op))
        b.clone(op, map);
  }

  scf::ForOp loop;
  llvm::SetVector<unsigned> carried; ///< numbers of carried values that the slice needs

private:
  DenseSet<Value> seen;
  DenseSet<Operation *> ops;
};

class LoopPipeline {
public:
  LoopPipeline(scf::ForOp loop, const Machine &machine)
      : loop(loop), machine(machine), kernel(loop->getParentOfType<func::FuncOp>()), slice(loop) {}

  /// `all`: loads that others than products use, too.
  void run(unsigned wanted, bool all) {
    if (wanted < 2 || !isCandidate())
      return;
    loop.walk([&](core::LoadOp load) {
      if (auto copy = copyOf(load, all))
        copies.push_back(*copy);
    });
    chooseStages(wanted);
    if (stages && !copies.empty())
      rewrite();
  }

private:
  bool isCandidate();
  bool findUses(Value value, bool transposed, SmallVectorImpl<ProductUse> &uses);
  std::optional<Copy> copyOf(core::LoadOp load, bool all);
  SlotsType slotsFor(core::LoadOp load, unsigned fastest, unsigned width, const ProductUse &use);
  SlotsType plainSlotsFor(core::LoadOp load, unsigned fastest);
  void readPlain(OpBuilder &b, const Copy &copy, Value place, Value slot);
  int64_t scratchBytes();
  void chooseStages(unsigned wanted);
  void rewrite();
  Value runs(OpBuilder &b, int64_t iterationsAhead, Value from);
  void startCopies(OpBuilder &b, const IRMapping &map, Value slot, Value enabled, bool staying = false);
  SmallVector<Value> prologue(OpBuilder &b);
  SmallVector<Value> rewriteBody(OpBuilder &b, ArrayRef<BlockArgument> ahead);
  void readOperands(OpBuilder &b, Value slot);

  Value number(OpBuilder &b, int64_t value) {
    return arith::ConstantIntOp::create(b, loop.getLoc(), value, 32);
  }

  scf::ForOp loop;
  const Machine &machine;
  func::FuncOp kernel;
  AxisAnalysis axes;
  AheadSlice slice;
  SmallVector<Copy> copies;
  unsigned stages = 0;
  AllocSlotsOp slots;
};

// Operations after which a load may see something else, or not be reached at all.
bool LoopPipeline::isCandidate() {
  Type counter = loop.getInductionVar().getType();
  return counter.isInteger() && !loop.getUnsignedCmp() &&
         !loop.getBody()->walk([](Operation *op) {
            bool stops = isa<LoopLikeOpInterface, core::AtomicRMWOp, core::AtomicCASOp,
                             core::DebugBarrierOp>(op);
            return stops ? WalkResult::interrupt() : WalkResult::advance();
          }).wasInterrupted();
}

bool LoopPipeline::findUses(Value value, bool transposed, SmallVectorImpl<ProductUse> &uses) {
  return llvm::all_of(value.getUses(), [&](OpOperand &use) {
    Operation *user = use.getOwner();
    if (isa<ConvertLayoutOp>(user))
      return findUses(user->getResult(0), transposed, uses);
    if (auto trans = dyn_cast<core::TransOp>(user))
      return trans.getOrder() == ArrayRef<int32_t>{1, 0} &&
             findUses(trans.getResult(), !transposed, uses);
    auto dot = dyn_cast<core::DotOp>(user);
    if (!dot || use.getOperandNumber() > 1 || !instructionFor(dot, machine))
      return false;
    uses.push_back({&use, transposed});
    return true;
  });
}

std::optional<Copy> LoopPipeline::copyOf(core::LoadOp load, bool all) {
  auto tile = dyn_cast<RankedTensorType>(load.getType());
  if (!tile || load->getBlock() != loop.getBody() || load.getIsVolatile())
    return std::nullopt;
  Copy copy{load, 1, {}, {}};
  bool zeros = !load.getOther() || isZero(load.getOther());
  bool ofProducts = tile.getRank() == 2 && zeros && findUses(load.getResult(), false, copy.uses) &&
                    !copy.uses.empty();
  if (!ofProducts) {
    copy.uses.clear();
    if (!all)
      return std::nullopt;
    copy.stays = loop.isDefinedOutsideOfLoop(load.getPointer()) &&
                 (!load.getMask() || loop.isDefinedOutsideOfLoop(load.getMask()));
  }
  // Copies run ahead of stores, so the kernel must not write what it copies.
  Value argument = argumentOf(load.getPointer()), mask = load.getMask();
  if (!argument || writes(kernel, argument))
    return std::nullopt;
  unsigned fastest = axes.fastestDim(load.getPointer());
  unsigned width = axes.vectorWidth(load.getPointer(), isAllTrue(mask) ? Value() : mask, fastest);
  auto bits = neighbourBits(LinearLayout::of(load.getPointer().getType()), tile.getShape(), fastest,
                            width);
  copy.width = 1u << bits.size();
  AheadSlice longer = slice;
  if (!machine.copiesAtOnce(copy.width * pointeeBytes(load.getPointer().getType())) ||
      !longer.add(load.getPointer()) || !longer.add(mask))
    return std::nullopt;
  slice = longer;
  copy.slots = ofProducts ? slotsFor(load, fastest, copy.width, copy.uses[0])
                          : plainSlotsFor(load, fastest);
  return copy;
}

// Each thread reads what it has copied itself, by the same accesses.
SlotsType LoopPipeline::plainSlotsFor(core::LoadOp load, unsigned fastest) {
  auto tile = cast<RankedTensorType>(load.getType());
  return SlotsType::get(load.getContext(), 1, tile.getShape(), tile.getElementType(), fastest, 0, 0);
}

// Of the first product's reads: others rarely differ.
SlotsType LoopPipeline::slotsFor(core::LoadOp load, unsigned fastest, unsigned width,
                                 const ProductUse &use) {
  auto tile = cast<RankedTensorType>(load.getType());
  unsigned bytes = pointeeBytes(load.getPointer().getType());
  Value operand = use.operand->get();
  auto imagesOf = [&](Value value, unsigned contiguous) {
    return mapped(LinearLayout::of(value.getType()),
                  sharedImages(core::shapeOf(value.getType()), contiguous, bytes, {}));
  };
  LinearLayout written = imagesOf(load.getPointer(), fastest);
  LinearLayout read = imagesOf(operand, use.transposed ? 1 - fastest : fastest);
  int64_t tileBytes = tile.getNumElements() * bytes;
  auto matrices = machine.loadsMatrices() ? MatrixRows::of(read, bytes) : std::nullopt;
  // Words of 4 bytes are read where matrices are not; copies keep their bytes together.
  Swizzle swizzle = matrices ? chooseSwizzle(written, width * bytes, *matrices, tileBytes)
                             : chooseSwizzle(written, read, 1, width * bytes, tileBytes);
  return SlotsType::get(load.getContext(), 1, tile.getShape(), tile.getElementType(), fastest,
                        swizzle.shift, swizzle.mask);
}

//===-- How many slots ------------------------------------------------------------------------------===//

// At most what conversions in the loop take beside the slots.
int64_t LoopPipeline::scratchBytes() {
  int64_t most = 1024; // reductions between warps
  loop.walk([&](ConvertLayoutOp convert) {
    Value source = convert.getSource();
    if (llvm::any_of(copies, [&](Copy &copy) { return copy.load.getResult() == source; }))
      return;
    auto tile = cast<RankedTensorType>(convert.getType());
    if (LinearLayout::of(source.getType()).warps == LinearLayout::of(tile).warps)
      return; // exchanged between lanes, as a rule
    Type element = tile.getElementType();
    int64_t bytes = element.isIntOrFloat() ? (element.getIntOrFloatBitWidth() + 7) / 8 : 8;
    most = std::max(most, tile.getNumElements() * bytes);
  });
  return most;
}

// One slot overlaps nothing, but large tiles pass by the registers. What stays in its slot leaves two for the
// others; else it is loaded again each time, from the cache.
void LoopPipeline::chooseStages(unsigned wanted) {
  int64_t moving = 0, left = machine.sharedBytes() - scratchBytes();
  for (Copy &copy : copies)
    moving += copy.stays ? 0 : copy.bytes();
  llvm::erase_if(copies, [&](const Copy &copy) {
    bool fits = moving && copy.bytes() + 2 * moving <= left;
    left -= copy.stays && fits ? copy.bytes() : 0;
    return copy.stays && !fits;
  });
  stages = wanted;
  while (stages && moving * stages > left)
    --stages;
  for (Copy &copy : copies) {
    SlotsType type = copy.slots;
    copy.slots = SlotsType::get(type.getContext(), copy.stays ? 1 : stages, type.getShape(),
                                type.getElement(), type.getFastest(), type.getShift(), type.getMask());
  }
}

//===-- The pipeline ------------------------------------------------------------------------------------===//

// Whether there is an iteration so many after that of counter `from`; in 64 bits, where it cannot wrap.
Value LoopPipeline::runs(OpBuilder &b, int64_t iterationsAhead, Value from) {
  Location loc = loop.getLoc();
  Type wide = b.getI64Type();
  auto widened = [&](Value value) -> Value {
    return value.getType() == wide ? value : arith::ExtSIOp::create(b, loc, wide, value);
  };
  Value steps = arith::ConstantIntOp::create(b, loc, iterationsAhead, 64);
  Value distance = arith::MulIOp::create(b, loc, widened(loop.getStep()), steps);
  Value counter = arith::AddIOp::create(b, loc, widened(from), distance);
  return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, counter,
                               widened(loop.getUpperBound()));
}

void LoopPipeline::startCopies(OpBuilder &b, const IRMapping &map, Value slot, Value enabled,
                               bool staying) {
  for (auto [copy, place] : llvm::zip(copies, slots.getSlots())) {
    if (copy.stays != staying)
      continue;
    Value mask = copy.load.getMask();
    if (isAllTrue(mask))
      mask = {};
    CopySlotOp::create(b, copy.load.getLoc(), place, slot, enabled,
                       map.lookupOrDefault(copy.load.getPointer()),
                       mask ? map.lookupOrDefault(mask) : Value(), copy.width);
  }
  if (!staying) // with what was started before
    CommitCopiesOp::create(b, loop.getLoc());
}

static Value counterAhead(OpBuilder &b, scf::ForOp loop, Value from, int64_t iterations) {
  Location loc = loop.getLoc();
  Type type = from.getType();
  Value steps = arith::ConstantOp::create(b, loc, b.getIntegerAttr(type, iterations));
  return arith::AddIOp::create(b, loc, from, arith::MulIOp::create(b, loc, loop.getStep(), steps));
}

// The copies of all iterations but the last that fit; gives the slice's carried values after them.
SmallVector<Value> LoopPipeline::prologue(OpBuilder &b) {
  SmallVector<Value> ahead;
  if (llvm::any_of(copies, [](const Copy &copy) { return copy.stays; }))
    startCopies(b, {}, number(b, 0), runs(b, 0, loop.getLowerBound()), /*staying=*/true);
  for (unsigned position : slice.carried)
    ahead.push_back(loop.getInits()[position]);
  for (unsigned stage = 0; stage + 1 < stages; ++stage) {
    IRMapping map;
    map.map(loop.getInductionVar(), counterAhead(b, loop, loop.getLowerBound(), stage));
    for (auto [position, value] : llvm::zip(slice.carried, ahead))
      map.map(loop.getRegionIterArg(position), value);
    slice.cloneAll(b, map);
    startCopies(b, map, number(b, stage), runs(b, stage, loop.getLowerBound()));
    for (auto [position, value] : llvm::zip(slice.carried, ahead))
      value = map.lookupOrDefault(loop.getYieldedValues()[position]);
  }
  return ahead;
}

// `ahead`: the slice's carried values, then the slot of this iteration. Gives those of the next.
SmallVector<Value> LoopPipeline::rewriteBody(OpBuilder &b, ArrayRef<BlockArgument> ahead) {
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  Location loc = loop.getLoc();
  Value slot = ahead.back();
  if (stages > 1)
    AwaitCopiesOp::create(b, loc, stages - 2);
  auto select = [&](arith::CmpIPredicate predicate, Value value, int64_t limit, int64_t wrapped) {
    Value wraps = arith::CmpIOp::create(b, loc, predicate, value, number(b, limit));
    return Value(arith::SelectOp::create(b, loc, wraps, number(b, wrapped), value));
  };
  // All threads have left the iteration before this one, so its slot is free.
  Value before = arith::SubIOp::create(b, loc, slot, number(b, 1));
  Value freed = select(arith::CmpIPredicate::slt, before, 0, stages - 1);
  IRMapping map;
  map.map(loop.getInductionVar(), counterAhead(b, loop, loop.getInductionVar(), stages - 1));
  for (auto [position, value] : llvm::zip(slice.carried, ahead.drop_back()))
    map.map(loop.getRegionIterArg(position), value);
  slice.cloneAll(b, map);
  startCopies(b, map, freed, runs(b, stages - 1, loop.getInductionVar()));
  if (stages == 1)
    AwaitCopiesOp::create(b, loc, 0);
  SmallVector<Value> next;
  for (unsigned position : slice.carried)
    next.push_back(map.lookupOrDefault(loop.getYieldedValues()[position]));
  Value after = arith::AddIOp::create(b, loc, slot, number(b, 1));
  next.push_back(select(arith::CmpIPredicate::eq, after, stages, 0));
  readOperands(b, slot);
  return next;
}

// Copies leave zeros where the mask takes away; what the load fills with is chosen afterwards.
void LoopPipeline::readPlain(OpBuilder &b, const Copy &copy, Value place, Value slot) {
  core::LoadOp load = copy.load;
  b.setInsertionPoint(load);
  Value read = ReadSlotOp::create(b, load.getLoc(), load.getType(), place, slot, /*transposed=*/false);
  if (load.getOther() && !isAllTrue(load.getMask()) && !isZero(load.getOther()))
    read = arith::SelectOp::create(b, load.getLoc(), load.getMask(), read, load.getOther());
  load.getResult().replaceAllUsesWith(read);
}

void LoopPipeline::readOperands(OpBuilder &b, Value slot) {
  for (auto [copy, place] : llvm::zip(copies, slots.getSlots())) {
    if (copy.uses.empty())
      readPlain(b, copy, place, copy.stays ? number(b, 0) : slot);
    for (ProductUse use : copy.uses) {
      Operation *dot = use.operand->getOwner();
      b.setInsertionPoint(dot);
      Value read = ReadSlotOp::create(b, dot->getLoc(), use.operand->get().getType(), place, slot,
                                      use.transposed);
      use.operand->set(read);
    }
  }
}

/// Erases what nothing uses any more, from the end.
static void eraseDead(Block &block, ArrayRef<Operation *> loads) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (op.use_empty() && (isOpTriviallyDead(&op) || llvm::is_contained(loads, &op)))
      op.erase();
}

void LoopPipeline::rewrite() {
  IRRewriter b(loop);
  SmallVector<Type> types;
  SmallVector<Operation *> loads;
  for (Copy &copy : copies) {
    types.push_back(copy.slots);
    loads.push_back(copy.load);
  }
  slots = AllocSlotsOp::create(b, loop.getLoc(), types);
  SmallVector<Value> inits = prologue(b);
  inits.push_back(number(b, 0));
  auto made = loop.replaceWithAdditionalYields(
      b, inits, /*replaceInitOperandUsesInLoop=*/false,
      [&](OpBuilder &inner, Location, ArrayRef<BlockArgument> ahead) {
        return rewriteBody(inner, ahead);
      });
  auto pipelined = cast<scf::ForOp>(*made);
  b.setInsertionPointAfter(pipelined);
  FreeSlotsOp::create(b, pipelined.getLoc());
  eraseDead(*pipelined.getBody(), loads);
}

//===-- The pass ------------------------------------------------------------------------------------------===//

// What runs ahead must not pass a place where the instance waits for others, or ends.
bool keepsOrder(func::FuncOp kernel) {
  return kernel->hasAttr("simt.rings") ||
         kernel.walk([](Operation *op) {
            bool communicates =
                isa<device::DeviceDialect>(op->getDialect()) && !isa<device::LocalOp>(op);
            return communicates || waitsForMemory(op) || isa<core::AssertOp, core::CheckBoundsOp>(op)
                       ? WalkResult::interrupt()
                       : WalkResult::advance();
          }).wasInterrupted();
}

struct PipelineLoads : impl::PipelineLoadsBase<PipelineLoads> {
  using PipelineLoadsBase::PipelineLoadsBase;

  void runOnOperation() override {
    for (auto kernel : getOperation().getOps<func::FuncOp>()) {
      if (keepsOrder(kernel))
        continue;
      SmallVector<scf::ForOp> loops;
      kernel.walk([&](scf::ForOp loop) { loops.push_back(loop); });
      for (scf::ForOp loop : loops)
        LoopPipeline(loop, *machine)
            .run(std::min(stagesOf(loop), unsigned(mostStages)), loop->hasAttr("core.num_stages"));
    }
  }

  unsigned stagesOf(scf::ForOp loop) {
    auto own = loop->getAttrOfType<IntegerAttr>("core.num_stages");
    return own ? unsigned(std::max<int64_t>(own.getInt(), 1)) : unsigned(numStages);
  }

  const Machine *machine = nullptr;
};

} // namespace

std::unique_ptr<Pass> createPipelineLoads(const Machine &machine, unsigned numStages,
                                          unsigned mostStages) {
  PipelineLoadsOptions options;
  options.numStages = numStages;
  options.mostStages = mostStages;
  auto pass = std::make_unique<PipelineLoads>(options);
  pass->machine = &machine;
  return pass;
}

} // namespace tilery::simt
