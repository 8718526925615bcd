// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Element type names and promotion.
#include "compiler/Frontend/DType.h"

#include "llvm/ADT/StringMap.h"

using namespace mlir;

namespace tilery::frontend {

static constexpr const char *names[] = {"int1",   "int8",   "int16", "int32", "int64",
                                        "uint8",  "uint16", "uint32", "uint64", "fp16",
                                        "bf16",   "fp32",   "fp64",  "fp8e4nv", "fp8e5"};

const char *nameOf(DType type) { return names[int(type)]; }

std::optional<DType> dtypeNamed(llvm::StringRef name) {
  static const llvm::StringMap<DType> aliases = {
      {"i1", DType::Int1},        {"i8", DType::Int8},       {"i16", DType::Int16},
      {"i32", DType::Int32},      {"i64", DType::Int64},     {"u8", DType::UInt8},
      {"u16", DType::UInt16},     {"u32", DType::UInt32},    {"u64", DType::UInt64},
      {"float16", DType::FP16},   {"bfloat16", DType::BF16}, {"float32", DType::FP32},
      {"float64", DType::FP64},   {"float8e4nv", DType::FP8E4NV}, {"float8e5", DType::FP8E5},
      {"bool", DType::Int1},      {"f16", DType::FP16},      {"f32", DType::FP32},
      {"f64", DType::FP64}};
  for (int i = 0; i < int(std::size(names)); ++i)
    if (name == names[i])
      return DType(i);
  auto found = aliases.find(name);
  return found == aliases.end() ? std::nullopt : std::optional(found->second);
}

Type mlirType(DType type, MLIRContext *context) {
  switch (type) {
  case DType::FP16: return Float16Type::get(context);
  case DType::BF16: return BFloat16Type::get(context);
  case DType::FP32: return Float32Type::get(context);
  case DType::FP64: return Float64Type::get(context);
  case DType::FP8E4NV: return Float8E4M3FNType::get(context);
  case DType::FP8E5: return Float8E5M2Type::get(context);
  default: return IntegerType::get(context, bitWidth(type));
  }
}

unsigned bitWidth(DType type) {
  static constexpr unsigned widths[] = {1, 8, 16, 32, 64, 8, 16, 32, 64, 16, 16, 32, 64, 8, 8};
  return widths[int(type)];
}

bool isFloat(DType type) { return type >= DType::FP16; }
bool isSignedInt(DType type) { return type >= DType::Int8 && type <= DType::Int64; }
bool isUnsignedInt(DType type) {
  return type == DType::Int1 || (type >= DType::UInt8 && type <= DType::UInt64);
}

static bool isFP8(DType type) { return type >= DType::FP8E4NV; }
static bool isHalf(DType type) { return type == DType::FP16 || type == DType::BF16; }

// Integer promotion: the wider type; at equal width unsigned wins.
static DType promoteIntegers(DType a, DType b) {
  unsigned wa = bitWidth(a), wb = bitWidth(b);
  bool ua = isUnsignedInt(a), ub = isUnsignedInt(b);
  if (ua == ub)
    return wa > wb ? a : b;
  DType unsignedOne = ua ? a : b, signedOne = ua ? b : a;
  return bitWidth(unsignedOne) >= bitWidth(signedOne) ? unsignedOne : signedOne;
}

std::optional<DType> promote(DType a, DType b, bool division) {
  auto either = [&](DType type) { return a == type || b == type; };
  if (either(DType::FP64))
    return DType::FP64;
  if (either(DType::FP32))
    return DType::FP32;
  if (either(DType::FP16))
    return division ? DType::FP32 : DType::FP16; // also with bf16, as Triton
  if (either(DType::BF16))
    return a == b && !division ? DType::BF16 : DType::FP32;
  if (isFP8(a) && isFP8(b))
    return a == b ? a : DType::FP16;
  if (isFP8(a) || isFP8(b))
    return std::nullopt;
  if (division && isUnsignedInt(a) != isUnsignedInt(b))
    return std::nullopt;
  return promoteIntegers(a, b);
}

DType promoteNumber(DType number, DType tile, bool division) {
  // Kinds order as bool < int < float: a number of no higher kind takes the tile's type.
  auto kind = [](DType type) { return type == DType::Int1 ? 0 : isInt(type) ? 1 : 2; };
  if (kind(number) <= kind(tile))
    return division && isHalf(tile) ? DType::FP32 : tile;
  return number;
}

} // namespace tilery::frontend
