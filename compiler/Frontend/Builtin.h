// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// The language's functions: one table of names, signatures and what each emits.
#pragma once

#include "compiler/Frontend/Value.h"

#include <functional>

namespace tilery::frontend {

class Generator;

/// Bound arguments in signature order; a *parameter holds a tuple.
using Arguments = std::vector<Value>;
using Emit = std::function<Value(Generator &, Arguments &)>;

struct BuiltinParameter {
  std::string name;
  std::optional<Value> defaultValue;
  bool variadic = false;
};

struct Builtin {
  std::string name; // "dot"
  std::vector<BuiltinParameter> parameters;
  Emit emit;
  bool isMethod = false;
};

/// Members of a module of the language ("tilery.language", "tilery.language.device",
/// "builtins"); null when there is no such member.
const Builtin *findBuiltin(const std::string &module, const std::string &name);
std::vector<std::string> builtinNames(const std::string &module);
/// The function that `tile.name(...)` calls.
const Builtin *findMethod(const std::string &name);

/// Adds one function. `signature`: "input, axis=None, *shape" with Python literals as defaults.
class BuiltinTable {
public:
  void add(const std::string &module, const std::string &name, const std::string &signature,
           Emit emit, bool isMethod = false);
  std::map<std::string, std::map<std::string, Builtin>> modules;
};

void addProgrammingBuiltins(BuiltinTable &table);
void addShapeBuiltins(BuiltinTable &table);
void addMathBuiltins(BuiltinTable &table);
void addMemoryBuiltins(BuiltinTable &table);
void addBlockPointerBuiltins(BuiltinTable &table);
void addAtomicBuiltins(BuiltinTable &table);
void addReductionBuiltins(BuiltinTable &table);
void addSortingBuiltins(BuiltinTable &table);
void addDotBuiltins(BuiltinTable &table);
void addDeviceBuiltins(BuiltinTable &table);
void addPythonBuiltins(BuiltinTable &table);

} // namespace tilery::frontend
