// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Verifiers (plain sentences, in the user's words) and folds of the core operations.
#include "compiler/Dialect/Core/IR/Core.h"

#include "mlir/IR/Matchers.h"
#include "mlir/IR/PatternMatch.h"

using namespace mlir;
using namespace tilery::core;

#define GET_OP_CLASSES
#include "compiler/Dialect/Core/IR/CoreOps.cpp.inc"

static RankedTensorType tileType(Value value) { return cast<RankedTensorType>(value.getType()); }

static bool sameShape(Type a, Type b) { return shapeOf(a) == shapeOf(b); }

// Equal but for encodings.
static bool sameTile(Type a, Type b) {
  return sameShape(a, b) && getElementTypeOrSelf(a) == getElementTypeOrSelf(b);
}

// A grid has at most 2^31 - 1 instances along an axis, and one that runs has at least one.
static ConstantIntRanges gridRange(int64_t least) {
  return ConstantIntRanges::fromSigned(APInt(32, uint64_t(least)), APInt::getSignedMaxValue(32));
}

void ProgramIdOp::inferResultRanges(ArrayRef<ConstantIntRanges>, SetIntRangeFn set) {
  set(getResult(), gridRange(0));
}

void NumProgramsOp::inferResultRanges(ArrayRef<ConstantIntRanges>, SetIntRangeFn set) {
  set(getResult(), gridRange(1));
}

LogicalResult AssertOp::canonicalize(AssertOp op, PatternRewriter &rewriter) {
  if (!matchPattern(op.getCondition(), m_One()))
    return failure();
  rewriter.eraseOp(op);
  return success();
}

LogicalResult CheckBoundsOp::canonicalize(CheckBoundsOp op, PatternRewriter &rewriter) {
  if (!matchPattern(op.getInside(), m_One()))
    return failure();
  rewriter.eraseOp(op);
  return success();
}

LogicalResult CheckBoundsOp::verify() {
  Type inside = getInside().getType(), index = getIndex().getType();
  if (!getElementTypeOrSelf(inside).isInteger(1) || !getElementTypeOrSelf(index).isInteger(64) ||
      !sameShape(inside, index))
    return emitOpError("takes a condition and 64-bit indices of one shape, not ")
           << inside << " and " << index;
  return success();
}

LogicalResult RangeOp::verify() {
  auto type = cast<RankedTensorType>(getResult().getType());
  if (!type.getElementType().isInteger(32) || type.getRank() != 1)
    return emitOpError("gives a one-dimensional tile of i32, not ") << type;
  int64_t start = int32_t(getStart()), end = int32_t(getEnd());
  if (type.getNumElements() != end - start)
    return emitOpError("from ") << start << " to " << end << " does not have "
                                << type.getNumElements() << " elements";
  return success();
}

LogicalResult SplatOp::verify() {
  if (getSource().getType() != tileType(getResult()).getElementType())
    return emitOpError("of ") << getSource().getType() << " cannot give a tile of "
                              << tileType(getResult()).getElementType();
  return success();
}

static OpFoldResult foldToSplat(Attribute source, Type result) {
  auto shaped = cast<ShapedType>(result);
  if (auto splat = dyn_cast_or_null<SplatElementsAttr>(source))
    return SplatElementsAttr::get(shaped, splat.getSplatValue<Attribute>());
  if (isa_and_nonnull<IntegerAttr, FloatAttr>(source))
    return SplatElementsAttr::get(shaped, source);
  return {};
}

OpFoldResult SplatOp::fold(FoldAdaptor adaptor) {
  return foldToSplat(adaptor.getSource(), getType());
}

LogicalResult BroadcastOp::verify() {
  auto from = tileType(getSource()), to = tileType(getResult());
  if (from.getElementType() != to.getElementType() || from.getRank() != to.getRank())
    return emitOpError("keeps element type and number of dimensions, but goes from ")
           << from << " to " << to;
  for (auto [index, pair] : llvm::enumerate(llvm::zip(from.getShape(), to.getShape()))) {
    auto [source, result] = pair;
    if (source != result && source != 1)
      return emitOpError("can repeat only extents of 1, but dimension ")
             << index << " goes from " << source << " to " << result;
  }
  return success();
}

OpFoldResult BroadcastOp::fold(FoldAdaptor adaptor) {
  if (getSource().getType() == getType())
    return getSource();
  return foldToSplat(adaptor.getSource(), getType());
}

LogicalResult ExpandDimsOp::verify() {
  SmallVector<int64_t> shape(tileType(getSource()).getShape());
  if (int64_t(getAxis()) > int64_t(shape.size()))
    return emitOpError("axis ") << getAxis() << " is outside a tile of " << shape.size()
                                << " dimensions";
  shape.insert(shape.begin() + getAxis(), 1);
  if (shape != tileType(getResult()).getShape())
    return emitOpError("result must be the source with an extent of 1 at axis ") << getAxis();
  return success();
}

