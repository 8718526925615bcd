// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Looks operators up by name, for tilery_ops_list and tilery_op_call.
#include "ops/registry.h"

#include "ops/costs/choose.h"

#include <array>
#include <span>

// Defined by the C interface: keeps the message of tilery_error_message().
namespace tilery::capi {
tilery_status setError(tilery_status status, std::string message);
}

namespace tilery::ops {

static const std::array<const Op *, 16> &table() {
  static const std::array<const Op *, 16> all = {
      &matmulOp(),    &softmaxOp(),   &rmsNormOp(),       &layerNormOp(), &attentionOp(),
      &decodeOp(), &swigluOp(), &ropeOp(),
      &allGatherOp(), &allReduceOp(), &reduceScatterOp(), &allToAllOp(),  &broadcastOp(),
      &agGemmOp(),    &gemmRsOp(),    &gemmArOp()};
  return all;
}

static const Op &find(const std::string &name) {
  std::vector<std::string> names;
  for (const Op *op : table()) {
    if (op->name == name)
      return *op;
    names.push_back(op->name);
  }
  throw Error(Kind::Config, "there is no operator '" + name + "'; did you mean '" +
                                nearestName(name, names) + "'?");
}

const std::string &list() {
  static const std::string text = [] {
    std::string json = "[";
    for (const Op *op : table()) {
      json += (json.size() > 1 ? ",{" : "{");
      json += "\"name\":\"" + op->name + "\",\"summary\":\"" + op->summary + "\",\"tensors\":[";
      for (size_t i = 0; i < op->tensors.size(); ++i)
        json += (i ? ",\"" : "\"") + op->tensors[i] + "\"";
      json += "],\"options\":{";
      for (size_t i = 0; i < op->options.size(); ++i)
        json += (i ? ",\"" : "\"") + op->options[i].first + "\":" + op->options[i].second;
      json += std::string("},\"communicates\":") + (op->communicates ? "true" : "false") + "}";
    }
    return json + "]";
  }();
  return text;
}

static void checkTensor(const Op &op, const std::string &name, const tilery_tensor &tensor) {
  auto fail = [&](const std::string &what) {
    throw Error(Kind::Launch, op.name + ": '" + name + "' " + what);
  };
  if (tensor.rank > 8)
    fail("has " + std::to_string(tensor.rank) + " dimensions, at most 8 are supported");
  if (tensor.dtype < 0 || tensor.dtype > TILERY_SIGNAL)
    fail("has the unknown element type " + std::to_string(tensor.dtype));
  for (int dim = 0; dim < tensor.rank; ++dim) {
    if (tensor.shape[dim] < 0)
      fail("has shape " + shapeText(tensor) + "; extents are 0 or more");
    if (stride(tensor, dim) < 0)
      fail("has a negative stride; pass a contiguous copy");
  }
  if (!tensor.data && elements(tensor))
    fail("has no data");
  auto size = uint64_t(tilery_dtype_size(static_cast<tilery_dtype>(tensor.dtype)));
  if (reinterpret_cast<uintptr_t>(tensor.data) % size)
    fail("is misaligned; its address must be a multiple of " + std::to_string(size));
}

// By convention outputs are called so, in every operator.
static bool isOutput(const std::string &name) {
  return name == "c" || name == "out" || name == "y" || name == "gathered" || name == "q_out" ||
         name == "k_out" || name == "workspace";
}

static bool haveSameElements(const tilery_tensor &a, const tilery_tensor &b) {
  bool same = a.data == b.data && a.dtype == b.dtype && a.rank == b.rank;
  for (int dim = 0; dim < a.rank && same; ++dim)
    same = a.shape[dim] == b.shape[dim] && (a.shape[dim] <= 1 || stride(a, dim) == stride(b, dim));
  return same;
}

// Row by row, or through staging: the output may be the input itself.
static bool worksInPlace(const Op &op) {
  return op.name == "softmax" || op.name == "rms_norm" || op.name == "layer_norm" ||
         op.name == "all_reduce" || op.name == "swiglu" || op.name == "rope";
}

// Addresses from the first to one past the last element.
static std::pair<uintptr_t, uintptr_t> extentOf(const tilery_tensor &tensor) {
  auto begin = reinterpret_cast<uintptr_t>(tensor.data);
  if (elements(tensor) == 0)
    return {begin, begin};
  int64_t last = 0;
  for (int dim = 0; dim < tensor.rank; ++dim)
    last += (tensor.shape[dim] - 1) * stride(tensor, dim);
  return {begin, begin + uintptr_t(last + 1) *
                             uintptr_t(tilery_dtype_size(static_cast<tilery_dtype>(tensor.dtype)))};
}

// Elements of an output at one address would be written by several instances at once.
static bool repeatsElements(const tilery_tensor &tensor) {
  for (int dim = 0; dim < tensor.rank; ++dim)
    if (tensor.shape[dim] > 1 && stride(tensor, dim) == 0)
      return elements(tensor) > 0;
  return false;
}

// Elements from the first to the last one that lie within one step of `period`; 0 when the tensor
// does not repeat in steps of it.
static int64_t extentWithin(const tilery_tensor &tensor, int64_t period) {
  int64_t extent = 1;
  for (int dim = 0; dim < tensor.rank; ++dim) {
    if (tensor.shape[dim] <= 1)
      continue;
    if (stride(tensor, dim) < period)
      extent += (tensor.shape[dim] - 1) * stride(tensor, dim);
    else if (stride(tensor, dim) % period)
      return 0;
  }
  return extent;
}

// Columns of one array side by side, such as the heads of q and of k in the rows of one product.
static bool areInterleaved(const tilery_tensor &a, const tilery_tensor &b) {
  if (a.dtype != b.dtype)
    return false;
  int64_t size = tilery_dtype_size(static_cast<tilery_dtype>(a.dtype));
  int64_t bytes = static_cast<const char *>(b.data) - static_cast<const char *>(a.data);
  for (int dim = 0; dim < a.rank; ++dim) {
    int64_t period = stride(a, dim);
    if (period <= 1 || bytes % size)
      continue;
    int64_t apart = ((bytes / size) % period + period) % period;
    int64_t extent = extentWithin(a, period), other = extentWithin(b, period);
    if (extent > 0 && other > 0 && extent <= apart && apart + other <= period)
      return true;
  }
  return false;
}

static void checkOutput(const Op &op, const std::vector<std::string> &names,
                        std::span<const tilery_tensor> tensors, size_t output) {
  auto fail = [&](const std::string &what) {
    throw Error(Kind::Launch, op.name + ": '" + names[output] + "' " + what);
  };
  const tilery_tensor &written = tensors[output];
  if (written.read_only)
    fail("is read-only, but the operator writes it");
  if (repeatsElements(written))
    fail("has a stride of 0: its elements share memory");
  auto [begin, end] = extentOf(written);
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (i == output || tensors[i].rank < 0)
      continue;
    auto [from, to] = extentOf(tensors[i]);
    bool same = from == begin && to == end && worksInPlace(op);
    // Each element is added where it is stored.
    bool added = names[i] == "residual" && haveSameElements(written, tensors[i]);
    if (from < end && begin < to && !same && !added &&
        !areInterleaved(written, tensors[i]))
      fail("shares memory with '" + names[i] + "', which the operator still reads");
  }
}

