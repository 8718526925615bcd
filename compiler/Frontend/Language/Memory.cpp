// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// load, store, block pointers and tensor descriptors.
#include "compiler/Frontend/Language/Memory.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace tilery::frontend {

static constexpr const char *language = "tilery.language";

Tile accessible(Generator &gen, const Value &value, const std::string &what) {
  const Tile *tile = value.tile();
  if (!tile || tile->element.isScalar())
    gen.fail(what + " needs a pointer, not " + value.describe(),
             tile ? "add the offset to a pointer: ptr + offset" : "");
  if (tile->element.kind == ElementType::Kind::Signal)
    gen.fail(what + " cannot access a signal", "use dl.wait and dl.notify");
  if (tile->element.kind != ElementType::Kind::Symmetric)
    return *tile;
  ElementType local{ElementType::Kind::Pointer, tile->element.dtype};
  return {device::LocalOp::create(gen.builder, gen.loc(), gen.typeOf(local, tile->shape()),
                                  tile->value),
          local};
}

// One shape for pointer and mask: either may be the smaller one.
static std::optional<Tile> matchMask(Generator &gen, Tile &pointer, const Value &mask) {
  if (mask.isNone())
    return std::nullopt;
  Tile tile = gen.truth(mask);
  gen.broadcastTogether(pointer, tile);
  return tile;
}

static Value loadPointer(Generator &gen, Arguments &args) {
  Tile pointer = accessible(gen, args[0], "tl.load");
  std::optional<Tile> mask = matchMask(gen, pointer, args[1]);
  if (!args[2].isNone() && !mask)
    gen.fail("tl.load with `other` needs a mask");
  DType dtype = pointer.element.dtype;
  ElementType element{ElementType::Kind::Scalar, dtype};
  mlir::Value other;
  if (mask) { // elements that are masked out read as 0 unless `other` says more
    Tile fill = args[2].isNone() || args[2].isNumber()
                    ? gen.number(args[2].isNone() ? Value(Int{0}) : args[2], dtype)
                    : gen.cast(gen.toTile(args[2]), dtype);
    other = gen.broadcastTo(fill, pointer.shape()).value;
  }
  bool isVolatile = gen.constantBool(args[7], "volatile");
  Type type = gen.typeOf(element, pointer.shape());
  return Tile{core::LoadOp::create(gen.builder, gen.loc(), type, pointer.value,
                                   mask ? mask->value : mlir::Value(), other, isVolatile),
              element};
}

static Value storePointer(Generator &gen, Arguments &args) {
  Tile pointer = accessible(gen, args[0], "tl.store");
  std::optional<Tile> mask = matchMask(gen, pointer, args[2]);
  DType dtype = pointer.element.dtype;
  Tile value = args[1].isNumber() ? gen.number(args[1], dtype) : gen.cast(gen.toTile(args[1]), dtype);
  if (value.shape().size() > pointer.shape().size())
    gen.fail("tl.store of " + args[1].describe() + " through " + args[0].describe(),
             "the pointers must have the value's shape");
  value = gen.broadcastTo(value, pointer.shape());
  core::StoreOp::create(gen.builder, gen.loc(), pointer.value, value.value,
                        mask ? mask->value : mlir::Value());
  return None{};
}

// ---- block pointers and descriptors -------------------------------------------------------------

static std::vector<Tile> scalars(Generator &gen, const Value &value, const std::string &what) {
  std::vector<Tile> tiles;
  for (const Value &element : gen.sequence(value, what))
    tiles.push_back(gen.cast(gen.scalarInt(element, what), DType::Int64));
  return tiles;
}

static std::shared_ptr<BlockPointer> makeBlock(Generator &gen, const Value &base, const Value &shape,
                                               const Value &strides, const Value &block,
                                               const std::string &what) {
  const Tile *pointer = base.tile();
  if (!pointer || !pointer->element.isPointer() || !pointer->isScalar())
    gen.fail(what + " needs a pointer, not " + base.describe());
  auto result = std::make_shared<BlockPointer>();
  result->base = *pointer;
  result->shape = scalars(gen, shape, "the shape");
  result->strides = scalars(gen, strides, "the strides");
  result->block = gen.shapeArgument(block, "the block's extents");
  if (result->shape.empty())
    gen.fail(what + " needs at least one dimension");
  if (result->shape.size() != result->strides.size() ||
      result->shape.size() != result->block.size())
    gen.fail(what + " needs a shape, strides and a block of one length");
  return result;
}

static Value makeBlockPointer(Generator &gen, Arguments &args) {
  auto block = makeBlock(gen, args[0], args[1], args[2], args[4], "tl.make_block_ptr");
  block->offsets = scalars(gen, args[3], "the offsets");
  if (block->offsets.size() != block->shape.size())
    gen.fail("tl.make_block_ptr needs as many offsets as dimensions");
  gen.sequence(args[5], "the order");
  return block;
}

