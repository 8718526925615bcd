// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Checks of tensors that all operators share, and agreement between ranks.
#include "ops/op.h"

#include <algorithm>
#include <array>
#include <bit>

namespace tilery::ops {

World &Call::world() {
  if (!worldHandle)
    throw Error(Kind::Launch, op + " communicates and needs a world; call ty.init() or ty.spawn "
                                   "first (tilery_world_init in C)");
  if (bound.empty())
    bound.emplace_back(worldHandle, World::Owns::Nothing);
  return bound.front();
}

void Call::fail(const std::string &message) const {
  throw Error(Kind::Launch, op + ": " + message);
}

void Call::needRank(size_t at, int rank) const {
  if (tensors[at].rank != rank)
    fail("'" + names[at] + "' has " + std::to_string(tensors[at].rank) + " dimensions, needs " +
         std::to_string(rank));
}

void Call::needDim(size_t at, int dim, int64_t extent, const char *what) const {
  if (tensors[at].shape[dim] != extent)
    fail("'" + names[at] + "' has shape " + shapeText(tensors[at]) + ", but dimension " +
         std::to_string(dim) + " must be " + std::to_string(extent) + " (" + what + ")");
}

void Call::needContiguous(size_t at) const {
  int64_t expected = elements(tensors[at]) ? 1 : 0; // NumPy's empty arrays have any strides
  for (int dim = tensors[at].rank - 1; dim >= 0 && expected; --dim) {
    if (tensors[at].shape[dim] > 1 && stride(tensors[at], dim) != expected)
      fail("'" + names[at] + "' is not contiguous (dimension " + std::to_string(dim) +
           " has stride " + std::to_string(stride(tensors[at], dim)) + ", needs " +
           std::to_string(expected) + "); pass a contiguous copy");
    expected *= tensors[at].shape[dim];
  }
}

void Call::needInnerContiguous(size_t at) const {
  int last = tensors[at].rank - 1;
  if (last >= 0 && elements(tensors[at]) > 0 && tensors[at].shape[last] > 1 && stride(tensors[at], last) != 1)
    fail("the last dimension of '" + names[at] + "' has stride " +
         std::to_string(stride(tensors[at], last)) + ", needs 1; pass a contiguous copy");
}

void Call::needSameType(size_t first, size_t second) const {
  if (tensors[first].dtype != tensors[second].dtype)
    fail("'" + names[first] + "' is " + dtypeName(tensors[first].dtype) + " and '" + names[second] +
         "' is " + dtypeName(tensors[second].dtype) + "; they must have one type");
}

void Call::needType(size_t at, std::initializer_list<tilery_dtype> allowed) const {
  if (std::find(allowed.begin(), allowed.end(), tensors[at].dtype) != allowed.end())
    return;
  std::string list;
  for (tilery_dtype dtype : allowed)
    list += (list.empty() ? "" : ", ") + std::string(dtypeName(dtype));
  fail("'" + names[at] + "' is " + dtypeName(tensors[at].dtype) + ", needs one of " + list);
}

int64_t textNumber(const std::string &text) {
  return int64_t(std::hash<std::string>{}(text) >> 32);
}

AgreedValue agreedType(const char *name, int32_t dtype) {
  return {name, dtype, [](int64_t type) { return std::string(dtypeName(int32_t(type))); }};
}

AgreedValue agreedText(const char *name, const std::string &text) {
  return {name, textNumber(text), nullptr};
}

namespace {
/// What a rank brings into an agreement.
struct Brought {
  std::array<int64_t, 24> values = {};
  std::array<PeerBuffers::Described, PeerBuffers::Most> buffers = {};
};
} // namespace

static std::string differenceOf(const AgreedValue &value, int64_t first, int64_t other, size_t rank) {
  std::string name = value.name, where = "rank " + std::to_string(rank);
  if (!value.shown)
    return name + " differs between rank 0 and " + where + "; pass the same on all ranks";
  return name + " differs between ranks: " + value.shown(first) + " on rank 0, " + value.shown(other) + " on " +
         where;
}

std::vector<int64_t> Call::agree(const AgreedValues &values, std::vector<int64_t> own,
                                 PeerBuffers *buffers) {
  Brought brought;
  if (buffers)
    brought.buffers = buffers->described(world());
  std::array<int64_t, 24> &mine = brought.values;
  for (size_t i = 0; i < values.size(); ++i)
    mine[i] = values[i].value;
  size_t ownAt = mine.size() - own.size(); // from the end, where other operators have none
  std::copy(own.begin(), own.end(), mine.begin() + ptrdiff_t(ownAt));
  std::vector<std::array<int64_t, 24>> all;
  std::vector<PeerBuffers::Described> described;
  for (const Brought &each : world().allGather(brought, ("operator '" + op + "'").c_str())) {
    all.push_back(each.values);
    described.insert(described.end(), each.buffers.begin(),
                     each.buffers.begin() + (buffers ? buffers->count() : 0));
  }
  for (size_t rank = 0; rank < all.size(); ++rank) {
    for (size_t i = 0; i < values.size(); ++i)
      if (all[rank][i] != all[0][i])
        fail(differenceOf(values[i], all[0][i], all[rank][i], rank));
    for (size_t i = 0; i < own.size(); ++i)
      own[i] = std::min(own[i], all[rank][ownAt + i]);
  }
  if (buffers)
    buffers->hear(std::move(described));
  return own;
}

int64_t Call::residentShare() {
  return std::max<int64_t>(device().processors / tilery_world_device_ranks(world().handle()), 1);
}

std::string formOf(const Call &call, const std::vector<std::string> &forms, const char *chosen) {
  int choice = call.options.choice("form", forms);
  return choice == 0 ? chosen : forms[size_t(choice)];
}

int64_t stride(const tilery_tensor &tensor, int dim) {
  if (tensor.strides)
    return tensor.strides[dim];
  int64_t step = 1;
  for (int d = tensor.rank - 1; d > dim; --d)
    step *= tensor.shape[d];
  return step;
}

int64_t elements(const tilery_tensor &tensor) {
  int64_t count = 1;
  for (int d = 0; d < tensor.rank; ++d)
    count *= tensor.shape[d];
  return count;
}

// The processor is asked for on each call of an operator on the host: once is enough.
static tilery_device_properties propertiesOf(int32_t number) {
  auto ask = [](int32_t device) {
    tilery_device_properties properties = {};
    check(tilery_device_describe(device, &properties));
    return properties;
  };
  static const tilery_device_properties host = ask(0);
  return number == 0 ? host : ask(number);
}

int32_t Call::deviceNumber() const {
  for (const tilery_tensor &tensor : tensors) {
    if (tensor.rank < 0 || !tensor.data)
      continue;
    bool byAddress = tensor.device == TILERY_DEVICE_BY_ADDRESS;
    return byAddress ? tilery_device_of(tensor.data) : int32_t(tensor.device);
  }
  return worldHandle ? tilery_world_device(worldHandle) : 0;
}

tilery_device_properties Call::device() const { return propertiesOf(deviceNumber()); }

Memory memory(const tilery_tensor &tensor) {
  int64_t extent = elements(tensor) ? 1 : 0;
  for (int d = 0; d < tensor.rank && extent; ++d)
    extent += (tensor.shape[d] - 1) * stride(tensor, d);
  auto dtype = static_cast<tilery_dtype>(tensor.dtype);
  return {tensor.data, dtype, extent * tilery_dtype_size(dtype), false, tensor.device};
}

Memory part(const tilery_tensor &tensor, int64_t first, int64_t count) {
  auto dtype = static_cast<tilery_dtype>(tensor.dtype);
  int64_t size = tilery_dtype_size(dtype);
  return {static_cast<char *>(tensor.data) + first * size, dtype, count * size, false,
          tensor.device};
}

const char *dtypeName(int32_t dtype) {
  static constexpr const char *names[] = {"int1",   "int8",    "int16",  "int32", "int64", "uint8",
                                          "uint16", "uint32",  "uint64", "fp16",  "bf16",  "fp32",
                                          "fp64",   "fp8e4nv", "fp8e5",  "signal"};
  return dtype >= 0 && dtype < int(std::size(names)) ? names[dtype] : "unknown";
}

bool isFloat(int32_t dtype) { return dtype >= TILERY_FP16 && dtype <= TILERY_FP8E5; }

tilery_dtype accumulator(int32_t dtype) {
  if (isFloat(dtype))
    return dtype == TILERY_FP64 ? TILERY_FP64 : TILERY_FP32;
  return tilery_dtype_size(static_cast<tilery_dtype>(dtype)) < 8 ? TILERY_INT32 : TILERY_INT64;
}

std::string shapeText(const tilery_tensor &tensor) {
  std::string text = "[";
  for (int d = 0; d < tensor.rank; ++d)
    text += (d ? ", " : "") + std::to_string(tensor.shape[d]);
  return text + "]";
}

int64_t blockFor(int64_t n, int64_t least, int64_t most) {
  int64_t power = int64_t(std::bit_ceil(uint64_t(std::max<int64_t>(n, 1))));
  return std::clamp(power, least, most);
}

} // namespace tilery::ops
