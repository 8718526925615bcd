// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Interned constants and options; constants as JSON.
#include "capi/bindings.h"

#include "capi/options.h"
#include "compiler/Frontend/Module.h"

#include <cmath>
#include <map>
#include <mutex>

using namespace tilery;
using namespace tilery::capi;
namespace json = llvm::json;

json::Object capi::parseObject(const char *text, const char *what) {
  llvm::Expected<json::Value> value = json::parse(text);
  if (!value)
    rt::raise(TILERY_CONFIG_ERROR, "{} is not JSON: {}", what, llvm::toString(value.takeError()));
  if (json::Object *object = value->getAsObject())
    return std::move(*object);
  rt::raise(TILERY_CONFIG_ERROR, "{} must be a JSON object", what);
}

static json::Value integerBinding(__int128 value) {
  if (value >= INT64_MIN && value <= INT64_MAX)
    return int64_t(value);
  return frontend::toString(value);
}

static json::Value floatBinding(double value) {
  if (std::isnan(value))
    return "nan";
  if (std::isinf(value))
    return value > 0 ? "inf" : "-inf";
  return value;
}

json::Value capi::bindingOf(const frontend::Value &value) {
  auto one = [](const char *kind, json::Value inner) {
    return json::Value(json::Object{{kind, std::move(inner)}});
  };
  if (value.isNone())
    return one("none", nullptr);
  if (auto *boolean = value.get<bool>())
    return one("bool", *boolean);
  if (auto *integer = value.get<frontend::Int>())
    return one("int", integerBinding(integer->value));
  if (auto *real = value.get<double>())
    return one("float", floatBinding(*real));
  if (auto *text = value.get<std::string>())
    return one("str", *text);
  if (auto *type = value.get<frontend::TypeValue>(); type && type->element.isScalar())
    return one("dtype", frontend::nameOf(type->element.dtype));
  if (const frontend::Tuple *tuple = value.tuple()) {
    json::Array elements;
    for (const frontend::Value &element : tuple->elements)
      elements.push_back(bindingOf(element));
    return one("tuple", std::move(elements));
  }
  return nullptr;
}

frontend::DType capi::dtypeOf(uint8_t dtype) {
  if (dtype >= TILERY_SIGNAL)
    rt::raise(TILERY_LAUNCH_ERROR, "{} is not the number of a dtype", dtype);
  return frontend::DType(dtype);
}

namespace {
// Texts to numbers, for the life of the process.
struct Constants {
  std::mutex mutex;
  std::map<std::string, uint64_t> ids;
  std::vector<frontend::Value> values;
};
Constants &constants() {
  static Constants all;
  return all;
}
} // namespace

frontend::Value capi::internedConstant(uint64_t id) {
  std::lock_guard lock(constants().mutex);
  if (id >= constants().values.size())
    rt::raise(TILERY_LAUNCH_ERROR, "{} is not the id of a constant", id);
  return constants().values[id];
}

extern "C" tilery_status tilery_constant_intern(const char *binding_json, uint64_t *id) {
  return guardedCompile([&] {
    json::Object binding = parseObject(&require(binding_json, "the binding"), "the binding");
    std::lock_guard lock(constants().mutex);
    auto [entry, isNew] = constants().ids.try_emplace(binding_json, constants().values.size());
    if (isNew) {
      try {
        constants().values.push_back(frontend::parseBinding(json::Value(std::move(binding))));
      } catch (...) {
        constants().ids.erase(entry);
        throw;
      }
    }
    require(id, "the result") = entry->second;
  });
}
