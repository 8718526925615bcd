// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Numbers to tiles, casts, broadcasts, and what arguments must be.
#include "compiler/Frontend/Generator.h"

#include <limits>

using namespace mlir;

namespace tilery::frontend {

Type Generator::typeOf(ElementType element, ArrayRef<int64_t> shape) {
  MLIRContext *context = builder.getContext();
  Type scalar = mlirType(element.dtype, context);
  switch (element.kind) {
  case ElementType::Kind::Scalar: break;
  case ElementType::Kind::Pointer: scalar = core::PointerType::get(scalar); break;
  case ElementType::Kind::Remote: scalar = core::PointerType::get(scalar, true); break;
  case ElementType::Kind::Symmetric: scalar = device::SymmType::get(scalar); break;
  case ElementType::Kind::Signal: scalar = device::SignalType::get(context); break;
  }
  return core::tileOf(scalar, shape);
}

// Triton's types of Python numbers: the first of int32, uint32, int64, uint64 that fits; fp32
// unless only fp64 holds the value.
static DType defaultType(Generator &gen, const Value &value) {
  if (value.get<bool>())
    return DType::Int1;
  if (auto *real = value.get<double>()) {
    double magnitude = std::abs(*real);
    bool fits = !(magnitude > std::numeric_limits<float>::max()) || std::isinf(*real);
    return fits && !(magnitude != 0 && magnitude < std::numeric_limits<float>::min()) ? DType::FP32
                                                                                      : DType::FP64;
  }
  __int128 integer = value.get<Int>()->value;
  auto within = [&](int low, int high) {
    __int128 min = low ? -(__int128(1) << low) : 0;
    return integer >= min && integer < (__int128(1) << high);
  };
  if (within(31, 31))
    return DType::Int32;
  if (within(0, 32))
    return DType::UInt32;
  if (within(63, 63))
    return DType::Int64;
  if (within(0, 64))
    return DType::UInt64;
  gen.fail("the integer " + toString(integer) + " does not fit 64 bits");
}

Tile Generator::toTile(const Value &value) {
  if (const Tile *tile = value.tile())
    return *tile;
  if (value.isNumber())
    return number(value, defaultType(*this, value));
  fail("expected a number or a tile, not " + value.describe());
}

Tile Generator::number(const Value &value, DType type) {
  Type scalar = mlirType(type, builder.getContext());
  TypedAttr attribute;
  if (isFloat(type)) {
    double real = value.get<double>() ? *value.get<double>() : double(*value.asInt());
    attribute = builder.getFloatAttr(scalar, real);
  } else {
    __int128 integer = value.get<double>() ? __int128(*value.get<double>()) : *value.asInt();
    if (type == DType::Int1)
      integer = integer != 0;
    // Integer conversion wraps.
    APInt bits(128, {uint64_t(integer), uint64_t(integer >> 64)});
    attribute = IntegerAttr::get(scalar, bits.trunc(bitWidth(type)));
  }
  return {arith::ConstantOp::create(builder, loc(), attribute), {ElementType::Kind::Scalar, type}};
}

Tile Generator::integer(int64_t value, DType type) { return number(Int{value}, type); }

Tile Generator::splat(Tile scalar, ArrayRef<int64_t> shape) {
  if (shape.empty())
    return scalar;
  return {builder.createOrFold<core::SplatOp>(loc(), typeOf(scalar.element, shape), scalar.value),
          scalar.element};
}

Tile Generator::rangeTile(int64_t start, int64_t end) {
  Type type = typeOf({}, {end - start});
  return {core::RangeOp::create(builder, loc(), type, int32_t(start), int32_t(end)), {}};
}

Tile Generator::expandDims(Tile tile, int64_t axis) {
  SmallVector<int64_t> shape(tile.shape());
  shape.insert(shape.begin() + axis, 1);
  if (tile.isScalar())
    return splat(tile, shape);
  return {builder.createOrFold<core::ExpandDimsOp>(loc(), typeOf(tile.element, shape), tile.value,
                                                   uint32_t(axis)),
          tile.element};
}

Tile Generator::reshape(Tile tile, ArrayRef<int64_t> shape) {
  if (tile.isScalar())
    return splat(tile, shape);
  return {builder.createOrFold<core::ReshapeOp>(loc(), typeOf(tile.element, shape), tile.value),
          tile.element};
}

static std::string shapeText(ArrayRef<int64_t> shape) {
  std::string out = "[";
  for (int64_t extent : shape)
    out += (out.size() > 1 ? ", " : "") + std::to_string(extent);
  return out + "]";
}

Tile Generator::broadcastTo(Tile tile, ArrayRef<int64_t> shape) {
  if (tile.shape() == shape)
    return tile;
  if (tile.isScalar())
    return splat(tile, shape);
  std::string text = shapeText(tile.shape());
  if (tile.shape().size() > shape.size())
    fail("a tile of shape " + text + " cannot become " + shapeText(shape));
  while (tile.shape().size() < shape.size())
    tile = expandDims(tile, 0);
  for (auto [from, to] : llvm::zip(tile.shape(), shape))
    if (from != to && from != 1)
      fail("a tile of shape " + text + " cannot become " + shapeText(shape),
           "only extents of 1 repeat");
  return {builder.createOrFold<core::BroadcastOp>(loc(), typeOf(tile.element, shape), tile.value),
          tile.element};
}

void Generator::broadcastTogether(Tile &a, Tile &b) {
  std::string shapes = shapeText(a.shape()) + " and " + shapeText(b.shape());
  SmallVector<int64_t> x(a.shape()), y(b.shape());
  while (x.size() < y.size())
    x.insert(x.begin(), 1);
  while (y.size() < x.size())
    y.insert(y.begin(), 1);
  for (auto [left, right] : llvm::zip(x, y)) {
    if (left != right && left != 1 && right != 1)
      fail("tiles of shapes " + shapes + " do not go together",
           "extents must be equal or 1; add dimensions with x[:, None]");
    left = std::max(left, right);
  }
  a = broadcastTo(a, x);
  b = broadcastTo(b, x);
}

Tile Generator::truth(const Value &value) {
  Tile tile = toTile(value);
  if (!tile.element.isScalar())
    fail("a " + tile.typeName() + " is neither true nor false", "compare it with another");
  return cast(tile, DType::Int1);
}

// ---- casts ----------------------------------------------------------------------------------

static Value zeroLike(Generator &gen, Tile tile) {
  Tile zero = gen.number(Int{0}, tile.element.dtype);
  return gen.splat(zero, tile.shape());
}

static mlir::Value castFloats(OpBuilder &builder, Location loc, mlir::Value value, Type to) {
  Type from = getElementTypeOrSelf(value.getType()), target = getElementTypeOrSelf(to);
  unsigned a = from.getIntOrFloatBitWidth(), b = target.getIntOrFloatBitWidth();
  if (a < b)
    return arith::ExtFOp::create(builder, loc, to, value);
  if (a > b)
    return arith::TruncFOp::create(builder, loc, to, value);
  // fp16 and bf16 (or the two fp8) convert through fp32, which holds both.
  Type wide = core::withElement(to, builder.getF32Type());
  mlir::Value middle = arith::ExtFOp::create(builder, loc, wide, value);
  return arith::TruncFOp::create(builder, loc, to, middle);
}

static mlir::Value castInts(OpBuilder &builder, Location loc, mlir::Value value, DType from,
                            DType to, Type type) {
  if (bitWidth(from) == bitWidth(to))
    return value;
  if (bitWidth(from) > bitWidth(to))
    return arith::TruncIOp::create(builder, loc, type, value);
  if (isUnsignedInt(from))
    return arith::ExtUIOp::create(builder, loc, type, value);
  return arith::ExtSIOp::create(builder, loc, type, value);
}

Tile Generator::cast(Tile tile, DType to) {
  if (!tile.element.isScalar()) {
    if (to != DType::Int64 && to != DType::UInt64)
      fail("a " + tile.typeName() + " can only become int64 or another pointer");
    Type type = core::withElement(tile.value.getType(), builder.getI64Type());
    return {core::PtrToIntOp::create(builder, loc(), type, tile.value),
            {ElementType::Kind::Scalar, to}};
  }
  DType from = tile.element.dtype;
  if (from == to)
    return tile;
  ElementType element{ElementType::Kind::Scalar, to};
  Type type = typeOf(element, tile.shape());
  Location here = loc();
  if (to == DType::Int1)
    return comparison(CompareOp::NE, tile, *zeroLike(*this, tile).tile());
  if (isFloat(from) && isFloat(to))
    return {castFloats(builder, here, tile.value, type), element};
  if (isInt(from) && isInt(to))
    return {castInts(builder, here, tile.value, from, to, type), element};
  if (isInt(from)) {
    if (isUnsignedInt(from))
      return {arith::UIToFPOp::create(builder, here, type, tile.value), element};
    return {arith::SIToFPOp::create(builder, here, type, tile.value), element};
  }
  if (isUnsignedInt(to))
    return {arith::FPToUIOp::create(builder, here, type, tile.value), element};
  return {arith::FPToSIOp::create(builder, here, type, tile.value), element};
}

Tile Generator::bitcast(Tile tile, ElementType to) {
  if (tile.element == to)
    return tile;
  Type type = typeOf(to, tile.shape());
  if (tile.element.isPointer() && to.isPointer()) {
    to.kind = tile.element.kind;
    if (to.kind == ElementType::Kind::Symmetric)
      fail("a symmetric pointer keeps its element type",
           "allocate the object with the type that the kernel uses");
    return {core::PtrCastOp::create(builder, loc(), typeOf(to, tile.shape()), tile.value), to};
  }
  if (to.isPointer() && tile.element.isScalar())
    return {core::IntToPtrOp::create(builder, loc(), type, cast(tile, DType::Int64).value), to};
  if (!tile.element.isScalar() || bitWidth(tile.element.dtype) != bitWidth(to.dtype))
    fail("cannot reinterpret the bits of " + tile.element.str() + " as " + to.str(),
         "both must have the same width");
  if (isInt(tile.element.dtype) && isInt(to.dtype))
    return {tile.value, to};
  return {arith::BitcastOp::create(builder, loc(), type, tile.value), to};
}

// ---- requirements ------------------------------------------------------------------------------

int64_t Generator::constantInt(const Value &value, const std::string &what) {
  std::optional<__int128> integer = value.asInt();
  if (!integer)
    fail(what + " must be a constant integer, not " + value.describe(),
         value.tile() ? "make it a tl.constexpr parameter" : "");
  if (*integer < std::numeric_limits<int64_t>::min() ||
      *integer > std::numeric_limits<int64_t>::max())
    fail(what + " is too large: " + toString(*integer));
  return int64_t(*integer);
}

bool Generator::constantBool(const Value &value, const std::string &what) {
  if (auto integer = value.asInt())
    return *integer != 0;
  if (value.isNone())
    return false;
  fail(what + " must be True or False, not " + value.describe());
}

std::string Generator::constantString(const Value &value, const std::string &what) {
  if (auto *string = value.get<std::string>())
    return *string;
  fail(what + " must be a string, not " + value.describe());
}

DType Generator::dtypeOf(const Value &value, const std::string &what) {
  if (auto *type = value.get<TypeValue>(); type && type->element.isScalar())
    return type->element.dtype;
  if (auto *string = value.get<std::string>())
    if (auto named = dtypeNamed(*string))
      return *named;
  fail(what + " must be a type such as tl.float32, not " + value.describe());
}

std::vector<Value> Generator::sequence(const Value &value, const std::string &what) {
  if (const Tuple *tuple = value.tuple())
    return tuple->elements;
  fail(what + " must be a tuple or list, not " + value.describe());
}

std::vector<int64_t> Generator::shapeArgument(const Value &value, const std::string &what) {
  std::vector<Value> elements = value.tuple() ? value.tuple()->elements : std::vector<Value>{value};
  // f(x, (2, 4)) and f(x, 2, 4) mean the same.
  if (elements.size() == 1 && elements[0].tuple())
    elements = elements[0].tuple()->elements;
  std::vector<int64_t> shape;
  int64_t count = 1;
  for (const Value &element : elements) {
    int64_t extent = constantInt(element, what);
    if (extent <= 0 || (extent & (extent - 1)) != 0)
      fail(what + " must be powers of two, not " + std::to_string(extent),
           "round up to the next power of two and mask the rest");
    count *= extent;
    if (count > (int64_t(1) << 20))
      fail(what + " gives a tile of more than 1048576 elements",
           "use smaller tiles and a loop or a larger grid");
    shape.push_back(extent);
  }
  return shape;
}

int64_t Generator::axisArgument(const Value &value, int64_t rank, const std::string &what) {
  int64_t axis = constantInt(value, what);
  if (axis < -rank || axis >= rank)
    fail(what + " " + std::to_string(axis) + " is outside a tile of " + std::to_string(rank) +
         (rank == 1 ? " dimension" : " dimensions"));
  return axis < 0 ? axis + rank : axis;
}

Tile Generator::scalarInt(const Value &value, const std::string &what) {
  Tile tile = toTile(value);
  if (!tile.element.isScalar() || !isInt(tile.element.dtype) || !tile.isScalar())
    fail(what + " must be an integer, not " + value.describe());
  return tile;
}

} // namespace tilery::frontend