OpFoldResult ExpandDimsOp::fold(FoldAdaptor adaptor) {
  return foldToSplat(adaptor.getSource(), getType());
}

LogicalResult ReshapeOp::verify() {
  auto from = tileType(getSource()), to = tileType(getResult());
  if (from.getNumElements() != to.getNumElements() ||
      from.getElementType() != to.getElementType())
    return emitOpError("keeps elements: ") << from << " cannot become " << to;
  return success();
}

OpFoldResult ReshapeOp::fold(FoldAdaptor adaptor) {
  if (getSource().getType() == getType())
    return getSource();
  return foldToSplat(adaptor.getSource(), getType());
}

LogicalResult TransOp::verify() {
  auto from = tileType(getSource()), to = tileType(getResult());
  SmallVector<bool> seen(from.getRank(), false);
  if (int64_t(getOrder().size()) != from.getRank())
    return emitOpError("order must name each of the ") << from.getRank() << " dimensions once";
  SmallVector<int64_t> shape;
  for (int32_t dim : getOrder()) {
    if (dim < 0 || dim >= from.getRank() || seen[dim])
      return emitOpError("order must name each of the ") << from.getRank() << " dimensions once";
    seen[dim] = true;
    shape.push_back(from.getDimSize(dim));
  }
  if (to.getShape() != ArrayRef<int64_t>(shape))
    return emitOpError("result shape does not follow the order");
  return success();
}

OpFoldResult TransOp::fold(FoldAdaptor adaptor) {
  if (llvm::equal(getOrder(), llvm::seq<int32_t>(0, getOrder().size())))
    return getSource();
  return foldToSplat(adaptor.getSource(), getType());
}

LogicalResult JoinOp::verify() {
  SmallVector<int64_t> shape(tileType(getLhs()).getShape());
  shape.push_back(2);
  if (tileType(getResult()).getShape() != ArrayRef<int64_t>(shape))
    return emitOpError("result must have a new last dimension of extent 2");
  return success();
}

Type SplitOp::halfType(RankedTensorType whole) {
  return tileOf(whole.getElementType(), whole.getShape().drop_back());
}

LogicalResult SplitOp::verify() {
  auto type = tileType(getSource());
  if (type.getShape().back() != 2)
    return emitOpError("needs a last dimension of extent 2, not ") << type.getShape().back();
  if (!sameTile(getLhs().getType(), halfType(type)))
    return emitOpError("results must be the source without its last dimension");
  return success();
}

LogicalResult CatOp::verify() {
  SmallVector<int64_t> shape(tileType(getLhs()).getShape());
  shape[0] *= 2;
  if (tileType(getResult()).getShape() != ArrayRef<int64_t>(shape))
    return emitOpError("result must have twice the extent along dimension 0");
  return success();
}

LogicalResult GatherOp::verify() {
  auto source = tileType(getSource()), index = tileType(getIndex()), to = tileType(getResult());
  if (int64_t(getAxis()) >= source.getRank() || index.getRank() != source.getRank())
    return emitOpError("needs an axis of the source and an index of equal rank");
  if (to.getShape() != index.getShape() || to.getElementType() != source.getElementType())
    return emitOpError("result has the index's shape and the source's element type");
  for (int64_t dim = 0; dim < source.getRank(); ++dim)
    if (dim != getAxis() && source.getDimSize(dim) != index.getDimSize(dim))
      return emitOpError("source and index differ in dimension ") << dim;
  return success();
}

LogicalResult AddPtrOp::verify() {
  Type offset = getElementTypeOrSelf(getOffset().getType());
  if (!offset.isInteger())
    return emitOpError("offset must be an integer, not ") << offset;
  if (!sameShape(getPointer().getType(), getOffset().getType()))
    return emitOpError("pointer and offset must have one shape, not ")
           << getPointer().getType() << " and " << getOffset().getType();
  return success();
}

OpFoldResult AddPtrOp::fold(FoldAdaptor adaptor) {
  return matchPattern(adaptor.getOffset(), m_Zero()) ? OpFoldResult(getPointer())
                                                     : OpFoldResult();
}

LogicalResult PtrCastOp::verify() {
  auto from = cast<PointerType>(getElementTypeOrSelf(getSource().getType()));
  auto to = cast<PointerType>(getElementTypeOrSelf(getResult().getType()));
  if (from.getRemote() != to.getRemote() || !sameShape(getSource().getType(), getType()))
    return emitOpError("changes only the element type");
  return success();
}

