// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// From a loop of loads and products as users write it to Hopper's asynchronous form:
//
//   for k: a = core.load; b = core.load; acc = core.dot a, b, acc
// becomes
//   simt.roles
//     producer { for k: simt.produce 0 at (coordinates of a and b) }
//     consumer { for k: a, b = simt.consume 0; acc = simt.async_dot a, b, acc
//                       simt.dot_wait 1; release the slot of the product before
//                acc = simt.dot_wait 0; release the last slot }
//
// Algorithm:
//  1) every product must have operands that tensor maps describe (AffineAccess); loads that feed the
//     same product in the same block share a ring;
//  2) the producer is the slice of the kernel that the coordinates depend on;
//  3) in the consumer loads become buffers. A product whose result only goes round the loop stays
//     under way during the next iteration; any other is waited for at once.
// A kernel that communicates or can fail is left alone: its two roles would have to agree.
#include "compiler/Target/Nvidia/Passes.h"

#include "compiler/Dialect/Device/IR/Device.h"
#include "compiler/Target/Nvidia/AffineAccess.h"
#include "compiler/Target/Nvidia/Slice.h"
#include "compiler/Target/Nvidia/TensorMaps.h"
#include "compiler/Target/Simt/AsyncDot.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace tilery::simt;

namespace tilery::nvidia {
#define GEN_PASS_DEF_SPECIALISEWARPS
#include "compiler/Target/Nvidia/Passes.h.inc"

namespace {

struct Load {
  core::LoadOp op;
  AffineAccess access;
  BufferType type;
};

/// Loads that one slot of a ring holds.
struct Group {
  std::vector<Load> loads;
  Block *block;
  core::DotOp dot; ///< the first that uses it
  unsigned ring = 0;
  SmallVector<int32_t> maps;
};

struct Ring {
  SmallVector<BufferType> tiles;
  unsigned depth = 0; ///< of loops around its innermost use
  unsigned stages = 1;

  int64_t bytes() const {
    int64_t sum = 0;
    for (BufferType tile : tiles)
      sum += int64_t(llvm::alignTo(uint64_t(tile.bytes()), 1024));
    return sum;
  }
};

struct Operand {
  core::LoadOp load;
  bool transposed = false;
};

Operand operandOf(Value value) {
  if (auto trans = value.getDefiningOp<core::TransOp>())
    if (auto load = trans.getSource().getDefiningOp<core::LoadOp>();
        load && trans.getOrder() == ArrayRef<int32_t>{1, 0})
      return {load, true};
  return {value.getDefiningOp<core::LoadOp>(), false};
}

class Specialiser {
public:
  Specialiser(func::FuncOp kernel, unsigned numWarps, unsigned numStages, int64_t sharedBytes)
      : kernel(kernel), numWarps(numWarps), numStages(numStages), sharedBytes(sharedBytes) {}

  void run() {
    if (!isCandidate() || !findGroups() || !chooseStages() || !makeMaps())
      return;
    insertProduces();
    Slice slice(produces);
    if (!slice.isValid()) {
      for (Operation *produce : produces)
        produce->erase();
      return;
    }
    for (StringRef name : {"simt.rings", "simt.tensor_maps"})
      kernel->setAttr(name, ArrayAttr::get(kernel.getContext(),
                                           name == "simt.rings" ? ringAttrs : mapAttrs));
    limitRegisters();
    split(slice);
  }

private:
  //===-- 1) What can be done ---------------------------------------------------------------------===//

  bool isCandidate() {
    if (numWarps % 4 != 0)
      return false;
    SmallVector<Value> stored;
    bool fits = true;
    kernel.walk([&](Operation *op) {
      if (auto dot = dyn_cast<core::DotOp>(op))
        dots.push_back(dot);
      if (isa<device::DeviceDialect>(op->getDialect()) && !isa<device::LocalOp>(op))
        fits = false;
      if (isa<core::AssertOp, scf::WhileOp>(op))
        fits = false;
    });
    return fits && !dots.empty();
  }

