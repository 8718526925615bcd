// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Module-level names: from the tokens of a file, read lazily so that host code in the same
// file need not be of the kernel language; or from Python's bindings.
#include "compiler/Frontend/Module.h"

#include "compiler/Frontend/Generator.h"
#include "compiler/Frontend/Parser.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace tilery::frontend {

Module::Module(SourceText text) : source(std::make_shared<SourceText>(std::move(text))) {
  tokens = tokenize(*source);
}

std::shared_ptr<Module> Module::fromText(const std::string &file, const std::string &text) {
  std::shared_ptr<Module> module(new Module({file, 1, text}));
  module->scan();
  return module;
}

std::shared_ptr<Module> Module::fromFile(const std::string &path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream)
    throw std::runtime_error("cannot read the kernel file '" + path + "'");
  std::stringstream text;
  text << stream.rdbuf();
  return fromText(path, text.str());
}

std::shared_ptr<Module> Module::fromRequest(const llvm::json::Object &request) {
  auto string = [&](const char *key) { return request.getString(key).value_or("").str(); };
  std::shared_ptr<Module> module(
      new Module({string("file"), int(request.getInteger("line").value_or(1)), string("source"),
                  int(std::clamp<int64_t>(request.getInteger("indent").value_or(0), 0, 10000))}));
  module->scan();
  if (auto *given = request.getObject("files")) {
    auto texts = std::make_shared<Files>();
    for (const auto &[path, text] : *given)
      (*texts)[path.str()] = text.getAsString().value_or("").str();
    module->files = texts;
  }
  if (auto *bindings = request.getObject("bindings"))
    for (const auto &[name, binding] : *bindings)
      module->resolved[name.str()] = parseBinding(binding);
  return module;
}

// Cuts the tokens into module-level statements; a block belongs to the line before it.
void Module::scan() {
  size_t begin = 0, depth = 0;
  for (size_t i = 0; i < tokens.size(); ++i) {
    Token::Kind kind = tokens[i].kind;
    if (kind == Token::Kind::Indent)
      ++depth;
    if (kind == Token::Kind::Dedent && depth > 0)
      --depth;
    bool ends = (kind == Token::Kind::Newline || kind == Token::Kind::Dedent) && depth == 0 &&
                tokens[i + 1].kind != Token::Kind::Indent && !tokens[begin].isOperator("@");
    // A decorator's line belongs to the definition after it.
    if (kind == Token::Kind::Dedent && depth == 0 && tokens[begin].isOperator("@"))
      ends = true;
    if (!ends && kind == Token::Kind::Newline && depth == 0 && tokens[begin].isOperator("@"))
      ends = oneLineFunctionEnds(begin, i);
    if (ends || kind == Token::Kind::End) {
      if (i > begin)
        scanStatement(begin, i + 1);
      begin = i + 1;
    }
  }
}

// `@jit` newline `def f(x): return x` newline: the second line ends the definition.
bool Module::oneLineFunctionEnds(size_t begin, size_t newline) const {
  size_t lineBegin = newline;
  while (lineBegin > begin && tokens[lineBegin - 1].kind != Token::Kind::Newline)
    --lineBegin;
  return !tokens[lineBegin].isOperator("@") && tokens[newline + 1].kind != Token::Kind::Indent;
}

void Module::scanStatement(size_t begin, size_t end) {
  const Token &first = tokens[begin];
  if (first.isName("import"))
    return scanImport(begin + 1, end);
  if (first.isName("from"))
    return scanFrom(begin + 1, end);
  if (first.isOperator("@") || first.isName("def")) {
    for (size_t i = begin; i + 1 < end; ++i)
      if (tokens[i].isName("def") && tokens[i + 1].kind == Token::Kind::Name) {
        definitions[tokens[i + 1].text] = {begin, end, true};
        return;
      }
    return;
  }
  if (first.isName("class"))
    return scanClass(begin, end);
  bool assigns = first.kind == Token::Kind::Name && begin + 1 < end &&
                 (tokens[begin + 1].isOperator("=") || tokens[begin + 1].isOperator(":"));
  if (assigns)
    definitions[first.text] = {begin, end, false};
}

