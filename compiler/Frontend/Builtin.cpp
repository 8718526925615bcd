// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// The table of the language's functions, built once from signature strings.
#include "compiler/Frontend/Builtin.h"

#include "llvm/ADT/StringRef.h"

namespace tilery::frontend {

static Value parseDefault(llvm::StringRef text) {
  long long integer;
  double real;
  if (text == "None")
    return None{};
  if (text == "True" || text == "False")
    return text == "True";
  if (text.starts_with("'"))
    return text.drop_front().drop_back().str();
  if (text == "()")
    return makeTuple({});
  if (!text.getAsInteger(10, integer))
    return Int{integer};
  if (!text.getAsDouble(real))
    return real;
  return TypeValue{{ElementType::Kind::Scalar, *dtypeNamed(text)}};
}

static std::vector<BuiltinParameter> parseSignature(llvm::StringRef signature) {
  std::vector<BuiltinParameter> parameters;
  llvm::SmallVector<llvm::StringRef> parts;
  signature.split(parts, ',', -1, /*KeepEmpty=*/false);
  for (llvm::StringRef part : parts) {
    auto [name, value] = part.trim().split('=');
    BuiltinParameter parameter;
    parameter.variadic = name.consume_front("*");
    parameter.name = name.trim().str();
    if (!value.empty())
      parameter.defaultValue = parseDefault(value.trim());
    parameters.push_back(std::move(parameter));
  }
  return parameters;
}

void BuiltinTable::add(const std::string &module, const std::string &name,
                       const std::string &signature, Emit emit, bool isMethod) {
  modules[module][name] = {name, parseSignature(signature), std::move(emit), isMethod};
}

static const BuiltinTable &table() {
  static const BuiltinTable built = [] {
    BuiltinTable table;
    addProgrammingBuiltins(table);
    addShapeBuiltins(table);
    addMathBuiltins(table);
    addMemoryBuiltins(table);
    addBlockPointerBuiltins(table);
    addAtomicBuiltins(table);
    addReductionBuiltins(table);
    addSortingBuiltins(table);
    addDotBuiltins(table);
    addDeviceBuiltins(table);
    addPythonBuiltins(table);
    return table;
  }();
  return built;
}

const Builtin *findBuiltin(const std::string &module, const std::string &name) {
  auto members = table().modules.find(module);
  if (members == table().modules.end())
    return nullptr;
  auto found = members->second.find(name);
  return found == members->second.end() ? nullptr : &found->second;
}

std::vector<std::string> builtinNames(const std::string &module) {
  std::vector<std::string> names;
  if (auto members = table().modules.find(module); members != table().modules.end())
    for (const auto &entry : members->second)
      names.push_back(entry.first);
  return names;
}

const Builtin *findMethod(const std::string &name) {
  const Builtin *builtin = findBuiltin("tilery.language", name);
  if (name == "to")
    return findBuiltin("tilery.language", "cast");
  return builtin && builtin->isMethod ? builtin : nullptr;
}

} // namespace tilery::frontend