  static bool isSupported(core::DotOp dot) {
    auto lhs = cast<RankedTensorType>(dot.getLhs().getType());
    auto acc = cast<RankedTensorType>(dot.getAccumulator().getType());
    Type element = lhs.getElementType(), sum = acc.getElementType();
    bool floats = (isHalf(element) || isa<Float8E4M3FNType, Float8E5M2Type>(element)) && sum.isF32();
    return lhs.getRank() == 2 && (floats || (element.isInteger(8) && sum.isInteger(32)));
  }

  static bool isHalf(Type element) { return element.isBF16() || element.isF16(); }

  // What the instruction takes: groups of 64 rows, columns in steps of 8 up to 256, depth of 32 bytes.
  bool fitsInstruction(core::DotOp dot, const BufferType &rhs) {
    auto acc = cast<RankedTensorType>(dot.getAccumulator().getType());
    int64_t m = acc.getDimSize(0), n = acc.getDimSize(1), k = rhs.getShape()[0];
    if (m < GroupRows || k * rhs.elementBytes() < 32)
      return false;
    GroupGrid grid = GroupGrid::of(m, n, numWarps);
    bool columnsFastest = rhs.getFastest() == 1;
    return grid.columns >= (columnsFastest ? 64 : 8);
  }

  static BufferType bufferType(core::LoadOp load, const AffineAccess &access) {
    auto tile = cast<RankedTensorType>(load.getType());
    return BufferType::get(load.getContext(), tile.getShape(), tile.getElementType(),
                           access.fastest);
  }

  static BufferType transposed(BufferType type) {
    SmallVector<int64_t> shape = {type.getShape()[1], type.getShape()[0]};
    return BufferType::get(type.getContext(), shape, type.getElement(), 1 - type.getFastest());
  }

  // A load that only products use, by way of a transposition at most.
  static bool feedsOnlyDots(core::LoadOp load) {
    return llvm::all_of(load->getUsers(), [](Operation *user) {
      if (isa<core::TransOp>(user))
        return llvm::all_of(user->getUsers(), llvm::IsaPred<core::DotOp>);
      return isa<core::DotOp>(user);
    });
  }

  bool fitsCopies(const Load &load) {
    int64_t fast = load.type.getShape()[load.type.getFastest()] * load.type.elementBytes();
    int64_t slow = load.type.getShape()[1 - load.type.getFastest()];
    return fast >= 32 && slow <= 256 && slow >= 8;
  }

