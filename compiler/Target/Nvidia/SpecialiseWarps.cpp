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
//  2) the producer is the slice of the kernel that the coordinates depend on, with the waits for signals
//     before the copies;
//  3) in the consumer loads become buffers. A product whose result only goes round the loop stays
//     under way during the next iteration; any other is waited for at once.
// The producer waits for signals as the consumer does. A role that fails leaves; the other one finds the
// failure where it waits for a slot.
#include "compiler/Target/Nvidia/Passes.h"

#include "compiler/Dialect/Device/IR/Device.h"
#include "compiler/Target/Nvidia/ProgramOrder.h"
#include "compiler/Target/Nvidia/RingPlan.h"
#include "compiler/Target/Nvidia/Slice.h"
#include "compiler/Target/Nvidia/TensorMaps.h"
#include "compiler/Target/Simt/AsyncDot.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace tilery::simt;

namespace tilery::nvidia {
#define GEN_PASS_DEF_SPECIALISEWARPS
#include "compiler/Target/Nvidia/Passes.h.inc"

namespace {

class Specialiser : public RingPlan {
public:
  using RingPlan::RingPlan;

  void run() {
    if (!make())
      return;
    insertProduces();
    llvm::append_range(copying, kernelMaps.emit());
    SmallVector<Operation *> roots(copying);
    bool canFollow = collectWaits(roots);
    Slice slice(kernel, roots);
    if (!canFollow || !slice.isValid()) {
      for (Operation *op : copying)
        op->erase();
      return;
    }
    if (!kernelMaps.empty())
      kernel->setAttr("simt.kernel_maps", OpBuilder(kernel).getI32IntegerAttr(kernelMaps.count()));
    for (StringRef name : {"simt.rings", "simt.tensor_maps"})
      kernel->setAttr(name, ArrayAttr::get(kernel.getContext(),
                                           name == "simt.rings" ? ringAttrs : mapAttrs));
    limitRegisters();
    split(slice);
  }

private:
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
          coordinates.push_back(emitStart(b, last->getLoc(), dim));
        ranks.push_back(int32_t(load.access.dims.size()));
      }
      copying.push_back(
          ProduceOp::create(b, last->getLoc(), group.ring, group.maps, ranks, coordinates));
    }
  }

  // The producer waits for the signals that come before its copies, too. False when something else that
  // orders memory comes before them.
  bool collectWaits(SmallVectorImpl<Operation *> &waits) {
    bool canFollow = true;
    kernel.walk([&](Operation *op) {
      bool precedes = llvm::any_of(copying, [&](Operation *copy) { return mayPrecede(op, copy); });
      if (precedes && isa<device::WaitOp>(op))
        waits.push_back(op);
      if (precedes && isa<device::BarrierAllOp, device::SyncAllOp>(op))
        canFollow = false;
    });
    return canFollow;
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
    for (Operation *op : copying)
      op->erase();
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
    Value started = start(b, dot, lhs, rhs, dot.getAccumulator());
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
    auto columns = usedColumns.find(dot);
    IntegerAttr limit =
        columns == usedColumns.end() ? IntegerAttr() : b.getI64IntegerAttr(columns->second);
    return AsyncDotOp::create(b, dot.getLoc(), dot.getType(), lhs, rhs, accumulator, limit);
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

  SmallVector<core::DotOp> replaced;
  SmallVector<scf::ForOp> pipelined; ///< replaced by overlapped forms
  DenseMap<Operation *, Value> buffers;
  SmallVector<Operation *> copying; ///< what the producer is for
};

struct SpecialiseWarps : impl::SpecialiseWarpsBase<SpecialiseWarps> {
  using SpecialiseWarpsBase::SpecialiseWarpsBase;

  void runOnOperation() override {
    for (auto kernel : getOperation().getOps<func::FuncOp>())
      Specialiser(kernel, {numWarps, numStages, sharedBytes, kernelMakesMaps}).run();
  }
};

} // namespace

} // namespace tilery::nvidia
