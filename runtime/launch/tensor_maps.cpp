// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Evaluates plans of tensor maps and keeps what the driver made of them.
#include "runtime/launch/tensor_maps.h"

#include "runtime/base/error.h"

#include <algorithm>
#include <limits>

namespace tilery::rt {

static int64_t apply(HostStep::Kind kind, int64_t a, int64_t b) {
  using Kind = HostStep::Kind;
  auto wrap = [](uint64_t value) { return int64_t(value); };
  switch (kind) {
  case Kind::Add: return wrap(uint64_t(a) + uint64_t(b));
  case Kind::Subtract: return wrap(uint64_t(a) - uint64_t(b));
  case Kind::Multiply: return wrap(uint64_t(a) * uint64_t(b));
  case Kind::DivideSigned: return b == 0 ? 0 : b == -1 ? wrap(-uint64_t(a)) : a / b;
  case Kind::Minimum: return std::min(a, b);
  default: return std::max(a, b);
  }
}

int64_t evaluate(const HostProgram &program, const uint64_t *arguments) {
  constexpr size_t MaxDepth = 32;
  int64_t stack[MaxDepth];
  size_t depth = 0;
  for (const HostStep &step : program) {
    if (step.kind == HostStep::Kind::Constant || step.kind == HostStep::Kind::Argument) {
      if (depth == MaxDepth)
        raise(TILERY_INTERNAL_ERROR, "an extent is too deep an expression; this is a bug in tilery");
      bool constant = step.kind == HostStep::Kind::Constant;
      stack[depth++] = constant ? step.value : int64_t(arguments[step.value]);
      continue;
    }
    --depth;
    stack[depth - 1] = apply(step.kind, stack[depth - 1], stack[depth]);
  }
  return depth ? stack[0] : 0;
}

TensorMapCache::Key TensorMapCache::evaluateKey(const uint64_t *arguments) const {
  Key key = {};
  key[0] = arguments[plan.pointer] +
           uint64_t(evaluate(plan.offsetElements, arguments) * plan.elementBytes);
  size_t at = 1;
  for (const HostProgram &extent : plan.extents)
    key[at++] = uint64_t(std::max<int64_t>(evaluate(extent, arguments), 1));
  for (const HostProgram &stride : plan.strides)
    key[at++] = uint64_t(evaluate(stride, arguments) * plan.elementBytes);
  return key;
}

void TensorMapCache::encode(hal::Driver &driver, const KernelImage &image, const Key &key,
                            hal::TensorMap &map) const {
  hal::TensorMapShape shape;
  shape.address = reinterpret_cast<void *>(key[0]);
  shape.element = plan.element;
  shape.rank = int(plan.extents.size());
  shape.swizzleBytes = plan.swizzleBytes;
  for (size_t i = 0; i < plan.extents.size(); ++i) {
    shape.extents[i] = key[1 + i];
    shape.box[i] = uint32_t(plan.box[i]);
  }
  for (size_t i = 0; i < plan.strides.size(); ++i)
    shape.strides[i] = key[1 + plan.extents.size() + i];
  if (std::string why = driver.encodeTensorMap(shape, map); !why.empty())
    raise(TILERY_LAUNCH_ERROR,
          "argument '{}' of kernel '{}' cannot be copied in bulk: its tensor {}\nhint: pass memory "
          "aligned to 16 bytes with strides that are multiples of 16 bytes",
          image.parameters.at(size_t(plan.pointer)).name, image.name, why);
}

void TensorMapCache::fill(hal::Driver &driver, const KernelImage &image,
                          const uint64_t *arguments, hal::TensorMap &map) {
  Key key = evaluateKey(arguments);
  std::lock_guard lock(mutex);
  for (const Entry &entry : entries)
    if (entry.used && entry.key == key) {
      map = entry.map;
      return;
    }
  Entry &entry = entries[next++ % entries.size()];
  entry.used = false;
  encode(driver, image, key, entry.map);
  entry.key = key;
  entry.used = true;
  map = entry.map;
}

} // namespace tilery::rt