  bool addOperand(core::DotOp dot, Value value, bool isRhs) {
    Operand operand = operandOf(value);
    if (!operand.load || !feedsOnlyDots(operand.load))
      return !isRhs && !operand.load; // the left operand may come in registers
    auto access = affineAccess(operand.load);
    if (!access || writes(access->base))
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

  Group &groupFor(core::DotOp dot, Block *block) {
    for (Group &group : groups)
      if (group.dot == dot && group.block == block)
        return group;
    groups.push_back({{}, block, dot, 0, {}});
    return groups.back();
  }

  // Copies run ahead of stores to the same memory, so the kernel must not write what it copies.
  bool writes(BlockArgument base) {
    bool found = false;
    kernel.walk([&](Operation *op) {
      Value pointer;
      if (auto store = dyn_cast<core::StoreOp>(op))
        pointer = store.getPointer();
      if (isa<core::AtomicRMWOp, core::AtomicCASOp>(op))
        pointer = op->getOperand(0);
      if (!pointer)
        return;
      Value root = rootOf(pointer);
      found |= !root || root == base;
    });
    return found;
  }

  static Value rootOf(Value pointer) {
    while (Operation *op = pointer.getDefiningOp()) {
      if (!isa<core::AddPtrOp, core::SplatOp, core::BroadcastOp, core::ExpandDimsOp, core::TransOp,
               core::HintOp, core::PtrCastOp, core::ReshapeOp, device::LocalOp>(op))
        return {};
      pointer = op->getOperand(0);
    }
    Operation *owner = cast<BlockArgument>(pointer).getOwner()->getParentOp();
    return isa<func::FuncOp>(owner) ? pointer : Value();
  }

  bool findGroups() {
    for (core::DotOp dot : dots)
      if (!isSupported(dot) || !addOperand(dot, dot.getRhs(), true) ||
          !addOperand(dot, dot.getLhs(), false))
        return false;
    // Rings outside of every loop are filled once.
    return llvm::any_of(groups, [](Group &group) { return isLoop(group); });
  }

  static bool isLoop(const Group &group) {
    return isa<scf::ForOp>(group.block->getParentOp());
  }

  static unsigned depthOf(const Group &group) {
    unsigned depth = 0;
    for (Operation *op = group.block->getParentOp(); op; op = op->getParentOp())
      depth += isa<scf::ForOp>(op);
    return depth;
  }

  // Loops one after the other use the same ring for tiles of the same kind, in turn.
  void chooseRings() {
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
  static bool areSuccessive(const Group &a, const Group &b) {
    Operation *one = a.block->getParentOp(), *other = b.block->getParentOp();
    return one != other && isa<scf::ForOp>(one) && isa<scf::ForOp>(other) &&
           one->getBlock() == other->getBlock();
  }

  // Rings of the innermost loops get all stages that fit; those outside hold one tile.
  bool chooseStages() {
    chooseRings();
    unsigned innermost = 0;
    for (const Ring &ring : rings)
      innermost = std::max(innermost, ring.depth);
    constexpr int64_t reserve = 2048; // barriers, small exchanges
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

  bool makeMaps() {
    Builder b(kernel.getContext());
    for (Group &group : groups)
      for (const Load &load : group.loads) {
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
  void limitRegisters() {
    Builder b(kernel.getContext());
    if (numWarps != 8)
      return; // with one group of four warps no limit binds, with more there is nothing to give
    kernel->setAttr("simt.producer_registers", b.getI32IntegerAttr(24));
    kernel->setAttr("simt.consumer_registers", b.getI32IntegerAttr(240));
  }

  //===-- 2) The producer ----------------------------------------------------------------------------===//

  void insertProduces() {
    for (Group &group : groups) {
      // After the last load, where all coordinates are known.
      Operation *last = group.loads[0].op;
      for (const Load &load : group.loads)
        if (last->isBeforeInBlock(load.op))
          last = load.op;
      OpBuilder b(last->getContext());
      b.setInsertionPointAfter(last);
      SmallVector<Value> coordinates;
      SmallVector<int32_t> ranks;
      for (const Load &load : group.loads) {
        for (const AccessDim &dim : load.access.dims)
          coordinates.push_back(emitSum(b, last->getLoc(), dim.start));
        ranks.push_back(int32_t(load.access.dims.size()));
      }
      produces.push_back(
          ProduceOp::create(b, last->getLoc(), group.ring, group.maps, ranks, coordinates));
    }
  }

  //===-- 3) The consumer ------------------------------------------------------------------------------===//

  void split(Slice &slice) {
    Block &body = kernel.getBody().front();
    OpBuilder b(body.getTerminator());
    auto roles = RolesOp::create(b, kernel.getLoc());
    Block *producer = new Block, *consumer = new Block;
    roles.getProducer().push_back(producer);
    roles.getConsumer().push_back(consumer);
    b.setInsertionPointToStart(producer);
    slice.clone(body, b);
    // Everything before the roles moves into the consumer.
    consumer->getOperations().splice(consumer->end(), body.getOperations(), body.begin(),
                                     Block::iterator(roles));
    for (Operation *produce : produces)
      produce->erase();
    for (Group &group : groups)
      if (group.block == &body)
        group.block = consumer;
    for (Group &group : groups)
      consume(group);
    overlapChains();
    for (core::DotOp dot : dots)
      if (!llvm::is_contained(replaced, dot))
        rewriteDot(dot);
    releaseOuterRings();
    eraseOld();
  }

  void eraseOld() {
    auto goesWithLoop = [&](Operation *op) {
      return llvm::any_of(pipelined, [&](scf::ForOp loop) { return loop->isProperAncestor(op); });
    };
    SmallVector<Operation *> old;
    for (core::DotOp dot : replaced)
      if (!goesWithLoop(dot))
        old.push_back(dot);
    for (Group &group : groups)
      for (Load &load : group.loads)
        if (!goesWithLoop(load.op)) {
          for (Operation *user : load.op->getUsers())
            if (isa<core::TransOp>(user)) // which has become a view
              old.push_back(user);
          old.push_back(load.op);
        }
    for (scf::ForOp loop : pipelined)
      loop.erase();
    for (Operation *op : old)
      op->erase();
  }

  void consume(Group &group) {
    Operation *first = group.loads[0].op;
    for (const Load &load : group.loads)
      if (load.op->isBeforeInBlock(first))
        first = load.op;
    OpBuilder b(first);
    // As late as possible: right before the first use in this block.
    SmallVector<Type> types;
    for (const Load &load : group.loads)
      types.push_back(load.type);
    Operation *use = group.dot;
    while (use->getBlock() != group.block)
      use = use->getParentOp();
    b.setInsertionPoint(use);
    auto consumed = ConsumeOp::create(b, first->getLoc(), types, group.ring);
    for (auto [load, buffer] : llvm::zip(group.loads, consumed.getBuffers()))
      buffers[load.op] = buffer;
  }

  Value bufferFor(OpBuilder &b, Value value) {
    Operand operand = operandOf(value);
    if (!operand.load || !buffers.contains(operand.load))
      return value;
    Value buffer = buffers[operand.load];
    if (!operand.transposed)
      return buffer;
    return TransposedOp::create(b, value.getLoc(), transposed(cast<BufferType>(buffer.getType())),
                                buffer);
  }

  // The result only returns as the accumulator of the same product.
  static bool goesRound(core::DotOp dot) {
    auto loop = dyn_cast<scf::ForOp>(dot->getParentOp());
    if (!loop || !dot->hasOneUse() || !isa<scf::YieldOp>(*dot->user_begin()))
      return false;
    unsigned position = dot->use_begin()->getOperandNumber();
    Value argument = loop.getRegionIterArg(position);
    return dot.getAccumulator() == argument && argument.hasOneUse();
  }

  /// Rings whose slot is free once this product is done: those of its own block.
  SmallVector<unsigned> ringsEndingAt(core::DotOp dot) {
    SmallVector<unsigned> ending;
    for (const Group &group : groups)
      if (group.block == dot->getBlock() && lastUse(group) == dot)
        ending.push_back(group.ring);
    return ending;
  }

  // In program order; null when the last user is inside a loop.
  Operation *lastUse(const Group &group) {
    Operation *last = nullptr;
    for (core::DotOp dot : dots) {
      bool uses = llvm::any_of(group.loads, [&](const Load &load) {
        return operandOf(dot.getLhs()).load == load.op || operandOf(dot.getRhs()).load == load.op;
      });
      if (uses)
        last = dot;
    }
    return last;
  }

  void rewriteDot(core::DotOp dot) {
    OpBuilder b(dot);
    Location loc = dot.getLoc();
    SmallVector<unsigned> ending = ringsEndingAt(dot);
    bool staysUnderWay = goesRound(dot);
    Value lhs = bufferFor(b, dot.getLhs()), rhs = bufferFor(b, dot.getRhs());
    Value started = AsyncDotOp::create(b, loc, dot.getType(), lhs, rhs, dot.getAccumulator());
    if (!staysUnderWay) {
      auto done = DotWaitOp::create(b, loc, TypeRange(dot.getType()), 0u, ValueRange(started));
      for (unsigned ring : ending)
        ReleaseOp::create(b, loc, ring, 0u);
      dot.replaceAllUsesWith(done.getResult(0));
      forget(dot);
      return;
    }
    auto loop = cast<scf::ForOp>(dot->getParentOp());
    unsigned position = dot->use_begin()->getOperandNumber();
    DotWaitOp::create(b, loc, TypeRange(), 1u, ValueRange());
    Value isLater = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, loop.getInductionVar(),
                                          loop.getLowerBound());
    releaseIf(b, loc, isLater, ending, 1);
    dot.replaceAllUsesWith(started);
    b.setInsertionPointAfter(loop);
    Value result = loop.getResult(position);
    auto done = DotWaitOp::create(b, loc, TypeRange(result.getType()), 0u, ValueRange(result));
    result.replaceAllUsesExcept(done.getResult(0), done);
    Value ran = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, loop.getLowerBound(),
                                      loop.getUpperBound());
    releaseIf(b, loc, ran, ending, 0);
    forget(dot);
  }

  //===-- Chained products ---------------------------------------------------------------------------===//
  //
  // In attention the second product of an iteration (weights times values) needs what was computed
  // from the first (scores). It runs while the next iteration's first product is turned into weights:
  //
  //   for: s = dot q, k; p = f(s); acc = g(acc, s); acc = dot p, v, acc
  // becomes
  //   s = dot q, k; p = f(s); a = g(acc, s)                       (the first iteration)
  //   for the others, carrying p and a:
  //     start s = dot q, k; start acc = dot p, v, a; wait for s; p = f(s); wait for acc; a = g(acc, s)
  //   acc = dot p, v, a

  struct Chain {
    scf::ForOp loop;
    core::DotOp first, last;
    unsigned position; ///< of the carried accumulator
  };

  std::optional<Chain> chainOf(scf::ForOp loop) {
    if (auto stages = loop->getAttrOfType<IntegerAttr>("core.num_stages"); stages && stages.getInt() < 2)
      return std::nullopt; // the user asks for no overlap
    SmallVector<core::DotOp> inside;
    for (core::DotOp dot : dots)
      if (loop->isProperAncestor(dot))
        inside.push_back(dot);
    if (inside.size() != 2 || inside[0]->getBlock() != loop.getBody() ||
        inside[1]->getBlock() != loop.getBody())
      return std::nullopt;
    core::DotOp first = inside[0], last = inside[1];
    bool onlyYielded = last->hasOneUse() && isa<scf::YieldOp>(*last->user_begin());
    bool lhsInRegisters = !operandOf(last.getLhs()).load;
    if (!onlyYielded || !lhsInRegisters || ringsEndingAt(first).size() != 1 ||
        ringsEndingAt(last).size() != 1)
      return std::nullopt;
    unsigned position = last->use_begin()->getOperandNumber();
    // Between the two only the accumulator's own preparation may read what the last one gives.
    for (Operation *user : loop.getRegionIterArg(position).getUsers())
      if (user->getBlock() != loop.getBody() || user->isBeforeInBlock(first))
        return std::nullopt;
    return Chain{loop, first, last, position};
  }

  void overlapChains() {
    SmallVector<scf::ForOp> loops;
    kernel.walk([&](scf::ForOp loop) { loops.push_back(loop); });
    for (scf::ForOp loop : loops)
      if (auto chain = chainOf(loop))
        overlap(*chain);
  }

  Value start(OpBuilder &b, core::DotOp dot, Value lhs, Value rhs, Value accumulator) {
    return AsyncDotOp::create(b, dot.getLoc(), dot.getType(), lhs, rhs, accumulator);
  }

  static Value wait(OpBuilder &b, Location loc, unsigned pending, Value started) {
    return DotWaitOp::create(b, loc, TypeRange(started.getType()), pending, ValueRange(started))
        .getResult(0);
  }

  /// A product with its operand from the ring that ends with it.
  Value startFromRing(OpBuilder &b, core::DotOp dot, const IRMapping &map, Value lhs,
                      Value accumulator) {
    unsigned ring = ringsEndingAt(dot)[0];
    SmallVector<Type> types(rings[ring].tiles.begin(), rings[ring].tiles.end());
    auto consumed = ConsumeOp::create(b, dot.getLoc(), types, ring);
    const Group &group = *llvm::find_if(groups, [&](const Group &candidate) {
      return candidate.block == dot->getBlock() && candidate.ring == ring && lastUse(candidate) == dot;
    });
    auto operand = [&](Value value) -> Value {
      Operand source = operandOf(value);
      for (auto [load, buffer] : llvm::zip(group.loads, consumed.getBuffers()))
        if (source.load == load.op)
          return source.transposed
                     ? TransposedOp::create(b, dot.getLoc(), transposed(load.type), buffer)
                           .getResult()
                     : Value(buffer);
      return {};
    };
    Value left = operand(dot.getLhs());
    if (!left)
      left = lhs ? lhs : map.lookupOrDefault(bufferFor(b, dot.getLhs()));
    return start(b, dot, left, operand(dot.getRhs()), accumulator);
  }

  /// Copies the body but for the products, whose results are in `map`; `before(op)` is called first.
  void cloneBody(OpBuilder &b, Chain &chain, IRMapping &map,
                 llvm::function_ref<void(Operation *)> before) {
    for (Operation &op : chain.loop.getBody()->without_terminator()) {
      bool isProduct = &op == chain.first || &op == chain.last;
      Operation *source = isa<core::TransOp>(op) ? op.getOperand(0).getDefiningOp() : &op;
      if (isa<ConsumeOp>(op) || buffers.contains(source))
        continue;
      before(&op);
      if (!isProduct)
        b.clone(op, map);
    }
  }

  void overlap(Chain chain) {
    scf::ForOp loop = chain.loop;
    Location loc = loop.getLoc();
    OpBuilder b(loop);
    unsigned firstRing = ringsEndingAt(chain.first)[0], lastRing = ringsEndingAt(chain.last)[0];
    Value ran = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, loop.getLowerBound(),
                                      loop.getUpperBound());
    auto branch = scf::IfOp::create(b, loc, loop.getResultTypes(), ran, true);
    b.setInsertionPointToStart(branch.elseBlock());
    scf::YieldOp::create(b, loc, loop.getInits());
    b.setInsertionPointToStart(branch.thenBlock());

    // The first iteration, without the last product.
    IRMapping map;
    map.map(loop.getInductionVar(), loop.getLowerBound());
    map.map(loop.getRegionIterArgs(), loop.getInits());
    cloneBody(b, chain, map, [&](Operation *op) {
      if (op != chain.first)
        return;
      Value started = startFromRing(b, chain.first, map, {},
                                    map.lookupOrDefault(chain.first.getAccumulator()));
      map.map(chain.first.getResult(), wait(b, loc, 0, started));
      ReleaseOp::create(b, loc, firstRing, 0u);
    });
    auto carriedFrom = [&](IRMapping &values) {
      SmallVector<Value> carried;
      for (auto [i, yielded] : llvm::enumerate(loop.getYieldedValues()))
        carried.push_back(values.lookupOrDefault(
            i == chain.position ? chain.last.getAccumulator() : yielded));
      carried.push_back(values.lookupOrDefault(chain.last.getLhs()));
      return carried;
    };
    // The others.
    Value second = arith::AddIOp::create(b, loc, loop.getLowerBound(), loop.getStep());
    auto rest = scf::ForOp::create(b, loc, second, loop.getUpperBound(), loop.getStep(),
                                   carriedFrom(map));
    {
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToStart(rest.getBody());
      IRMapping inner;
      inner.map(loop.getInductionVar(), rest.getInductionVar());
      for (auto [i, argument] : llvm::enumerate(loop.getRegionIterArgs()))
        inner.map(argument, rest.getRegionIterArg(unsigned(i)));
      Value accumulator = rest.getRegionIterArg(chain.position), weights = rest.getRegionIterArgs().back();
      Value underWay;
      cloneBody(b, chain, inner, [&](Operation *op) {
        if (op == chain.first) {
          Value scores = startFromRing(b, chain.first, inner, {},
                                       inner.lookupOrDefault(chain.first.getAccumulator()));
          underWay = startFromRing(b, chain.last, inner, weights, accumulator);
          inner.map(chain.first.getResult(), wait(b, loc, 1, scores));
          ReleaseOp::create(b, loc, firstRing, 0u);
        } else if (underWay && llvm::is_contained(op->getOperands(),
                                                  Value(loop.getRegionIterArg(chain.position)))) {
          inner.map(loop.getRegionIterArg(chain.position), wait(b, loc, 0, underWay));
          ReleaseOp::create(b, loc, lastRing, 0u);
          underWay = {};
        }
      });
      scf::YieldOp::create(b, loc, carriedFrom(inner));
    }
    // The last product of the last iteration.
    Value started = startFromRing(b, chain.last, map, rest.getResults().back(),
                                  rest.getResult(chain.position));
    SmallVector<Value> results(rest.getResults().drop_back());
    results[chain.position] = wait(b, loc, 0, started);
    ReleaseOp::create(b, loc, lastRing, 0u);
    scf::YieldOp::create(b, loc, results);
    loop.replaceAllUsesWith(branch.getResults());
    forget(chain.first);
    forget(chain.last);
    pipelined.push_back(loop);
  }

  static void releaseIf(OpBuilder &b, Location loc, Value condition, ArrayRef<unsigned> rings,
                        unsigned age) {
    if (rings.empty())
      return;
    auto branch = scf::IfOp::create(b, loc, condition, false);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(branch.thenBlock());
    for (unsigned ring : rings)
      ReleaseOp::create(b, loc, ring, age);
  }

  // Erased later: the other questions about dots still need the old ones.
  void forget(core::DotOp dot) { replaced.push_back(dot); }

  void releaseOuterRings() {
    for (const Group &group : groups) {
      Operation *last = lastUse(group);
      if (last->getBlock() == group.block)
        continue;
      while (last->getBlock() != group.block)
        last = last->getParentOp();
      // After the waits that follow the loop.
      while (isa_and_nonnull<DotWaitOp>(last->getNextNode()))
        last = last->getNextNode();
      OpBuilder b(last->getContext());
      b.setInsertionPointAfter(last);
      ReleaseOp::create(b, last->getLoc(), group.ring, 0u);
    }
  }

  func::FuncOp kernel;
  unsigned numWarps, numStages;
  int64_t sharedBytes;
  SmallVector<core::DotOp> dots, replaced;
  SmallVector<scf::ForOp> pipelined; ///< replaced by overlapped forms
  std::vector<Group> groups;
  std::vector<Ring> rings;
  DenseMap<Operation *, unsigned> groupOf;
  DenseMap<Operation *, Value> buffers;
  SmallVector<Attribute> ringAttrs, mapAttrs;
  SmallVector<Operation *> produces;
};

struct SpecialiseWarps : impl::SpecialiseWarpsBase<SpecialiseWarps> {
  using SpecialiseWarpsBase::SpecialiseWarpsBase;

  void runOnOperation() override {
    for (auto kernel : getOperation().getOps<func::FuncOp>())
      Specialiser(kernel, numWarps, numStages, sharedBytes).run();
  }
};

} // namespace

std::unique_ptr<Pass> createSpecialiseWarps(unsigned numWarps, unsigned numStages,
                                            int64_t sharedBytes) {
  SpecialiseWarpsOptions options;
  options.numWarps = numWarps;
  options.numStages = numStages;
  options.sharedBytes = sharedBytes;
  return createSpecialiseWarps(options);
}

} // namespace tilery::nvidia