static std::string dottedName(const std::vector<Token> &tokens, size_t &i) {
  std::string name;
  while (tokens[i].kind == Token::Kind::Name || tokens[i].isOperator(".") ||
         tokens[i].isOperator("...")) {
    bool follows = !name.empty() && name.back() != '.' && tokens[i].kind == Token::Kind::Name;
    if (follows)
      break;
    name += tokens[i++].text;
  }
  return name;
}

// class Pair(NamedTuple): with fields `name: annotation` or `name: annotation = constant`. Other
// classes are host code.
void Module::scanClass(size_t begin, size_t end) {
  size_t i = begin + 3;
  if (end < begin + 5 || !tokens[begin + 2].isOperator("("))
    return;
  std::string base = dottedName(tokens, i);
  if (base != "NamedTuple" && !base.ends_with(".NamedTuple"))
    return;
  auto fields = std::make_shared<TupleFields>();
  fields->className = tokens[begin + 1].text;
  for (bool lineStarts = false; i < end; ++i) {
    Token::Kind kind = tokens[i].kind;
    if (lineStarts && kind == Token::Kind::Name && tokens[i + 1].isOperator(":")) {
      fields->names.push_back(tokens[i].text);
      fields->defaults.push_back(fieldDefault(i, end));
    }
    lineStarts = kind == Token::Kind::Newline || kind == Token::Kind::Indent;
  }
  resolved[fields->className] = TupleClass{fields};
}

// The constant after '=' in the line of a field that begins at token `i`.
std::optional<Value> Module::fieldDefault(size_t i, size_t end) {
  size_t equals = i;
  while (equals < end && tokens[equals].kind != Token::Kind::Newline &&
         !tokens[equals].isOperator("="))
    ++equals;
  if (equals >= end || !tokens[equals].isOperator("="))
    return std::nullopt;
  std::vector<Token> part;
  for (size_t at = equals + 1; at < end && tokens[at].kind != Token::Kind::Newline; ++at)
    part.push_back(tokens[at]);
  part.push_back(tokens.back()); // End
  return evaluateConstant(*this, *Parser(part).parseExpressionList());
}

// import tilery.language as tl, tilery.language.device as dl
void Module::scanImport(size_t i, size_t end) {
  while (i < end && tokens[i].kind == Token::Kind::Name) {
    std::string module = dottedName(tokens, i);
    std::string bound = module.substr(0, module.find('.'));
    if (tokens[i].isName("as") && i + 1 < end) {
      bound = tokens[i + 1].text;
      i += 2;
    } else {
      module = bound;
    }
    resolved[bound] = ModuleValue{module};
    if (!tokens[i].isOperator(","))
      return;
    ++i;
  }
}

// from tilery.language import device as dl; from activations import gelu
void Module::scanFrom(size_t i, size_t end) {
  std::string module = dottedName(tokens, i);
  if (!tokens[i].isName("import"))
    return;
  for (++i; i < end; ++i) {
    if (tokens[i].kind != Token::Kind::Name)
      continue;
    std::string name = tokens[i].text, bound = name;
    if (tokens[i + 1].isName("as") && i + 2 < end) {
      bound = tokens[i + 2].text;
      i += 2;
    }
    imports[bound] = {module, name};
  }
}

// `from activations import gelu` and `from .activations` name a file beside this one, each
// further dot a folder up.
static std::string pathOfModule(const std::string &file, std::string name) {
  std::filesystem::path folder = std::filesystem::path(file).parent_path();
  size_t dots = std::min(name.find_first_not_of('.'), name.size());
  for (size_t i = 1; i < dots; ++i)
    folder /= "..";
  name.erase(0, dots);
  std::replace(name.begin(), name.end(), '.', '/');
  return (folder / (name + ".py")).lexically_normal().string();
}

std::shared_ptr<Module> Module::importedModule(const std::string &name) {
  std::string path = pathOfModule(source->file, name);
  std::shared_ptr<Module> &module = importedModules[path];
  if (module)
    return module;
  if (files && files->contains(path))
    module = fromText(path, files->at(path));
  else if (std::filesystem::exists(path))
    module = fromFile(path);
  if (module)
    module->files = files;
  return module;
}