static void run(const Op &op, tilery_world *world, const tilery_tensor *tensors, int count,
                const char *optionsJson, std::string *explanation) {
  const std::string &name = op.name;
  std::vector<std::string> names;
  size_t required = 0;
  for (std::string tensor : op.tensors) {
    bool optional = tensor.ends_with('?');
    if (optional)
      tensor.pop_back();
    else
      ++required;
    names.push_back(tensor);
  }
  if (count < int(required) || count > int(names.size())) {
    std::string wanted;
    for (const std::string &tensor : op.tensors)
      wanted += (wanted.empty() ? "" : ", ") + tensor;
    throw Error(Kind::Launch, name + " takes " + std::to_string(required) +
                                  (required < names.size() ? " or more" : "") + " tensors (" +
                                  wanted + "), got " + std::to_string(count));
  }
  for (int i = 0; i < count; ++i)
    if (tensors[i].rank >= 0) // -1: an optional tensor that is left out
      checkTensor(op, names[i], tensors[i]);
    else if (i < int(required))
      throw Error(Kind::Launch, name + ": '" + names[i] + "' is missing");
  for (size_t i = 0; i < size_t(count); ++i)
    if (tensors[i].rank >= 0 && isOutput(names[i]))
      checkOutput(op, names, {tensors, size_t(count)}, i);
  Call call(name, world, {tensors, size_t(count)}, names,
           Options::parse(name, optionsJson, op.options));
  call.explanation = explanation;
  op.run(call);
}