// Memory access: the pointer, the value and the mask have one shape.
static LogicalResult verifyAccess(Operation *op, Type pointer, Type value, Value mask) {
  Type pointee = cast<PointerType>(getElementTypeOrSelf(pointer)).getPointee();
  if (value != withElement(pointer, pointee))
    return op->emitOpError("through ") << pointer << " moves "
                                       << withElement(pointer, pointee) << ", not " << value;
  if (mask && mask.getType() != withElement(pointer, IntegerType::get(op->getContext(), 1)))
    return op->emitOpError("mask must be a tile of i1 of the pointer's shape, not ")
           << mask.getType();
  return success();
}

LogicalResult LoadOp::verify() {
  if (getOther() && getOther().getType() != getType())
    return emitOpError("`other` must have the result's type ") << getType();
  if (getOther() && !getMask())
    return emitOpError("`other` needs a mask");
  return verifyAccess(*this, getPointer().getType(), getType(), getMask());
}

LogicalResult StoreOp::verify() {
  return verifyAccess(*this, getPointer().getType(), getValue().getType(), getMask());
}

void LoadOp::getEffects(SmallVectorImpl<MemoryEffects::EffectInstance> &effects) {
  effects.emplace_back(MemoryEffects::Read::get());
  if (getIsVolatile()) // volatile loads poll: they must not be merged or dropped
    effects.emplace_back(MemoryEffects::Write::get());
}

void StoreOp::getEffects(SmallVectorImpl<MemoryEffects::EffectInstance> &effects) {
  effects.emplace_back(MemoryEffects::Write::get());
}

LogicalResult AtomicRMWOp::verify() {
  if (getValue().getType() != getType())
    return emitOpError("result must have the value's type");
  return verifyAccess(*this, getPointer().getType(), getType(), getMask());
}

LogicalResult DotOp::verify() {
  auto a = tileType(getLhs()), b = tileType(getRhs()), c = tileType(getAccumulator());
  int64_t rank = a.getRank();
  if (rank < 2 || rank > 3 || b.getRank() != rank || c.getRank() != rank)
    return emitOpError("needs three tiles of 2 or 3 dimensions");
  if (a.getElementType() != b.getElementType())
    return emitOpError("operands must have one element type, not ")
           << a.getElementType() << " and " << b.getElementType();
  auto shape = [&](RankedTensorType type, int64_t back) { return type.getDimSize(rank - back); };
  if (shape(a, 1) != shape(b, 2))
    return emitOpError("inner extents differ: ") << shape(a, 1) << " and " << shape(b, 2);
  if (shape(a, 2) != shape(c, 2) || shape(b, 1) != shape(c, 1))
    return emitOpError("accumulator must be ") << shape(a, 2) << "x" << shape(b, 1);
  if (rank == 3 && (a.getDimSize(0) != b.getDimSize(0) || a.getDimSize(0) != c.getDimSize(0)))
    return emitOpError("batch extents differ");
  return success();
}

// The combine region maps 2n scalars to n, one pair a source.
static LogicalResult verifyCombine(Operation *op, ValueRange sources, Region &region) {
  SmallVector<Type> elements;
  for (Value source : sources) {
    if (source.getType() != withElement(sources[0].getType(),
                                        getElementTypeOrSelf(source.getType())))
      return op->emitOpError("sources must have one shape");
    elements.push_back(getElementTypeOrSelf(source.getType()));
  }
  SmallVector<Type> arguments(elements);
  arguments.append(elements);
  if (region.front().getArgumentTypes() != TypeRange(arguments))
    return op->emitOpError("combine takes two elements of each source");
  auto yield = dyn_cast<YieldOp>(region.front().getTerminator());
  if (!yield || yield.getValues().getTypes() != TypeRange(elements))
    return op->emitOpError("combine yields one element of each source");
  return success();
}

LogicalResult ReduceOp::verify() {
  if (getSources().empty() || getResults().size() != getSources().size())
    return emitOpError("gives one result for each source");
  auto source = tileType(getSources()[0]);
  if (int64_t(getAxis()) >= source.getRank())
    return emitOpError("axis ") << getAxis() << " is outside a tile of " << source.getRank()
                                << " dimensions";
  SmallVector<int64_t> shape(source.getShape());
  shape.erase(shape.begin() + getAxis());
  for (auto [from, to] : llvm::zip(getSources(), getResults()))
    if (!sameTile(to.getType(), tileOf(tileType(from).getElementType(), shape)))
      return emitOpError("result must be the source without axis ") << getAxis();
  return verifyCombine(*this, getSources(), getCombine());
}

LogicalResult ScanOp::verify() {
  if (getSources().empty() || getResults().size() != getSources().size())
    return emitOpError("gives one result for each source");
  if (int64_t(getAxis()) >= tileType(getSources()[0]).getRank())
    return emitOpError("axis ") << getAxis() << " is outside the tile";
  for (auto [from, to] : llvm::zip(getSources(), getResults()))
    if (to.getType() != from.getType())
      return emitOpError("result must have the source's type");
  return verifyCombine(*this, getSources(), getCombine());
}