std::optional<Value> Module::lookupImport(const std::string &name) {
  auto found = imports.find(name);
  if (found == imports.end())
    return std::nullopt;
  const auto &[module, member] = found->second;
  if (std::optional<Value> value = languageMember(module, member))
    return value;
  if (std::shared_ptr<Module> other = importedModule(module))
    return other->lookup(member);
  return ModuleValue{module + "." + member};
}

static bool isJit(const FunctionDef &function) {
  for (const ExprPtr &decorator : function.decorators) {
    const Expr *name = decorator.get();
    if (auto *call = llvm::dyn_cast<CallExpr>(name))
      name = call->callee.get();
    auto *attribute = llvm::dyn_cast<AttributeExpr>(name);
    auto *plain = llvm::dyn_cast<NameExpr>(name);
    std::string last = attribute ? attribute->name : plain ? plain->name : "";
    if (last == "jit" || last == "constexpr_function")
      return true;
  }
  return false;
}

std::shared_ptr<const FunctionDef> Module::function(const std::string &name) {
  if (auto found = functions.find(name); found != functions.end())
    return found->second;
  auto definition = definitions.find(name);
  if (definition == definitions.end() || !definition->second.isFunction) {
    std::vector<std::string> known;
    for (const auto &[other, entry] : definitions)
      if (entry.isFunction)
        known.push_back(other);
    std::string nearest = nearestName(name, known);
    throw CompileError({source.get(), 1, 1, 1, 2}, "there is no function '" + name + "' in " + source->file)
        .hint(nearest.empty() ? "a kernel is a `def` at module level" : "did you mean '" + nearest + "'?");
  }
  auto [begin, end, isFunction] = definition->second;
  std::vector<Token> part(tokens.begin() + begin, tokens.begin() + end);
  part.push_back(tokens.back()); // End
  std::shared_ptr<const FunctionDef> function = Parser(part).parseFunction();
  functions[name] = function;
  return function;
}

std::optional<Value> Module::lookup(const std::string &name) {
  if (auto found = resolved.find(name); found != resolved.end())
    return found->second;
  if (std::optional<Value> imported = lookupImport(name))
    return imported;
  auto definition = definitions.find(name);
  if (definition == definitions.end())
    return std::nullopt;
  if (!definition->second.isFunction)
    return resolved[name] = evaluateAssignment(name, definition->second);
  std::shared_ptr<const FunctionDef> callee = function(name);
  if (!isJit(*callee))
    throw CompileError(callee->range, "'" + name + "' is not a kernel function")
        .hint("decorate it with @ty.jit to call it from a kernel");
  return Value(FunctionValue{callee, shared_from_this()});
}

Value Module::evaluateAssignment(const std::string &name, const Definition &definition) {
  std::vector<Token> part(tokens.begin() + definition.begin, tokens.begin() + definition.end);
  part.push_back(tokens.back());
  if (!evaluating.insert(name).second)
    throw CompileError(part[0].range, "the value of '" + name + "' depends on itself");
  Block block;
  Parser(part).parseSimpleLine(block);
  const Expr *value = nullptr;
  if (auto *assign = llvm::dyn_cast<AssignStmt>(block.at(0).get()))
    value = assign->value.get();
  if (auto *annotated = llvm::dyn_cast<AnnAssignStmt>(block.at(0).get()))
    value = annotated->value.get();
  if (!value)
    throw CompileError(part[0].range, "'" + name + "' has no value that a kernel can use");
  Value result = evaluateConstant(*this, *value);
  evaluating.erase(name);
  return result;
}

std::vector<std::string> Module::names() const {
  std::vector<std::string> all;
  for (const auto &entry : resolved)
    all.push_back(entry.first);
  for (const auto &entry : definitions)
    all.push_back(entry.first);
  for (const auto &entry : imports)
    all.push_back(entry.first);
  return all;
}

} // namespace tilery::frontend
