// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Assertions, the failure record (include/tilery/gpu_abi.h) and prints.
#include "compiler/Target/Simt/Lowering.h"

#include "tilery/gpu_abi.h"

#include <cstddef>

namespace tilery::simt {

Value Lowering::loadContext(int64_t offset, Type type) {
  return fieldOf(contextPointer, offset, type);
}

int32_t Lowering::site(Location location) {
  FileLineColRange place;
  location->walk([&](Location part) {
    place = dyn_cast<FileLineColRange>(part);
    return place ? WalkResult::interrupt() : WalkResult::advance();
  });
  if (!place)
    return -1;
  std::tuple entry(place.getFilename().str(), int64_t(place.getStartLine()),
                   int64_t(place.getStartColumn()));
  auto found = std::find(sites.begin(), sites.end(), entry);
  if (found == sites.end())
    found = sites.insert(sites.end(), entry);
  return int32_t(found - sites.begin());
}

int32_t Lowering::message(StringRef text) {
  auto found = std::find(messages.begin(), messages.end(), text);
  if (found == messages.end())
    found = messages.insert(messages.end(), text.str());
  return int32_t(found - messages.begin());
}

// release of `kind`: pairs with the host's acquire after the launch and with `failed` in waits.
void Lowering::writeFailure(int32_t kind, int32_t messageIndex, const FailureValues &details) {
  Value record = loadContext(offsetof(tilery_gpu_context, failure), pointerType(1));
  auto field = [&](int64_t offset) { return byteOffset(record, i64(offset)); };
  Value pair = LLVM::AtomicCmpXchgOp::create(
      b, loc, field(offsetof(tilery_gpu_failure, claimed)), i32(0), i32(1),
      LLVM::AtomicOrdering::monotonic, LLVM::AtomicOrdering::monotonic, StringRef());
  Value first = LLVM::ExtractValueOp::create(b, loc, pair, ArrayRef<int64_t>{1});
  emitIf(first, [&] {
    auto store = [&](int64_t offset, Value value) {
      if (value)
        LLVM::StoreOp::create(b, loc, value, field(offset));
    };
    store(offsetof(tilery_gpu_failure, site), i32(site(loc)));
    store(offsetof(tilery_gpu_failure, message), i32(messageIndex));
    for (unsigned axis = 0; axis < 3; ++axis)
      store(int64_t(offsetof(tilery_gpu_failure, program_id)) + 4 * axis,
            machine.programId(b, loc, axis));
    store(offsetof(tilery_gpu_failure, rank),
          loadContext(offsetof(tilery_gpu_context, rank), b.getI32Type()));
    store(offsetof(tilery_gpu_failure, address), details.address);
    store(offsetof(tilery_gpu_failure, expected), details.expected);
    store(offsetof(tilery_gpu_failure, seen), details.seen);
    store(offsetof(tilery_gpu_failure, compare), i32(details.compare));
    LLVM::StoreOp::create(b, loc, i32(kind), field(offsetof(tilery_gpu_failure, kind)), 4, false,
                          false, false, LLVM::AtomicOrdering::release, StringRef());
  });
}

// All threads leave together: the others may be waiting for them at a barrier.
void Lowering::failWhere(Value failed, int32_t kind, int32_t messageIndex, FailureValues details) {
  canFail = true;
  Value any = machine.barrierOr(b, loc, failed, meetingThreads);
  ordered();
  emitIf(any, [&] {
    emitIf(failed, [&] { writeFailure(kind, messageIndex, details); });
    machine.exit(b, loc);
  });
}

// `failed` is the same on all threads, so they leave together without a barrier.
void Lowering::failUniformly(Value failed, int32_t kind, int32_t messageIndex,
                             const FailureValues &details) {
  canFail = true;
  emitIf(failed, [&] {
    emitIf(isFirstThread(), [&] { writeFailure(kind, messageIndex, details); });
    machine.exit(b, loc);
  });
}

LogicalResult Lowering::lowerCheckBounds(core::CheckBoundsOp op) {
  Value failed, wrong;
  for (auto [inside, index] : llvm::zip(elements(op.getInside()), elements(op.getIndex()))) {
    Value outside = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, inside,
                                          zero(inside.getType()));
    wrong = wrong ? Value(arith::SelectOp::create(b, loc, outside, index, wrong)) : index;
    failed = failed ? Value(arith::OrIOp::create(b, loc, failed, outside)) : outside;
  }
  FailureValues details{{}, scalar(op.getCount()), wrong};
  int32_t access = message(op.getAccess());
  if (isa<RankedTensorType>(op.getInside().getType()))
    failWhere(failed, TILERY_GPU_OUT_OF_BOUNDS, access, details);
  else
    failUniformly(failed, TILERY_GPU_OUT_OF_BOUNDS, access, details);
  return success();
}

