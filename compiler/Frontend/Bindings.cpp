// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Values that Python hands over as JSON, and the members of the language's modules.
#include "compiler/Frontend/Generator.h"

#include <limits>
#include <stdexcept>

namespace tilery::frontend {

static const std::map<std::string, std::vector<std::string>> &enumerations() {
  static const std::map<std::string, std::vector<std::string>> all = {
      {"Compare", {"EQ", "NE", "GT", "LE", "LT", "GE"}},
      {"SignalOp", {"SET", "ADD"}},
      {"Scope", {"INSTANCE", "DEVICE", "SYSTEM"}},
      {"PropagateNan", {"NONE", "ALL"}}};
  return all;
}

static std::optional<Value> enumMember(const std::string &kind, const std::string &member) {
  auto found = enumerations().find(kind);
  if (found == enumerations().end())
    return std::nullopt;
  auto place = llvm::find(found->second, member);
  if (place == found->second.end())
    return std::nullopt;
  return Value(EnumValue{kind, member, int(place - found->second.begin())});
}

static std::string lastPart(const std::string &dotted) {
  return dotted.substr(dotted.rfind('.') + 1);
}

static bool isModule(const std::string &name) {
  static const std::set<std::string> modules = {
      "tilery",           "tilery.language",        "tilery.language.core",
      "tilery.language.device", "tilery.language.math", "tilery.language.standard",
      "tilery.language.extra", "tilery.language.extra.libdevice"};
  return modules.contains(name);
}

// Modules whose members are those of the core level.
static std::string canonicalModule(const std::string &module) {
  if (module == "tilery.language.device" || !module.starts_with("tilery.language"))
    return module;
  return "tilery.language";
}

std::optional<Value> languageMember(const std::string &module, const std::string &name) {
  if (isModule(module + "." + name) && !(module == "tilery.language" && findBuiltin(module, name)))
    return Value(ModuleValue{module + "." + name});
  if (std::optional<Value> member = enumMember(lastPart(module), name))
    return member;
  if (enumerations().contains(name))
    return Value(ModuleValue{module + "." + name});
  std::string home = canonicalModule(module);
  if (home == "tilery.language")
    if (std::optional<DType> type = dtypeNamed(name); type && name != "bool")
      return Value(TypeValue{{ElementType::Kind::Scalar, *type}});
  if (const Builtin *builtin = findBuiltin(home, name))
    return Value(BuiltinValue{builtin});
  return std::nullopt;
}

static Value parseInt(const llvm::json::Value &value) {
  if (auto integer = value.getAsInteger())
    return Int{*integer};
  if (auto integer = value.getAsUINT64())
    return Int{__int128(*integer)};
  llvm::StringRef text = value.getAsString().value_or("");
  bool negative = text.consume_front("-");
  uint64_t magnitude;
  if (text.getAsInteger(10, magnitude))
    throw std::invalid_argument("malformed integer binding");
  return Int{negative ? -__int128(magnitude) : __int128(magnitude)};
}

static Value parseFloat(const llvm::json::Value &value) {
  if (auto number = value.getAsNumber())
    return *number;
  llvm::StringRef text = value.getAsString().value_or("");
  double infinity = std::numeric_limits<double>::infinity();
  if (text == "inf")
    return infinity;
  if (text == "-inf")
    return -infinity;
  if (text == "nan")
    return std::numeric_limits<double>::quiet_NaN();
  throw std::invalid_argument("malformed float binding");
}

static Value parseJit(const llvm::json::Object &request) {
  std::shared_ptr<Module> module = Module::fromRequest(request);
  return FunctionValue{module->function(request.getString("name").value_or("").str()), module};
}

static Value parseMember(const std::string &path) {
  size_t dot = path.rfind('.');
  if (dot != std::string::npos)
    if (std::optional<Value> member = languageMember(path.substr(0, dot), path.substr(dot + 1)))
      return *member;
  throw std::invalid_argument("the language has no '" + path + "'");
}

// {"class": "Pair", "fields": ["x", "y"], "defaults": {"y": binding}}
static std::shared_ptr<const TupleFields> parseFields(const llvm::json::Object &object) {
  auto fields = std::make_shared<TupleFields>();
  fields->className = object.getString("class").value_or("").str();
  const llvm::json::Object *defaults = object.getObject("defaults");
  if (auto *names = object.getArray("fields"))
    for (const llvm::json::Value &name : *names) {
      fields->names.push_back(name.getAsString().value_or("").str());
      const llvm::json::Value *value = defaults ? defaults->get(fields->names.back()) : nullptr;
      fields->defaults.push_back(value ? std::optional(parseBinding(*value)) : std::nullopt);
    }
  return fields;
}

// The fields, and "values": [binding...]
static Value parseNamedTuple(const llvm::json::Object &object) {
  std::vector<Value> elements;
  if (auto *values = object.getArray("values"))
    for (const llvm::json::Value &value : *values)
      elements.push_back(parseBinding(value));
  auto fields = parseFields(object);
  if (elements.size() != fields->names.size())
    throw std::invalid_argument("a named tuple needs one value for each field");
  return makeTuple(std::move(elements), fields);
}

Value parseBinding(const llvm::json::Value &binding) {
  const llvm::json::Object *object = binding.getAsObject();
  if (!object || object->size() != 1)
    throw std::invalid_argument("a binding is an object with one key");
  std::string kind = object->begin()->first.str();
  const llvm::json::Value &value = object->begin()->second;
  std::string text = value.getAsString().value_or("").str();
  if (kind == "int")
    return parseInt(value);
  if (kind == "float")
    return parseFloat(value);
  if (kind == "bool")
    return value.getAsBoolean().value_or(false);
  if (kind == "str")
    return text;
  if (kind == "none")
    return None{};
  if (kind == "module")
    return ModuleValue{text};
  if (kind == "builtin" || kind == "enum")
    return parseMember(text);
  if (kind == "dtype") {
    if (std::optional<DType> type = dtypeNamed(text))
      return TypeValue{{ElementType::Kind::Scalar, *type}};
    throw std::invalid_argument("unknown dtype '" + text + "'");
  }
  if (kind == "jit" && value.getAsObject())
    return parseJit(*value.getAsObject());
  if (kind == "tuple_class" && value.getAsObject())
    return TupleClass{parseFields(*value.getAsObject())};
  if (kind == "named_tuple" && value.getAsObject())
    return parseNamedTuple(*value.getAsObject());
  if (kind == "tuple" && value.getAsArray()) {
    std::vector<Value> elements;
    for (const llvm::json::Value &element : *value.getAsArray())
      elements.push_back(parseBinding(element));
    return makeTuple(std::move(elements));
  }
  throw std::invalid_argument("unknown kind of binding '" + kind + "'");
}

} // namespace tilery::frontend
