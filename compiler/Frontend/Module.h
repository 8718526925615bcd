// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Where a kernel's source comes from and what its global names mean: a whole Python file read
// without Python, or a function's text with bindings handed over by the Python package.
#pragma once

#include "compiler/Frontend/Lexer.h"
#include "compiler/Frontend/Value.h"

#include "llvm/Support/JSON.h"

#include <set>

namespace tilery::frontend {

/// Constants and functions that one source names. Functions of one module share it.
class Module : public std::enable_shared_from_this<Module> {
public:
  /// Reads a file: finds imports, simple assignments and functions at module level; everything
  /// else is skipped. Throws CompileError, or std::runtime_error when the file cannot be read.
  static std::shared_ptr<Module> fromFile(const std::string &path);
  static std::shared_ptr<Module> fromText(const std::string &file, const std::string &text);
  /// Texts by path that imports find before the disk.
  using Files = std::map<std::string, std::string>;
  /// From the request of tilery_function_create (tilery.h).
  static std::shared_ptr<Module> fromRequest(const llvm::json::Object &request);

  /// The function; throws CompileError when it is not there, naming the ones that are.
  std::shared_ptr<const FunctionDef> function(const std::string &name);
  /// Meaning of a global name, or nullopt. Throws when the name's definition is not of the
  /// kernel language.
  std::optional<Value> lookup(const std::string &name);
  std::vector<std::string> names() const;
  const SourceText &sourceText() const { return *source; }

private:
  struct Definition {
    size_t begin, end;  // tokens
    bool isFunction;
  };
  explicit Module(SourceText text);
  std::shared_ptr<Module> importedModule(const std::string &name);
  void scan();
  void scanStatement(size_t begin, size_t end);
  void scanClass(size_t begin, size_t end);
  std::optional<Value> fieldDefault(size_t i, size_t end);
  void scanImport(size_t begin, size_t end);
  void scanFrom(size_t begin, size_t end);
  bool oneLineFunctionEnds(size_t begin, size_t newline) const;
  std::optional<Value> lookupImport(const std::string &name);
  Value evaluateAssignment(const std::string &name, const Definition &definition);

  std::shared_ptr<SourceText> source;
  std::vector<Token> tokens;
  std::map<std::string, Definition> definitions;
  std::map<std::string, std::pair<std::string, std::string>> imports; // module, member
  std::shared_ptr<const Files> files;
  std::map<std::string, std::shared_ptr<Module>> importedModules; // by path
  std::map<std::string, Value> resolved;
  std::map<std::string, std::shared_ptr<const FunctionDef>> functions;
  std::set<std::string> evaluating;
};

/// A binding of tilery.h as a value. Throws std::invalid_argument for a malformed one.
Value parseBinding(const llvm::json::Value &binding);
/// `tilery.language.cdiv` and the like; nullopt when the language has no such name.
std::optional<Value> languageMember(const std::string &module, const std::string &name);

} // namespace tilery::frontend
