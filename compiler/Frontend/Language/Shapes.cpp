// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Creation of tiles and changes of shape.
#include "compiler/Frontend/Generator.h"

using namespace mlir;

namespace tilery::frontend {

static constexpr const char *language = "tilery.language";

static Value arange(Generator &gen, Arguments &args) {
  int64_t start = gen.constantInt(args[0], "the start of tl.arange");
  int64_t end = gen.constantInt(args[1], "the end of tl.arange");
  int64_t count = end - start;
  if (count <= 0 || (count & (count - 1)) != 0)
    gen.fail("tl.arange needs a power of two of elements, but from " + std::to_string(start) +
                 " to " + std::to_string(end) + " there are " + std::to_string(count),
             "round the end up and mask the rest");
  if (start < INT32_MIN || end > INT32_MAX || count > (1 << 20))
    gen.fail("tl.arange is limited to 1048576 elements within int32");
  return gen.rangeTile(start, end);
}

static Value full(Generator &gen, Arguments &args) {
  DType type = gen.dtypeOf(args[2], "the dtype of tl.full");
  std::vector<int64_t> shape = gen.shapeArgument(args[0], "the extents of a tile");
  Tile value = args[1].isNumber() ? gen.number(args[1], type) : gen.cast(gen.toTile(args[1]), type);
  if (!value.isScalar())
    gen.fail("tl.full needs a scalar, not " + args[1].describe());
  return gen.splat(value, shape);
}

static Value cast(Generator &gen, Arguments &args) {
  auto *type = args[1].get<TypeValue>();
  ElementType to = type ? type->element
                        : ElementType{ElementType::Kind::Scalar, gen.dtypeOf(args[1], "the dtype")};
  bool bits = gen.constantBool(args[3], "bitcast");
  if (args[0].isNumber() && !bits && to.isScalar())
    return gen.number(args[0], to.dtype);
  Tile tile = gen.toTile(args[0]);
  if (bits || !to.isScalar())
    return gen.bitcast(tile, to);
  return gen.cast(tile, to.dtype);
}

static Value pointerType(Generator &gen, Arguments &args) {
  return TypeValue{{ElementType::Kind::Pointer, gen.dtypeOf(args[0], "what a pointer points to")}};
}

static Value trans(Generator &gen, Arguments &args) {
  Tile tile = gen.toTile(args[0]);
  int64_t rank = int64_t(tile.shape().size());
  std::vector<Value> listed = args[1].tuple()->elements;
  if (listed.size() == 1 && listed[0].tuple())
    listed = listed[0].tuple()->elements;
  SmallVector<int32_t> order;
  for (const Value &axis : listed)
    order.push_back(int32_t(gen.axisArgument(axis, rank, "the dimension")));
  if (order.empty()) { // swap the last two
    for (int64_t i = 0; i < rank; ++i)
      order.push_back(int32_t(i));
    if (rank < 2)
      gen.fail("tl.trans needs a tile of at least two dimensions, not " + tile.typeName());
    std::swap(order[rank - 1], order[rank - 2]);
  }
  SmallVector<int32_t> sorted(order);
  llvm::sort(sorted);
  if (!llvm::equal(sorted, llvm::seq<int32_t>(0, int32_t(rank))))
    gen.fail("the dimensions must name each of the tile's " + std::to_string(rank) + " once");
  SmallVector<int64_t> shape;
  for (int32_t axis : order)
    shape.push_back(tile.shape()[axis]);
  return Tile{gen.builder.createOrFold<core::TransOp>(gen.loc(), gen.typeOf(tile.element, shape),
                                                      tile.value, order),
              tile.element};
}

static int64_t countOf(ArrayRef<int64_t> shape) {
  int64_t count = 1;
  for (int64_t extent : shape)
    count *= extent;
  return count;
}

static Value reshape(Generator &gen, Arguments &args) {
  Tile tile = gen.toTile(args[0]);
  std::vector<int64_t> shape = gen.shapeArgument(args[1], "the extents of a tile");
  if (countOf(shape) != countOf(tile.shape()))
    gen.fail("a tile of " + std::to_string(countOf(tile.shape())) + " elements cannot take a shape of " +
             std::to_string(countOf(shape)));
  return gen.reshape(tile, shape);
}

static Tile join(Generator &gen, Tile a, Tile b) {
  gen.broadcastTogether(a, b);
  if (a.isScalar()) {
    a = gen.splat(a, {1});
    b = gen.splat(b, {1});
    Tile pair = join(gen, a, b);
    return gen.reshape(pair, {2});
  }
  SmallVector<int64_t> shape(a.shape());
  shape.push_back(2);
  return {core::JoinOp::create(gen.builder, gen.loc(), gen.typeOf(a.element, shape), a.value,
                               b.value),
          a.element};
}

static Value joinValues(Generator &gen, Arguments &args) {
  Tile a = gen.toTile(args[0]), b = gen.toTile(args[1]);
  if (a.element != b.element)
    gen.promoteTogether(args[0], args[1], false, "tl.join", a, b);
  return join(gen, a, b);
}

static Value split(Generator &gen, Arguments &args) {
  Tile tile = gen.toTile(args[0]);
  if (tile.isScalar() || tile.shape().back() != 2)
    gen.fail("tl.split needs a last dimension of extent 2, not " + tile.typeName());
  Type half = core::SplitOp::halfType(mlir::cast<RankedTensorType>(tile.value.getType()));
  auto op = core::SplitOp::create(gen.builder, gen.loc(), half, half, tile.value);
  return makeTuple({Tile{op.getLhs(), tile.element}, Tile{op.getRhs(), tile.element}});
}

static Value interleave(Generator &gen, Arguments &args) {
  Tile joined = *joinValues(gen, args).tile();
  SmallVector<int64_t> shape(joined.shape());
  shape.pop_back();
  if (shape.empty())
    return joined;
  shape.back() *= 2;
  return gen.reshape(joined, shape);
}

static Value cat(Generator &gen, Arguments &args) {
  Tile a = gen.toTile(args[0]), b = gen.toTile(args[1]);
  if (a.element != b.element || a.shape() != b.shape() || a.isScalar())
    gen.fail("tl.cat needs two tiles of one type and shape, not " + a.typeName() + " and " +
             b.typeName());
  SmallVector<int64_t> shape(a.shape());
  shape[0] *= 2;
  return Tile{core::CatOp::create(gen.builder, gen.loc(), gen.typeOf(a.element, shape), a.value,
                                  b.value),
              a.element};
}

static Value gather(Generator &gen, Arguments &args) {
  Tile source = gen.toTile(args[0]), index = gen.toTile(args[1]);
  int64_t axis = gen.axisArgument(args[2], int64_t(source.shape().size()), "the axis of tl.gather");
  if (!index.element.isScalar() || !isInt(index.element.dtype))
    gen.fail("the index of tl.gather must be a tile of integers, not " + index.typeName());
  if (index.shape().size() != source.shape().size())
    gen.fail("the index of tl.gather must have the source's number of dimensions");
  for (int64_t dim = 0; dim < int64_t(source.shape().size()); ++dim)
    if (dim != axis && source.shape()[dim] != index.shape()[dim])
      gen.fail("the source and index of tl.gather differ in dimension " + std::to_string(dim));
  Type type = gen.typeOf(source.element, index.shape());
  return Tile{core::GatherOp::create(gen.builder, gen.loc(), type, source.value, index.value,
                                     uint32_t(axis)),
              source.element};
}

// Reversal is a gather with a descending index.
static Value flip(Generator &gen, Arguments &args) {
  Tile tile = gen.toTile(args[0]);
  int64_t rank = int64_t(tile.shape().size());
  int64_t axis = args[1].isNone() ? rank - 1 : gen.axisArgument(args[1], rank, "the dim of tl.flip");
  int64_t extent = tile.shape()[axis];
  Tile index = *gen.binary(BinaryOp::Sub, Int{extent - 1}, gen.rangeTile(0, extent)).tile();
  for (int64_t dim = 0; dim < rank; ++dim)
    if (dim != axis)
      index = gen.expandDims(index, dim);
  index = gen.broadcastTo(index, tile.shape());
  Arguments gathered = {tile, index, Int{axis}};
  return gather(gen, gathered);
}

static Value swizzle2d(Generator &gen, Arguments &args) {
  auto op = [&](BinaryOp kind, Value a, Value b) { return gen.binary(kind, a, b); };
  Value i = args[0], j = args[1], rows = args[2], columns = args[3], group = args[4];
  // Triton's column-major order inside groups of `group` rows.
  Value linear = op(BinaryOp::Add, op(BinaryOp::Mul, i, columns), j);
  Value perGroup = op(BinaryOp::Mul, group, columns);
  Value groupId = op(BinaryOp::FloorDiv, linear, perGroup);
  Value first = op(BinaryOp::Mul, groupId, group);
  Value left = op(BinaryOp::Sub, rows, first);
  Value height = gen.call(BuiltinValue{findBuiltin("builtins", "min")}, {left, group}, {});
  linear = op(BinaryOp::Mod, linear, perGroup);
  return makeTuple({op(BinaryOp::Add, first, op(BinaryOp::Mod, linear, height)),
                    op(BinaryOp::FloorDiv, linear, height)});
}

void addShapeBuiltins(BuiltinTable &table) {
  table.add(language, "arange", "start, end", arange);
  table.add(language, "full", "shape, value, dtype", full);
  table.add(language, "zeros", "shape, dtype", [](Generator &gen, Arguments &args) {
    Arguments filled = {args[0], Int{0}, args[1]};
    return full(gen, filled);
  });
  table.add(language, "zeros_like", "input", [](Generator &gen, Arguments &args) -> Value {
    Tile tile = gen.toTile(args[0]);
    return gen.splat(gen.number(Int{0}, tile.element.dtype), tile.shape());
  });
  table.add(language, "pointer_type", "element_ty", pointerType);
  table.add(language, "cast", "input, dtype, fp_downcast_rounding=None, bitcast=False", cast, true);
  table.add(language, "broadcast", "input, other", [](Generator &gen, Arguments &args) {
    Tile a = gen.toTile(args[0]), b = gen.toTile(args[1]);
    gen.broadcastTogether(a, b);
    return makeTuple({a, b});
  });
  table.add(language, "broadcast_to", "input, *shape", [](Generator &gen, Arguments &args) -> Value {
    return gen.broadcastTo(gen.toTile(args[0]), gen.shapeArgument(args[1], "the extents of a tile"));
  }, true);
  table.add(language, "expand_dims", "input, axis", [](Generator &gen, Arguments &args) -> Value {
    Tile tile = gen.toTile(args[0]);
    std::vector<Value> axes = args[1].tuple() ? args[1].tuple()->elements : std::vector<Value>{args[1]};
    for (const Value &axis : axes)
      tile = gen.expandDims(tile, gen.axisArgument(axis, int64_t(tile.shape().size()) + 1, "the axis"));
    return tile;
  }, true);
  table.add(language, "reshape", "input, *shape, can_reorder=False", reshape, true);
  table.add(language, "view", "input, *shape", reshape, true);
  table.add(language, "ravel", "x, can_reorder=False", [](Generator &gen, Arguments &args) -> Value {
    Tile tile = gen.toTile(args[0]);
    return gen.reshape(tile, {countOf(tile.shape())});
  }, true);
  table.add(language, "trans", "input, *dims", trans, true);
  table.add(language, "permute", "input, *dims", trans, true);
  table.add(language, "join", "a, b", joinValues);
  table.add(language, "split", "a", split, true);
  table.add(language, "interleave", "a, b", interleave);
  table.add(language, "cat", "input, other, can_reorder=False, dim=0", cat);
  table.add(language, "gather", "src, index, axis", gather, true);
  table.add(language, "flip", "x, dim=None", flip, true);
  table.add(language, "swizzle2d", "i, j, size_i, size_j, size_g", swizzle2d);
  table.add(language, "where", "condition, x, y", [](Generator &gen, Arguments &args) {
    return gen.select(gen.truth(args[0]), args[1], args[2]);
  });
}

} // namespace tilery::frontend
