// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Lowers one kernel: its signature, the order of its operations, its scalars.
#include "compiler/Conversion/CoreToVector/Lowering.h"

#include "llvm/ADT/TypeSwitch.h"

namespace tilery::vec {

Lowering::Lowering(func::FuncOp kernel, const CoreToVectorOptions &options)
    : builder(kernel.getContext()), loc(kernel.getLoc()), options(options),
      ptrType(LLVM::LLVMPointerType::get(kernel.getContext())), kernel(kernel) {}

Type Lowering::lowered(Type element) const {
  return core::isPointerLike(element) ? ptrType : element;
}

//===-- Small emitters ----------------------------------------------------------------------===//

Value Lowering::i64(int64_t value) {
  return arith::ConstantIntOp::create(builder, loc, value, 64);
}

Value Lowering::i32(int64_t value) {
  return arith::ConstantIntOp::create(builder, loc, value, 32);
}

Value Lowering::addI(Value a, Value b) { return builder.createOrFold<arith::AddIOp>(loc, a, b); }
Value Lowering::mulI(Value a, Value b) { return builder.createOrFold<arith::MulIOp>(loc, a, b); }

Value Lowering::ptrAt(Value base, Value byteOffset) {
  return LLVM::GEPOp::create(builder, loc, ptrType, builder.getI8Type(), base,
                             ArrayRef<LLVM::GEPArg>{byteOffset});
}

Value Lowering::ptrAt(Value base, int64_t byteOffset) {
  return byteOffset ? ptrAt(base, i64(byteOffset)) : base;
}

Value Lowering::scalar(Value old) {
  Value value = scalars.lookup(old);
  assert(value && "a scalar is lowered where it is defined");
  return value;
}

//===-- The function ---------------------------------------------------------------------------===//

static Value loadArgument(OpBuilder &b, Location loc, Value slot, Type type) {
  if (type.isInteger(1)) {
    Value byte = LLVM::LoadOp::create(b, loc, b.getI8Type(), slot);
    return arith::TruncIOp::create(b, loc, type, byte);
  }
  return LLVM::LoadOp::create(b, loc, type, slot);
}

LogicalResult Lowering::run() {
  if (!kernel.getBody().hasOneBlock())
    return kernel.emitError("a kernel must have structured control flow only");
  if (kernel.getNumResults())
    return kernel.emitError("a kernel returns nothing");
  builder.setInsertionPoint(kernel);
  auto type = builder.getFunctionType({ptrType, ptrType}, {});
  auto result = func::FuncOp::create(builder, kernel.getLoc(), kernel.getName(), type);
  entry = result.addEntryBlock();
  builder.setInsertionPointToStart(entry);
  instance = entry->getArgument(0);
  arguments = entry->getArgument(1);
  scratch = loadField(Field::Scratch, ptrType);
  allocator.initialise(entry, scratch);
  for (auto [index, argument] : llvm::enumerate(kernel.getArguments())) {
    Type element = argument.getType();
    if (!core::isTileElement(element) && !element.isIndex())
      return kernel.emitError("argument ") << index << " has type " << element
                                           << ", which a launch cannot pass";
    communicates |= isa<device::SymmType, device::SignalType>(element);
    setScalar(argument, loadArgument(builder, loc, ptrAt(arguments, int64_t(8 * index)),
                                     lowered(element)));
  }
  if (failed(lowerBlock(kernel.getBody().front())))
    return failure();
  func::ReturnOp::create(builder, kernel.getLoc());
  describe(result);
  kernel.erase();
  return success();
}

void Lowering::describe(func::FuncOp result) {
  Builder b(result.getContext());
  if (Attribute extents = kernel->getAttr("core.extents"))
    result->setAttr("core.extents", extents);
  result->setAttr("core.scratch_bytes", b.getI64IntegerAttr(allocator.scratchBytes()));
  if (suspends)
    result->setAttr("core.suspends", b.getUnitAttr());
  if (communicates)
    result->setAttr("core.communicates", b.getUnitAttr());
  SmallVector<Attribute> list;
  for (auto &[file, line, column] : sites)
    list.push_back(b.getArrayAttr(
        {b.getStringAttr(file), b.getI64IntegerAttr(line), b.getI64IntegerAttr(column)}));
  result->setAttr("core.sites", b.getArrayAttr(list));
}

//===-- Operations --------------------------------------------------------------------------------===//

LogicalResult Lowering::lowerBlock(Block &block) {
  for (Operation &op : block.without_terminator()) {
    loc = op.getLoc();
    if (failed(lowerOp(&op)))
      return failure();
  }
  if (block.mightHaveTerminator())
    loc = block.getTerminator()->getLoc();
  return success();
}

static bool isTileOp(Operation *op) {
  return llvm::any_of(op->getResultTypes(), llvm::IsaPred<RankedTensorType>);
}

// Stores the result now when its users would compute it again and again; otherwise it stays
// an expression.
static bool canBeLazy(Operation *op) {
  return Lowering::isElementwise(op) ||
         isa<arith::ConstantOp, core::SplatOp, core::RangeOp, core::BroadcastOp,
             core::ExpandDimsOp, core::TransOp, core::HintOp, core::AddPtrOp, core::PtrToIntOp,
             core::IntToPtrOp, core::PtrCastOp, device::LocalOp>(op);
}

static LogicalResult lowerTileExpression(Lowering &lowering, Operation *op) {
  if (!canBeLazy(op))
    return op->emitError("operation ")
           << op->getName() << " on tiles is not supported on the CPU target";
  if (!lowering.shouldStore(op))
    return success();
  for (Value result : op->getResults()) {
    Buffer buffer =
        lowering.allocate(cast<RankedTensorType>(result.getType()), op->getLoc());
    if (failed(lowering.evaluateInto(result, buffer, op->getLoc())))
      return failure();
    lowering.setBuffer(result, buffer);
  }
  return success();
}

LogicalResult Lowering::lowerScalar(Operation *op) {
  if (isa<arith::ConstantOp>(op)) {
    setScalar(op->getResult(0), builder.clone(*op)->getResult(0));
    return success();
  }
  if (auto program = dyn_cast<core::ProgramIdOp>(op)) {
    setScalar(program, loadField(Field::ProgramId, builder.getI32Type(), 4 * program.getAxis()));
    return success();
  }
  if (auto program = dyn_cast<core::NumProgramsOp>(op)) {
    setScalar(program, loadField(Field::NumPrograms, builder.getI32Type(), 4 * program.getAxis()));
    return success();
  }
  if (isa<core::HintOp, core::PtrCastOp, device::LocalOp>(op)) {
    setScalar(op->getResult(0), scalar(op->getOperand(0)));
    return success();
  }
  Nest nest(builder, loc, 0);
  if (auto advance = dyn_cast<core::AddPtrOp>(op)) {
    setScalar(advance, evaluateAddPtr(nest, advance, {}));
    return success();
  }
  if (auto cast = dyn_cast<core::PtrToIntOp>(op)) {
    setScalar(cast, LLVM::PtrToIntOp::create(builder, loc, builder.getI64Type(),
                                             scalar(cast.getSource())));
    return success();
  }
  if (auto cast = dyn_cast<core::IntToPtrOp>(op)) {
    setScalar(cast, LLVM::IntToPtrOp::create(builder, loc, ptrType, scalar(cast.getSource())));
    return success();
  }
  if (!isElementwise(op))
    return op->emitError("operation ") << op->getName() << " is not supported on the CPU target";
  SmallVector<Value> operands;
  for (Value operand : op->getOperands())
    operands.push_back(scalar(operand));
  for (auto [result, value] : llvm::zip(op->getResults(), emitElementwise(builder, op, operands)))
    setScalar(result, value);
  return success();
}

// fp8 has no arithmetic or conversions here yet.
static bool hasNarrowFloat(TypeRange types) {
  return llvm::any_of(types, [](Type type) {
    Type element = getElementTypeOrSelf(type);
    return isa<FloatType>(element) && element.getIntOrFloatBitWidth() < 16;
  });
}

LogicalResult Lowering::lowerOp(Operation *op) {
  if (hasNarrowFloat(op->getResultTypes()) || hasNarrowFloat(op->getOperandTypes()))
    return op->emitError("fp8 values are not supported on the CPU target");
  return TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](scf::ForOp loop) { return lowerFor(loop); })
      .Case([&](scf::IfOp branch) { return lowerIf(branch); })
      .Case([&](scf::WhileOp loop) { return lowerWhile(loop); })
      .Case([&](core::LoadOp load) { return lowerLoad(load); })
      .Case([&](core::StoreOp store) { return lowerStore(store); })
      .Case([&](core::AtomicRMWOp atomic) { return lowerAtomicRMW(atomic); })
      .Case([&](core::AtomicCASOp atomic) { return lowerAtomicCAS(atomic); })
      .Case([&](core::ReduceOp reduce) { return lowerReduce(reduce); })
      .Case([&](core::ScanOp scan) { return lowerScan(scan); })
      .Case([&](core::DotOp dot) { return lowerDot(dot); })
      .Case([&](core::ReshapeOp reshape) { return lowerReshape(reshape); })
      .Case([&](core::JoinOp join) { return lowerJoin(join); })
      .Case([&](core::SplitOp split) { return lowerSplit(split); })
      .Case([&](core::CatOp cat) { return lowerCat(cat); })
      .Case([&](core::GatherOp gather) { return lowerGather(gather); })
      .Case([&](core::PrintOp print) { return lowerPrint(print); })
      .Case([&](core::AssertOp check) { return lowerAssert(check); })
      .Case([&](core::CheckBoundsOp check) { return lowerCheckBounds(check); })
      .Case([&](core::AssumeOp promise) {
        LLVM::AssumeOp::create(builder, loc, scalar(promise.getCondition()));
        return success();
      })
      .Case([&](core::DebugBarrierOp) { return success(); }) // an instance is one thread
      .Default([&](Operation *other) -> LogicalResult {
        if (isTileOp(other))
          return lowerTileExpression(*this, other);
        if (isa<device::DeviceDialect>(other->getDialect()) && !isa<device::LocalOp>(other))
          return lowerDevice(other);
        return lowerScalar(other);
      });
}

} // namespace tilery::vec