/// Whether the launcher knows the value, and with it what divides it.
static bool isKnownAtLaunch(mlir::Value value) {
  while (auto wide = value.getDefiningOp<arith::ExtSIOp>())
    value = wide.getIn();
  auto argument = dyn_cast<BlockArgument>(value);
  return matchPattern(value, m_Constant()) ||
         (argument && isa<func::FuncOp>(argument.getOwner()->getParentOp()));
}

// A descriptor promises that its base and strides are multiples of 16 bytes; of what only the
// kernel knows nothing else could say so.
static void promiseAlignment(Generator &gen, BlockPointer &block) {
  int32_t bytes = int32_t(std::max(bitWidth(block.base.element.dtype) / 8, 1u));
  auto promise = [&](Tile &tile, int32_t divisor) {
    if (divisor > 1 && !isKnownAtLaunch(tile.value))
      tile.value = core::HintOp::create(gen.builder, gen.loc(), tile.value.getType(), tile.value,
                                        ArrayRef<int32_t>(), ArrayRef<int32_t>(divisor),
                                        ArrayRef<int32_t>());
  };
  promise(block.base, 16);
  for (Tile &stride : MutableArrayRef(block.strides).drop_back())
    promise(stride, 16 / bytes);
}

static Value makeDescriptor(Generator &gen, Arguments &args) {
  std::vector<Value> strides = gen.sequence(args[2], "the strides");
  if (!strides.empty() && strides.back().asInt() && *strides.back().asInt() != 1)
    gen.fail("a tensor descriptor needs a last stride of 1, got " +
                 toString(*strides.back().asInt()),
             "use a block pointer, or a descriptor of the transposed tensor");
  auto block = makeBlock(gen, args[0], args[1], args[2], args[3], "tl.make_tensor_descriptor");
  block->isDescriptor = true;
  std::string padding = gen.constantString(args[4], "padding_option");
  if (padding != "zero" && padding != "nan")
    gen.fail("padding_option is \"zero\" or \"nan\", not \"" + padding + "\"");
  block->padNaN = padding == "nan";
  if (block->base.element.kind == ElementType::Kind::Pointer)
    promiseAlignment(gen, *block);
  return block;
}

static Value advance(Generator &gen, Arguments &args) {
  const BlockPointer *block = args[0].block();
  if (!block || block->isDescriptor)
    gen.fail("tl.advance needs a block pointer, not " + args[0].describe());
  std::vector<Tile> steps = scalars(gen, args[1], "the offsets");
  if (steps.size() != block->offsets.size())
    gen.fail("tl.advance needs " + std::to_string(block->offsets.size()) + " offsets, not " +
             std::to_string(steps.size()));
  auto moved = std::make_shared<BlockPointer>(*block);
  for (auto [offset, step] : llvm::zip(moved->offsets, steps))
    offset = gen.arithmetic(BinaryOp::Add, offset, step);
  return moved;
}

/// A tile of int64 along dimension `dim` of the block, of the block's rank.
static Tile along(Generator &gen, const BlockPointer &block, size_t dim, Tile start) {
  Tile index = gen.cast(gen.rangeTile(0, block.block[dim]), DType::Int64);
  index = gen.arithmetic(BinaryOp::Add, gen.splat(start, index.shape()), index);
  for (size_t other = 0; other < block.block.size(); ++other)
    if (other != dim)
      index = gen.expandDims(index, int64_t(other));
  return index;
}

/// Pointers of the block and, for the checked dimensions, the mask of what lies inside.
static std::pair<Tile, std::optional<Tile>> expandBlock(Generator &gen, const BlockPointer &block,
                                                        const std::vector<Tile> &offsets,
                                                        const std::set<int64_t> &checked) {
  Tile pointer = block.base;
  std::optional<Tile> mask;
  for (size_t dim = 0; dim < block.block.size(); ++dim) {
    Tile index = along(gen, block, dim, offsets[dim]);
    Tile stride = gen.splat(block.strides[dim], index.shape());
    pointer = gen.addPointer(pointer, gen.arithmetic(BinaryOp::Mul, index, stride));
    if (!checked.contains(int64_t(dim)))
      continue;
    Tile zero = gen.splat(gen.integer(0, DType::Int64), index.shape());
    Tile end = gen.splat(block.shape[dim], index.shape());
    Tile inside = gen.arithmetic(BinaryOp::And, gen.comparison(CompareOp::GE, index, zero),
                                 gen.comparison(CompareOp::LT, index, end));
    if (mask)
      gen.broadcastTogether(*mask, inside);
    mask = mask ? gen.arithmetic(BinaryOp::And, *mask, inside) : inside;
  }
  return {pointer, mask};
}

