// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Tensor maps for bulk copies (TMA). The driver says only "invalid value", so what it refuses is
// found here first (CUDA driver API, cuTensorMapEncodeTiled).
#include "runtime/hal/cuda/devices.h"

namespace tilery::rt::hal::cuda {

namespace {
struct ElementFormat {
  std::string_view name;
  int number; // CUtensorMapDataType
  uint32_t bytes;
};
} // namespace

// Types that the unit does not know travel as integers of their size.
static const ElementFormat *formatOf(std::string_view name) {
  static constexpr ElementFormat formats[] = {
      {"int1", 0, 1}, {"i1", 0, 1},  {"i8", 0, 1},   {"int8", 0, 1},  {"uint8", 0, 1},
      {"u8", 0, 1},   {"i16", 1, 2}, {"int16", 1, 2}, {"uint16", 1, 2}, {"u16", 1, 2},
      {"u32", 2, 4},  {"uint32", 2, 4}, {"i32", 3, 4}, {"int32", 3, 4}, {"u64", 4, 8},
      {"uint64", 4, 8}, {"i64", 5, 8}, {"int64", 5, 8}, {"fp16", 6, 2}, {"fp32", 7, 4},
      {"fp64", 8, 8}, {"bf16", 9, 2}, {"fp8e4nv", 0, 1}, {"fp8e5", 0, 1}, {"tf32", 11, 4}};
  for (const ElementFormat &format : formats)
    if (format.name == name)
      return &format;
  return nullptr;
}

static int swizzleOf(int32_t bytes) {
  switch (bytes) {
  case 0: return 0;
  case 32: return 1;
  case 64: return 2;
  case 128: return 3;
  default: return -1;
  }
}

static std::string refusal(const TensorMapShape &shape, const ElementFormat *format) {
  if (!format)
    return fmt::format("has element type {}, which bulk copies do not know", shape.element);
  if (reinterpret_cast<uintptr_t>(shape.address) % 16)
    return fmt::format("starts at {}, which is no multiple of 16 bytes", shape.address);
  if (shape.rank < 1 || shape.rank > TensorMapShape::MaxRank)
    return fmt::format("has {} dimensions, a bulk copy takes 1 to 5", shape.rank);
  if (swizzleOf(shape.swizzleBytes) < 0)
    return fmt::format("is to be swizzled by {} bytes", shape.swizzleBytes);
  for (int i = 0; i < shape.rank; ++i) {
    auto at = size_t(i);
    if (shape.extents[at] == 0 || shape.extents[at] > (uint64_t(1) << 32))
      return fmt::format("has extent {}, it must be 1 to 2^32", shape.extents[at]);
    if (shape.box[at] == 0 || shape.box[at] > 256)
      return fmt::format("is copied in boxes of {} along a dimension, at most 256 are possible",
                         shape.box[at]);
    if (i > 0 && (shape.strides[at - 1] % 16 || shape.strides[at - 1] >= (uint64_t(1) << 40)))
      return fmt::format("has a stride of {} bytes, which is no multiple of 16 below 2^40",
                         shape.strides[at - 1]);
  }
  return "";
}

std::string CudaDriver::encodeTensorMap(const TensorMapShape &shape, TensorMap &map) {
  const ElementFormat *format = formatOf(shape.element);
  if (std::string why = refusal(shape, format); !why.empty())
    return why;
  static constexpr uint32_t ones[TensorMapShape::MaxRank] = {1, 1, 1, 1, 1};
  constexpr int NoInterleave = 0, Promote256Bytes = 3, FillZeros = 0;
  Result result = api().tensorMapEncodeTiled(
      &map, format->number, uint32_t(shape.rank), shape.address, shape.extents.data(),
      shape.strides.data(), shape.box.data(), ones, NoInterleave, swizzleOf(shape.swizzleBytes),
      Promote256Bytes, FillZeros);
  return result == Success ? "" : "is refused by cuTensorMapEncodeTiled: " + describe(result);
}

} // namespace tilery::rt::hal::cuda
