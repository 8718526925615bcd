// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Matrix products.
#include "compiler/Frontend/Generator.h"

using namespace mlir;

namespace tilery::frontend {

static core::InputPrecision precisionOf(Generator &gen, const Value &precision, const Value &allowTF32) {
  if (precision.isNone())
    return allowTF32.isNone() || gen.constantBool(allowTF32, "allow_tf32") ? core::InputPrecision::TF32
                                                                           : core::InputPrecision::IEEE;
  std::string text = gen.constantString(precision, "input_precision");
  if (auto value = core::symbolizeInputPrecision(text))
    return *value;
  gen.fail("input_precision is \"tf32\", \"tf32x3\" or \"ieee\", not \"" + text + "\"");
}

static void checkShapes(Generator &gen, const Tile &a, const Tile &b) {
  size_t rank = a.shape().size();
  if (rank < 2 || rank > 3 || b.shape().size() != rank)
    gen.fail("tl.dot needs two tiles of 2 or 3 dimensions, not " + a.typeName() + " and " +
             b.typeName());
  if (a.shape()[rank - 1] != b.shape()[rank - 2])
    gen.fail("tl.dot of " + a.typeName() + " and " + b.typeName() + ": the inner extents " +
             std::to_string(a.shape()[rank - 1]) + " and " + std::to_string(b.shape()[rank - 2]) +
             " differ");
  if (rank == 3 && a.shape()[0] != b.shape()[0])
    gen.fail("tl.dot of " + a.typeName() + " and " + b.typeName() + ": the batch extents differ");
}

// What products are summed in: fp32 for all floats but fp64, int32 for integers.
static DType sumType(Generator &gen, const Tile &a, const Tile &b) {
  DType type = a.element.dtype;
  if (!a.element.isScalar() || !b.element.isScalar() || type != b.element.dtype)
    gen.fail("tl.dot needs operands of one type, not " + a.typeName() + " and " + b.typeName(),
             "convert one with .to(...)");
  if (type == DType::FP64)
    return DType::FP64;
  if (isFloat(type))
    return DType::FP32;
  if (bitWidth(type) == 8 && type != DType::Int1)
    return DType::Int32;
  gen.fail("tl.dot multiplies floats and 8-bit integers, not " + std::string(nameOf(type)));
}

static Value dot(Generator &gen, Arguments &args) {
  Tile a = gen.toTile(args[0]), b = gen.toTile(args[1]);
  checkShapes(gen, a, b);
  DType sum = sumType(gen, a, b);
  SmallVector<int64_t> shape(a.shape());
  shape.back() = b.shape().back();
  DType result = isInt(sum) || sum == DType::FP64 ? sum : gen.dtypeOf(args[6], "out_dtype");
  Tile accumulator = gen.splat(gen.number(Int{0}, sum), shape);
  if (!args[2].isNone()) {
    Tile given = gen.toTile(args[2]);
    if (given.shape() != ArrayRef<int64_t>(shape))
      gen.fail("the accumulator of tl.dot is " + given.typeName() + " where the product is " +
               Tile{accumulator}.typeName());
    result = given.element.dtype;
    accumulator = gen.cast(given, sum);
  }
  if (isUnsignedInt(a.element.dtype)) // core.dot sign-extends: widen first
    gen.fail("tl.dot multiplies int8, not uint8", "subtract the offset and convert to tl.int8");
  auto precision = precisionOf(gen, args[3], args[4]);
  int32_t imprecise = args[5].isNone() ? 0 : int32_t(gen.constantInt(args[5], "max_num_imprecise_acc"));
  Tile product{core::DotOp::create(gen.builder, gen.loc(), a.value, b.value, accumulator.value,
                                   precision, uint32_t(imprecise)),
               {ElementType::Kind::Scalar, sum}};
  return gen.cast(product, result);
}

void addDotBuiltins(BuiltinTable &table) {
  table.add("tilery.language", "dot",
            "input, other, acc=None, input_precision=None, allow_tf32=None, "
            "max_num_imprecise_acc=None, out_dtype=float32",
            dot);
}

} // namespace tilery::frontend
