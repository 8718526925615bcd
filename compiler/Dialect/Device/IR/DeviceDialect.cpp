// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Registers the device dialect; verifiers of its operations.
#include "compiler/Dialect/Device/IR/Device.h"

#include "mlir/IR/DialectImplementation.h"
#include "mlir/Transforms/InliningUtils.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace tilery::device;
using tilery::core::PointerType;

#include "compiler/Dialect/Device/IR/DeviceDialect.cpp.inc"
#include "compiler/Dialect/Device/IR/DeviceEnums.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "compiler/Dialect/Device/IR/DeviceTypes.cpp.inc"
#define GET_OP_CLASSES
#include "compiler/Dialect/Device/IR/DeviceOps.cpp.inc"

namespace {
struct DeviceInliner : DialectInlinerInterface {
  using DialectInlinerInterface::DialectInlinerInterface;
  bool isLegalToInline(Operation *, Operation *, bool) const final { return true; }
  bool isLegalToInline(Region *, Region *, bool, IRMapping &) const final { return true; }
  bool isLegalToInline(Operation *, Region *, bool, IRMapping &) const final { return true; }
};
} // namespace

void DeviceDialect::initialize() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "compiler/Dialect/Device/IR/DeviceTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "compiler/Dialect/Device/IR/DeviceOps.cpp.inc"
      >();
  addInterfaces<DeviceInliner>();
}

LogicalResult LocalOp::verify() {
  auto to = cast<PointerType>(getElementTypeOrSelf(getType()));
  auto from = dyn_cast<SymmType>(getElementTypeOrSelf(getSource().getType()));
  if (!from)
    return emitOpError("takes a symmetric pointer, not ") << getSource().getType();
  if (to.getRemote() || to.getPointee() != from.getPointee() ||
      core::shapeOf(getSource().getType()) != core::shapeOf(getType()))
    return emitOpError("gives this rank's pointer to ") << from.getPointee();
  return success();
}

LogicalResult SymmAtOp::verify() {
  auto to = cast<PointerType>(getType());
  if (!to.getRemote())
    return emitOpError("gives a remote pointer, which cannot be translated again");
  if (to.getPointee() != getSource().getType().getPointee())
    return emitOpError("keeps the element type ") << getSource().getType().getPointee();
  return success();
}

// A transfer moves elements of one type between local and symmetric memory.
static LogicalResult verifyTransfer(Operation *op, SymmType symmetric, PointerType local) {
  if (local.getRemote())
    return op->emitOpError("needs local memory on this rank's side, not a remote pointer");
  if (symmetric.getPointee() != local.getPointee())
    return op->emitOpError("moves elements of one type, not ")
           << symmetric.getPointee() << " and " << local.getPointee();
  return success();
}

LogicalResult PutOp::verify() {
  if (bool(getSignal()) != bool(getValue()))
    return emitOpError("needs a signal and its value together");
  return verifyTransfer(*this, getDestination().getType(), getSource().getType());
}

LogicalResult GetOp::verify() {
  return verifyTransfer(*this, getSource().getType(), getDestination().getType());
}