LogicalResult Lowering::lowerAssert(core::AssertOp op) {
  Value failed;
  for (Value condition : elements(op.getCondition())) {
    Value wrong = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, condition,
                                        zero(condition.getType()));
    failed = failed ? Value(arith::OrIOp::create(b, loc, failed, wrong)) : wrong;
  }
  failWhere(failed, TILERY_GPU_ASSERTION, message(op.getMessage()), {});
  return success();
}

//===-- Prints ----------------------------------------------------------------------------------------===//

// Text that a format prints as it is.
static std::string literal(StringRef text) {
  std::string escaped;
  for (char c : text)
    escaped += c == '%' ? "%%" : std::string(1, c);
  return escaped;
}

// As many digits as tell two values apart.
static std::string formatOf(Type element, bool isSigned, bool hex) {
  if (isa<FloatType>(element))
    return element.isF64() ? "%.17g" : "%.9g";
  return hex ? "0x%llx" : isSigned ? "%lld" : "%llu";
}

// One line an element, as Triton prints and as on the CPU: "pid (0, 0, 0) idx (3) x: 1.5", with the
// rank in front in kernels that communicate.
LogicalResult Lowering::lowerPrint(core::PrintOp op) {
  Elements ids;
  std::string where = "pid (%d, %d, %d) ", prefix = literal(op.getPrefix());
  if (communicates) {
    where = "rank %d " + where;
    ids.push_back(loadContext(offsetof(tilery_gpu_context, rank), b.getI32Type()));
  }
  for (unsigned axis = 0; axis < 3; ++axis)
    ids.push_back(machine.programId(b, loc, axis));
  if (op.getValues().empty()) {
    emitIf(isFirstThread(), [&] { machine.print(b, loc, where + prefix + "\n", ids); });
    return success();
  }
  for (auto [position, value] : llvm::enumerate(op.getValues())) {
    bool isSigned = position < op.getIsSigned().size() && op.getIsSigned()[position];
    Type language = getElementTypeOrSelf(value.getType());
    Type element = isHalf(language) ? Type(b.getF32Type()) : loweredElement(language);
    ArrayRef<int64_t> shape = core::shapeOf(value.getType());
    bool isTile = !shape.empty();
    LinearLayout layout = isTile ? layoutOf(value) : LinearLayout();
    std::string index;
    for (size_t dim = 0; dim < shape.size(); ++dim)
      index += dim ? ", %d" : "idx (%d";
    std::string format = where + index + (isTile ? ") " : "") + prefix +
                         formatOf(element, isSigned, op.getHex()) + "\n";
    emitIf(isTile ? isFirstCopy(layout) : isFirstThread(), [&] {
      for (auto [r, given] : llvm::enumerate(elements(value))) {
        Elements arguments = ids;
        Value index = isTile ? elementIndex(layout, unsigned(r)) : Value();
        for (unsigned dim = 0; dim < shape.size(); ++dim) {
          Value at = arith::ShRUIOp::create(b, loc, index, i32(axisShift(shape, dim)));
          arguments.push_back(arith::AndIOp::create(b, loc, at, i32(shape[dim] - 1)));
        }
        Value number = isHalf(language) ? toF32(given, language) : toStored(given);
        if (isa<FloatType>(element)) {
          if (!element.isF64())
            number = arith::ExtFOp::create(b, loc, b.getF64Type(), number);
        } else if (number.getType().getIntOrFloatBitWidth() < 64) {
          number = isSigned ? Value(arith::ExtSIOp::create(b, loc, b.getI64Type(), number))
                            : Value(arith::ExtUIOp::create(b, loc, b.getI64Type(), number));
        }
        arguments.push_back(number);
        machine.print(b, loc, format, arguments);
      }
    });
  }
  return success();
}

} // namespace tilery::simt
