// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Registers the simt dialect.
#include "compiler/Target/Simt/IR/Simt.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace tilery::simt;

#include "compiler/Target/Simt/IR/SimtDialect.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "compiler/Target/Simt/IR/SimtTypes.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "compiler/Target/Simt/IR/SimtAttrs.cpp.inc"
#define GET_OP_CLASSES
#include "compiler/Target/Simt/IR/SimtOps.cpp.inc"

void SimtDialect::initialize() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "compiler/Target/Simt/IR/SimtTypes.cpp.inc"
      >();
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

//===-- Buffers -------------------------------------------------------------------------------===//

Type BufferType::parse(AsmParser &parser) {
  SmallVector<int64_t> shape;
  Type element;
  unsigned fastest = 0;
  if (parser.parseLess() || parser.parseDimensionList(shape, /*allowDynamic=*/false) ||
      parser.parseType(element) || parser.parseComma() || parser.parseInteger(fastest) ||
      parser.parseGreater())
    return {};
  return BufferType::get(parser.getContext(), shape, element, fastest);
}

void BufferType::print(AsmPrinter &printer) const {
  printer << "<";
  printer.printDimensionList(getShape());
  printer << "x" << getElement() << ", " << getFastest() << ">";
}

int64_t BufferType::elementBytes() const { return (getElement().getIntOrFloatBitWidth() + 7) / 8; }

int64_t BufferType::panelBytes() const {
  return std::min<int64_t>(128, getShape()[getFastest()] * elementBytes());
}

static int64_t bytesOf(ArrayRef<int64_t> shape, Type element) {
  int64_t bytes = (element.getIntOrFloatBitWidth() + 7) / 8;
  for (int64_t extent : shape)
    bytes *= extent;
  return bytes;
}

int64_t BufferType::bytes() const { return bytesOf(getShape(), getElement()); }

//===-- Slots ---------------------------------------------------------------------------------===//

Type SlotsType::parse(AsmParser &parser) {
  unsigned stages = 0, fastest = 0, shift = 0;
  int32_t mask = 0;
  SmallVector<int64_t> shape;
  Type element;
  if (parser.parseLess() || parser.parseInteger(stages) || parser.parseKeyword("of") ||
      parser.parseDimensionList(shape, /*allowDynamic=*/false) || parser.parseType(element) ||
      parser.parseComma() || parser.parseInteger(fastest) || parser.parseComma() ||
      parser.parseInteger(shift) || parser.parseComma() || parser.parseInteger(mask) ||
      parser.parseGreater())
    return {};
  return SlotsType::get(parser.getContext(), stages, shape, element, fastest, shift, mask);
}

void SlotsType::print(AsmPrinter &printer) const {
  printer << "<" << getStages() << " of ";
  printer.printDimensionList(getShape());
  printer << "x" << getElement() << ", " << getFastest() << ", " << getShift() << ", " << getMask()
          << ">";
}

int64_t SlotsType::elementBytes() const { return (getElement().getIntOrFloatBitWidth() + 7) / 8; }

int64_t SlotsType::bytes() const { return bytesOf(getShape(), getElement()); }