static std::set<int64_t> checkedDims(Generator &gen, const Value &value, size_t rank) {
  std::set<int64_t> dims;
  std::vector<Value> listed = value.tuple() ? value.tuple()->elements : std::vector<Value>{value};
  if (value.isNone())
    listed.clear();
  for (const Value &dim : listed)
    dims.insert(gen.axisArgument(dim, int64_t(rank), "boundary_check"));
  return dims;
}

static std::set<int64_t> allDims(const BlockPointer &block) {
  std::set<int64_t> dims;
  for (size_t dim = 0; dim < block.block.size(); ++dim)
    dims.insert(int64_t(dim));
  return dims;
}

static Value loadBlock(Generator &gen, const BlockPointer &block, const std::vector<Tile> &offsets,
                       const std::set<int64_t> &checked, bool padNaN) {
  auto [pointer, mask] = expandBlock(gen, block, offsets, checked);
  if (padNaN && !isFloat(block.base.element.dtype))
    gen.fail("padding with NaN needs floats, not " + std::string(nameOf(block.base.element.dtype)));
  Arguments args = {pointer, None{}, None{}, makeTuple({}), std::string(), std::string(),
                    std::string(), false};
  if (mask) {
    args[1] = *mask;
    if (padNaN)
      args[2] = std::numeric_limits<double>::quiet_NaN();
  }
  return loadPointer(gen, args);
}

static void storeBlock(Generator &gen, const BlockPointer &block, const std::vector<Tile> &offsets,
                       const std::set<int64_t> &checked, const Value &value) {
  auto [pointer, mask] = expandBlock(gen, block, offsets, checked);
  Arguments args = {pointer, value, mask ? Value(*mask) : Value(None{})};
  storePointer(gen, args);
}

static Value load(Generator &gen, Arguments &args) {
  const BlockPointer *block = args[0].block();
  if (!block)
    return loadPointer(gen, args);
  if (block->isDescriptor)
    gen.fail("tl.load does not take a descriptor", "write desc.load([...])");
  if (!args[1].isNone() || !args[2].isNone())
    gen.fail("tl.load of a block pointer takes no mask", "use boundary_check and padding_option");
  std::string padding = gen.constantString(args[4], "padding_option");
  if (!padding.empty() && padding != "zero" && padding != "nan")
    gen.fail("padding_option is \"zero\" or \"nan\", not \"" + padding + "\"");
  return loadBlock(gen, *block, block->offsets, checkedDims(gen, args[3], block->block.size()),
                   padding == "nan");
}

static Value store(Generator &gen, Arguments &args) {
  const BlockPointer *block = args[0].block();
  if (!block)
    return storePointer(gen, args);
  if (block->isDescriptor)
    gen.fail("tl.store does not take a descriptor", "write desc.store([...], value)");
  if (!args[2].isNone())
    gen.fail("tl.store to a block pointer takes no mask", "use boundary_check");
  storeBlock(gen, *block, block->offsets, checkedDims(gen, args[3], block->block.size()), args[1]);
  return None{};
}

static const BlockPointer &descriptor(Generator &gen, const Value &value, const Value &offsets,
                                      std::vector<Tile> &places) {
  const BlockPointer *block = value.block();
  if (!block || !block->isDescriptor)
    gen.fail("expected a tensor descriptor, not " + value.describe());
  places = scalars(gen, offsets, "the offsets");
  if (places.size() != block->block.size())
    gen.fail("this descriptor needs " + std::to_string(block->block.size()) + " offsets, not " +
             std::to_string(places.size()));
  return *block;
}

void addMemoryBuiltins(BuiltinTable &table) {
  table.add(language, "load",
            "pointer, mask=None, other=None, boundary_check=(), padding_option='', "
            "cache_modifier='', eviction_policy='', volatile=False",
            load);
  table.add(language, "store",
            "pointer, value, mask=None, boundary_check=(), cache_modifier='', eviction_policy=''",
            store);
}

void addBlockPointerBuiltins(BuiltinTable &table) {
  table.add(language, "make_block_ptr", "base, shape, strides, offsets, block_shape, order",
            makeBlockPointer);
  table.add(language, "advance", "base, offsets", advance);
  table.add(language, "make_tensor_descriptor", "base, shape, strides, block_shape, padding_option='zero'",
            makeDescriptor);
  table.add(language, "load_tensor_descriptor", "desc, offsets", [](Generator &gen, Arguments &args) {
    std::vector<Tile> places;
    const BlockPointer &block = descriptor(gen, args[0], args[1], places);
    return loadBlock(gen, block, places, allDims(block), block.padNaN);
  });
  table.add(language, "store_tensor_descriptor", "desc, offsets, value",
            [](Generator &gen, Arguments &args) -> Value {
              std::vector<Tile> places;
              const BlockPointer &block = descriptor(gen, args[0], args[1], places);
              storeBlock(gen, block, places, allDims(block), args[2]);
              return None{};
            });
}

} // namespace tilery::frontend