void call(const std::string &name, tilery_world *world, const tilery_tensor *tensors, int count,
          const char *optionsJson) {
  run(find(name), world, tensors, count, optionsJson, nullptr);
}

std::string explain(const std::string &name, tilery_world *world, const tilery_tensor *tensors,
                    int count, const char *optionsJson) {
  const Op &op = find(name);
  bool hasForms = std::ranges::any_of(op.options, [](auto &option) { return option.first == "form"; });
  if (!hasForms)
    throw Error(Kind::Config, name + " has one form only, there is nothing to explain");
  std::string text = "{\"chosen\": null}";
  try {
    run(op, world, tensors, count, optionsJson, &text);
  } catch (const Explained &) {
  }
  return text;
}


// Operators of a world share its workspaces, so that each follows the one before, whatever their streams.
template <typename Action> static void inOrder(tilery_world *world, Action action) {
  if (!world)
    return action();
  check(tilery_order_begin(world));
  try {
    action();
  } catch (...) {
    (void)tilery_order_end(world);
    throw;
  }
  check(tilery_order_end(world));
}

static bool communicates(const std::string &name) { return find(name).communicates; }

} // namespace tilery::ops

template <typename Action> static tilery_status guarded(Action action) {
  try {
    action();
    return TILERY_OK;
  } catch (const tilery::Error &error) {
    return tilery::capi::setError(static_cast<tilery_status>(error.kind()), error.what());
  } catch (const std::exception &error) {
    return tilery::capi::setError(TILERY_INTERNAL_ERROR,
                                  std::string(error.what()) + "; this is a bug in tilery");
  }
}

extern "C" {

TILERY_API const char *tilery_ops_list(void) { return tilery::ops::list().c_str(); }

TILERY_API tilery_status tilery_op_call(const char *name, tilery_world *world,
                                        const tilery_tensor *tensors, int32_t num_tensors,
                                        const char *options_json) {
  return guarded([&] {
    std::string op = name ? name : "";
    tilery::ops::inOrder(tilery::ops::communicates(op) ? world : nullptr, [&] {
      tilery::ops::call(op, world, tensors, num_tensors, options_json);
    });
  });
}

TILERY_API tilery_status tilery_op_explain(const char *name, tilery_world *world,
                                           const tilery_tensor *tensors, int32_t num_tensors,
                                           const char *options_json, const char **json) {
  static thread_local std::string text;
  return guarded([&] {
    std::string op = name ? name : "";
    tilery::ops::inOrder(tilery::ops::communicates(op) ? world : nullptr, [&] {
      text = tilery::ops::explain(op, world, tensors, num_tensors, options_json);
    });
    *json = text.c_str();
  });
}

TILERY_API tilery_status tilery_calibrate(tilery_world *world, const char **json) {
  return guarded([&] {
    if (!world)
      throw tilery::Error(tilery::Kind::Launch, "calibration needs a world; call ty.init() first "
                                                "(tilery_world_init in C)");
    tilery::World ranks(world, tilery::World::Owns::Nothing);
    tilery::ops::inOrder(world, [&] { *json = tilery::ops::calibrate(ranks).c_str(); });
  });
}
}
