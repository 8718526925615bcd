// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Registers the simt dialect.
#include "compiler/Target/Simt/IR/Simt.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace tilery::simt;

#include "compiler/Target/Simt/IR/SimtDialect.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "compiler/Target/Simt/IR/SimtAttrs.cpp.inc"
#define GET_OP_CLASSES
#include "compiler/Target/Simt/IR/SimtOps.cpp.inc"

void SimtDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "compiler/Target/Simt/IR/SimtAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "compiler/Target/Simt/IR/SimtOps.cpp.inc"
      >();
}

LogicalResult ConvertLayoutOp::verify() {
  auto from = cast<RankedTensorType>(getSource().getType());
  auto to = cast<RankedTensorType>(getResult().getType());
  if (from.getShape() != to.getShape() || from.getElementType() != to.getElementType())
    return emitOpError("changes the layout only, but goes from ") << from << " to " << to;
  if (!isa_and_nonnull<LayoutAttr>(from.getEncoding()) ||
      !isa_and_nonnull<LayoutAttr>(to.getEncoding()))
    return emitOpError("needs a layout on both sides");
  return success();
}
