// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Registers the core dialect; its types and type questions.
#include "compiler/Dialect/Core/IR/Core.h"

#include "mlir/IR/DialectImplementation.h"
#include "mlir/Transforms/InliningUtils.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace tilery::core;

#include "compiler/Dialect/Core/IR/CoreDialect.cpp.inc"
#include "compiler/Dialect/Core/IR/CoreEnums.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "compiler/Dialect/Core/IR/CoreTypes.cpp.inc"

namespace {
// Every core op may be inlined anywhere: ops carry no context of their own.
struct CoreInliner : DialectInlinerInterface {
  using DialectInlinerInterface::DialectInlinerInterface;
  bool isLegalToInline(Operation *, Operation *, bool) const final { return true; }
  bool isLegalToInline(Region *, Region *, bool, IRMapping &) const final { return true; }
  bool isLegalToInline(Operation *, Region *, bool, IRMapping &) const final { return true; }
};
} // namespace

void CoreDialect::initialize() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "compiler/Dialect/Core/IR/CoreTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "compiler/Dialect/Core/IR/CoreOps.cpp.inc"
      >();
  addInterfaces<CoreInliner>();
}

Operation *CoreDialect::materializeConstant(OpBuilder &builder, Attribute value, Type type,
                                            Location loc) {
  return arith::ConstantOp::materialize(builder, value, type, loc);
}

Type PointerType::parse(AsmParser &parser) {
  Type pointee;
  bool remote = false;
  if (parser.parseLess() || parser.parseType(pointee))
    return {};
  if (succeeded(parser.parseOptionalComma())) {
    if (parser.parseKeyword("remote"))
      return {};
    remote = true;
  }
  if (parser.parseGreater())
    return {};
  return PointerType::get(pointee, remote);
}

void PointerType::print(AsmPrinter &printer) const {
  printer << "<" << getPointee() << (getRemote() ? ", remote>" : ">");
}

bool tilery::core::isPointerLike(Type type) {
  // The device level's symmetric pointers and signals are pointer-like too; core knows them
  // only by their mnemonic, since a lower level does not include a higher one.
  if (isa<PointerType>(type))
    return true;
  return type.getDialect().getNamespace() == "device";
}

bool tilery::core::isTileElement(Type type) {
  return isa<IntegerType, FloatType>(type) || isPointerLike(type);
}

bool tilery::core::isTile(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor || !tensor.hasStaticShape() || tensor.getRank() == 0)
    return false;
  return isTileElement(tensor.getElementType()) &&
         llvm::all_of(tensor.getShape(), [](int64_t extent) { return llvm::isPowerOf2_64(extent); });
}

Type tilery::core::tileOf(Type element, ArrayRef<int64_t> shape) {
  return shape.empty() ? element : RankedTensorType::get(shape, element);
}

ArrayRef<int64_t> tilery::core::shapeOf(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor ? tensor.getShape() : ArrayRef<int64_t>();
}

Type tilery::core::withElement(Type tileOrScalar, Type element) {
  // An encoding (Target/Simt) stays.
  if (auto tensor = dyn_cast<RankedTensorType>(tileOrScalar))
    return tensor.clone(element);
  return element;
}
